"""What a saved model's folder may not bring."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, GPTNeoConfig, GPTNeoForCausalLM

from base.errors import UsageError
from base.model_folders import clean_name
from eval.backbones import backbone_runs
from ffn_variants.models.loading import load_pretrained, load_tokenizer
from pretrain.sampling import load_causal_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 16, "intermediate_size": 8}
    config = GPTNeoConfig(**sizes, attention_types=[[["global"], 1]], max_position_embeddings=8)
    GPTNeoForCausalLM(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def bring_code(folder: Path, name: str) -> None:
    """Let a folder name a class in a module that leaves a file behind when it is imported."""
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\nclass Own: pass\n")
    path = folder / name
    content = json.loads(path.read_text()) if path.exists() else {}
    classes = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"), "own.Own")
    path.write_text(json.dumps(content | {"auto_map": classes}))


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_folder_with_code_of_its_own_is_refused_and_nothing_runs(folder, name, monkeypatch):
    assert load_pretrained(AutoModelForCausalLM, folder)[0].config.hidden_size == 8
    bring_code(folder, name)
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers asks where it is not told
    for load in (
        lambda: load_pretrained(AutoModelForCausalLM, folder),
        lambda: load_tokenizer(folder),
        lambda: load_causal_model(folder),
        lambda: backbone_runs(folder, [1], folder.parent / "runs"),
    ):
        with pytest.raises(UsageError, match="names code of its own"):
            load()
    assert not (folder / "ran").exists()


def test_pickled_weights_are_not_read(folder):
    class Program:
        def __reduce__(self):
            return open, (str(folder / "ran"), "w")

    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Program()))
    with pytest.raises(UsageError, match="cannot load the model") as error:
        load_pretrained(AutoModelForCausalLM, folder)
    assert "\n" not in str(error.value)
    assert not (folder / "ran").exists()


def test_a_name_of_somebody_else_is_fit_for_a_path_and_a_line():
    names = {"gpt_neo": "gpt_neo", "..": "unnamed", "../../x": "x", "a\x1b[2Jb\nc": "a-2Jb-c", "": "unnamed"}
    assert {text: clean_name(text) for text in names} == names


def test_the_type_of_a_model_leads_to_no_folder_elsewhere(folder):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "../../../up\n"}))
    runs = folder.parent / "runs"
    (run,) = backbone_runs(folder, [1], runs)
    assert run.resolve().is_relative_to(runs.resolve())
    assert "\n" not in str(run)
