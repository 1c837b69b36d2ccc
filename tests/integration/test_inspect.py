"""``ffn-ablations inspect``: from runs to a page, and what a user sees of mistakes."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from base.run.folder_names import RunFolder
from inside.ffn import command
from inside.ffn.functions import ffns_of
from inside.ffn.measure import REMOVED, inspect_run, measure_activations, open_probes
from pretrain.config import ResolvedConfig
from pretrain.resolution import load_config
from pretrain.training.training_run import train

pytestmark = pytest.mark.ci  # its runs are shared by all of its tests

TOKENS = 1500
FLAGS = ["--tokens", str(TOKENS)]
VARIANTS = ["gelu", "swish", "fourier-kan"]


def trained(runs_dir: Path, ffn: str, seed: int, family: str = "gpt_neo") -> ResolvedConfig:
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    data = {"block_size": 64, "num_stories": 400, "vocab_size": 300, "validation_fraction": 0.1}
    overrides = {
        "family": family,
        "seed": seed,
        "model": {"ffn": ffn, **sizes},
        "data": data,
        "optim": {"learning_rate": 1e-2, "max_steps": 20},
        "train": {"torch_compile": False, "logging_steps": 1},
        "output": {"runs_dir": str(runs_dir), "study": "look"},
    }
    return load_config(None, overrides=overrides)


def final_loss(run: Path) -> float:
    """The last held-out loss that a training wrote down."""
    lines = [json.loads(line) for line in RunFolder(run).metrics_file.read_text().splitlines()]
    return [line["eval_loss"] for line in lines if "eval_loss" in line][-1]


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    """Two runs each of three variants, trained for some steps."""
    runs_dir = tmp_path_factory.mktemp("runs")
    for ffn in VARIANTS:
        for seed in (1, 2):
            train(trained(runs_dir, ffn, seed))
    return runs_dir / "look"


def run_of(study: Path, ffn: str) -> Path:
    return sorted((study / "gpt_neo" / ffn).iterdir())[0]


@pytest.fixture(scope="module")
def page(study) -> Path:
    """The page of the study, which lies in its folder."""
    assert command.main([str(study), *FLAGS]) == 0
    return study / "inspection"


@pytest.mark.slow
@pytest.mark.parametrize("family", ["roberta", "t5"])
def test_the_loss_is_that_of_training_in_every_family(family, tmp_path):
    run = train(trained(tmp_path, "kan", 1, family))
    probe, _ = open_probes(run, None)
    assert probe.loss() == pytest.approx(final_loss(run), abs=1e-5)
    assert len(inspect_run(run, 600, False).edges) == 2 * len(ffns_of(probe.model))


def test_the_untrained_twin_is_what_training_began_with(study, tmp_path):
    """Held against a run of the same configuration at a rate so small that it changes nothing."""
    config = trained(tmp_path, "swish", 1)
    still = config.model_copy(update={"optim": config.optim.model_copy(update={"learning_rate": 1e-30})})
    frozen, _ = open_probes(train(still), None)
    _, start = open_probes(run_of(study, "swish"), None)
    both = (each.model.named_parameters() for each in (frozen, start))
    for (name, one), (_, other) in zip(*both, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12, msg=name)


def test_the_page_has_one_table_three_figures_and_every_number(page):
    text = (page / "inspection.md").read_text()
    assert text.count("\n| --- ") == 1
    for variant in VARIANTS:
        assert f"| `{variant}` | 2 |" in text
    assert {path.stem for path in (page / "figures").glob("*.svg")} == {"functions", "importance", "pruning"}
    assert len(text.split("</details>")) == 3
    everything = json.loads((page / "inspection.json").read_text())
    assert len(everything["runs"]) == 6
    losses = [run["loss"] for run in everything["runs"] if run["variant"] == "swish"]
    assert f"| {sum(losses) / 2:.3f} ± " in text
    html = (page / "inspection.html").read_text()
    assert "http" not in html.split("</style>")[1].replace("http://www.w3.org", "").split("<svg")[0]


def test_how_far_an_activation_moved_is_that_of_weights_read_by_hand(study):
    trained, start = open_probes(run_of(study, "swish"), TOKENS)
    activations = [module for name, module in trained.model.named_modules() if name.endswith("mlp.act")]
    moved = measure_activations(trained, start.model)
    for layer, module, x in zip(moved, activations, trained.inputs(activations), strict=True):
        now, before = (x * torch.sigmoid(beta * x) for beta in (module.beta.detach(), 1.0))
        change = (now - before).square().mean().sqrt() / before.square().mean().sqrt()
        assert layer.moved == pytest.approx(100 * float(change), rel=1e-4)
        assert layer.moved > 0.1
    assert [layer.moved for layer in measure_activations(start, start.model)] == [0, 0]
    fixed, before = open_probes(run_of(study, "gelu"), TOKENS)
    assert [layer.moved for layer in measure_activations(fixed, before.model)] == [None, None]


@pytest.mark.parametrize("ffn", ["gelu", "fourier-kan"])
def test_pruning_nothing_changes_no_bit_and_pruning_all_is_the_layer_without(study, ffn):
    path = run_of(study, ffn)
    measured = inspect_run(path, TOKENS, False)
    probe, _ = open_probes(path, TOKENS)
    whole = probe.loss()
    assert open_probes(path, None)[0].loss() == pytest.approx(final_loss(path), abs=1e-5)
    with torch.no_grad():  # a layer's output without any edge is its bias; of the last layer all that is left
        for parts in ffns_of(probe.model):
            for part in parts:
                part.register_forward_hook(lambda module, _, y: torch.zeros_like(y) + _bias(module))
    without = probe.loss()
    assert list(measured.pruning) == ["importance", "random"]
    for losses in measured.pruning.values():
        assert len(losses) == len(REMOVED)
        assert losses[0] == measured.loss == whole
        assert losses[-1] == pytest.approx(without, abs=1e-5)


def _bias(module: torch.nn.Module) -> torch.Tensor:
    biases = [p for name, p in module.named_parameters() if name.endswith("bias") and p.shape == (16,)]
    return biases[-1] if biases else torch.zeros(16)


def test_a_run_that_fails_leaves_the_others(study, tmp_path, capsys, monkeypatch):
    copies = [tmp_path / "look" / "gpt_neo" / ffn / run_of(study, ffn).name for ffn in ("gelu", "swish")]
    for ffn, copy in zip(("gelu", "swish"), copies, strict=True):
        shutil.copytree(run_of(study, ffn), copy)
    (copies[0] / "model" / "model.safetensors").unlink()
    monkeypatch.chdir(tmp_path)  # the page of what is no study lies where the command is given
    assert command.main([*map(str, copies), *FLAGS]) == 2
    assert str(copies[0]) in capsys.readouterr().err
    page = tmp_path / "inspection" / "inspection.md"
    text = page.read_text()
    assert "| `swish` | 1 |" in text
    assert f"- {copies[0]}" in text
    page.unlink()
    assert command.main([str(copies[1]), *FLAGS]) == 0
    assert "| `swish` | 1 |" in page.read_text()


def test_a_model_without_a_finite_loss_is_refused(tmp_path, write_run, capsys):
    run = write_run(tmp_path, ffn="swish")
    model = AutoModelForCausalLM.from_pretrained(run / "model")
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(float("nan"))
    model.save_pretrained(run / "model")
    assert command.main([str(run), "--out", str(tmp_path / "out"), *FLAGS]) == 2
    assert "held-out loss is nan" in capsys.readouterr().err
