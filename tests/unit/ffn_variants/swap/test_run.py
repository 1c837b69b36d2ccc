"""The command from a saved model to a saved model, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, BertConfig, BertModel

from base.errors import UsageError
from base.families import FAMILIES
from ffn_variants.swap.__main__ import SwapArgs
from ffn_variants.swap.run import Settings, swap

QUICK = {"tokens": 1500, "held_out_tokens": 600, "steps": 60, "batch_tokens": 128, "batch_size": 4}


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.ci
def test_fitting_brings_the_loss_back_and_the_model_is_saved(family, ours, saved, texts, tmp_path, capsys):
    folder = saved(ours(family))
    settings = Settings(folder, "fourier-kan", (texts,), **QUICK, block_size=32, finetune_steps=5)
    result = swap(settings, tmp_path / "out")
    assert [layer.layer for layer in result.errors] == list(range(4 if family == "t5" else 2))
    for layer in result.errors:
        assert layer.error_fitted < layer.error_unfitted
    assert result.loss_finetuned is not None
    assert json.loads((tmp_path / "out/swap.json").read_text())["loss_fitted"] == result.loss_fitted
    assert "held-out loss" in capsys.readouterr().out
    model = AutoModel.from_pretrained(tmp_path / "out")
    assert (model.config.ffn, model.config.layer_ffns) == ("fourier-kan", None)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "out")) == model.config.vocab_size
    assert not list(tmp_path.glob("*.tmp-*"))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_gelu_for_gelu_is_the_same_model_even_after_fitting(family, ours, saved, texts, tmp_path):
    model = ours(family)
    result = swap(Settings(saved(model), "gelu", (texts,), **QUICK), tmp_path / "out")
    assert result.loss_before == result.loss_swapped == result.loss_fitted
    assert max(layer.error_fitted for layer in result.errors) < 1e-15  # of sums in another order
    before = model.state_dict()
    for name, tensor in type(model).from_pretrained(tmp_path / "out").state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_a_stock_model_in_a_runs_folder_loses_only_its_chosen_ffn(stock, saved, texts, tmp_path):
    saved(stock("gpt_neo"), "run/model")
    settings = Settings(tmp_path / "run", "swiglu", (texts,), **QUICK, layers=(1,), ffn_budget="params")
    result = swap(settings, tmp_path / "out")
    assert (result.layers, result.ffn_before) == ([1], ["gelu"])
    assert abs(result.parameters_after["ffn"] / result.parameters_before["ffn"] - 1) < 0.05
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert [each["ffn"] for each in model.config.layer_ffns] == ["gelu", "swiglu"]


def refused(settings: Settings, out: Path, match: str) -> None:
    with pytest.raises(UsageError, match=match) as error:
        swap(settings, out)
    assert "\n" not in str(error.value)
    assert not out.exists()


def test_what_cannot_be_done_is_told_in_one_line(ours, saved, texts, tmp_path):
    folder, out = saved(ours("gpt_neo")), tmp_path / "out"
    short = tmp_path / "short.jsonl"
    short.write_text(json.dumps({"text": "Once upon a time there was a cat who sat."}) + "\n")
    refused(Settings(folder, "kan", (short,)), out, "1 pieces of text to fit to and 0 held out")
    refused(Settings(folder, "kan", (tmp_path / "none.txt",)), out, "no such file")
    refused(Settings(folder, "kam", (texts,)), out, "unknown FFN variant 'kam'; did you mean 'kan'")
    refused(Settings(folder, "kan", (texts,), layers=(2,)), out, "--layers 2: .* are 0 to 1")
    refused(Settings(folder, "kan", (texts,), block_size=66), out, "positions, got 66")
    refused(
        Settings(folder, "kan", (texts,)), short / "out", "short.jsonl is a file, so nothing can be saved"
    )
    refused(Settings(folder, "kan", (texts,), text_field="story"), out, "has no field 'story'")
    refused(Settings(tmp_path / "nothing" / "here" / "at-all", "kan", (texts,)), out, "holds no saved model")
    bert = BertConfig(hidden_size=8, num_attention_heads=1, intermediate_size=8, num_hidden_layers=1)
    BertModel(bert).save_pretrained(tmp_path / "bert")
    match = "a model of type 'bert'; possible are gpt_neo, roberta, t5, llama"
    refused(Settings(tmp_path / "bert", "kan", (texts,)), out, match)
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="there exists; name another folder with --out"):
        swap(Settings(folder, "kan", (texts,)), tmp_path / "there")


def test_the_flags_have_the_defaults_of_the_settings():
    args = SwapArgs(model=Path("m"), ffn="kan", data=(Path("t"),))
    given = {name: value for name, value in vars(args).items() if name != "out"}
    assert Settings(**given) == Settings(Path("m"), "kan", (Path("t"),))
