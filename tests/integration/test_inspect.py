"""``python -m eval.inspect``: from runs to a page, on every family, and what a user sees of mistakes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from base.families import get_family
from eval.inspection import command
from eval.inspection.learned_activations import look_at_resets
from eval.inspection.measure import Settings, inspect_run
from eval.inspection.probe import Probe, open_model, read_held_out, untrained
from eval.inspection.pruning import SHARES, rise_at, ways_to_prune
from eval.report.command import main as report
from eval.results.inspection import RunInspection
from ffn_variants.inside.edges import ffns_of
from ffn_variants.inside.removal import remove
from pretrain.resolution import load_config
from pretrain.run.folders import RunFolder
from pretrain.run.run_dir import read_run
from pretrain.training.train import train

pytestmark = pytest.mark.ci  # its runs are shared by all of its tests

FEW = Settings(num_tokens=1500, max_pairs=2)
FLAGS = ["--tokens", "1500", "--max-pairs", "2", "--workers", "1"]


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    """Two runs each of four variants, trained for some steps with checkpoints."""
    runs_dir = tmp_path_factory.mktemp("runs")
    for ffn in ("gelu", "swish", "gr-kan", "fourier-kan"):
        for seed in (1, 2):
            train(trained(runs_dir, ffn, seed))
    return runs_dir / "look"


def trained(runs_dir: Path, ffn: str, seed: int, family: str = "gpt_neo"):
    return load_config(None, overrides={
        "family": family, "seed": seed,
        "model": {"ffn": ffn, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
                  "num_attention_heads": 2},
        "data": {"block_size": 64, "num_stories": 400, "vocab_size": 300, "validation_fraction": 0.1},
        "optim": {"learning_rate": 1e-2, "max_steps": 60},
        "train": {"torch_compile": False, "logging_steps": 1, "save_steps": 20, "save_total_limit": 9},
        "output": {"runs_dir": str(runs_dir), "study": "look"},
    })  # fmt: skip


def run_of(study: Path, ffn: str) -> Path:
    return sorted((study / "gpt_neo" / ffn).iterdir())[0]


def opened(path: Path) -> tuple[Probe, Probe]:
    """The trained model and the one that its training began with."""
    run, config = RunFolder(path), read_run(path)
    text = read_held_out(run, config, None, None)
    model = open_model(run, config, False)
    start = untrained(config, model)
    return Probe(model, config.family, text), Probe(start, config.family, text)


@pytest.fixture(scope="module")
def page(study, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("page")
    assert command.main([str(study), "--out", str(out), *FLAGS]) == 0
    return out


def test_the_loss_is_that_of_training(study):
    for ffn in ("gelu", "fourier-kan"):
        run = RunFolder(run_of(study, ffn))
        lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
        wanted = [line["eval_loss"] for line in lines if "eval_loss" in line][-1]
        assert opened(run.path)[0].loss() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("family", ["roberta", "t5"])
def test_the_loss_is_that_of_training_in_every_family(family, tmp_path):
    run = RunFolder(train(trained(tmp_path, "kan", 1, family)))
    lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    wanted = [line["eval_loss"] for line in lines if "eval_loss" in line][-1]
    probe, _ = opened(run.path)
    assert probe.loss() == pytest.approx(wanted, abs=1e-5)
    found, _ = inspect_run(run.path, replace(FEW, num_tokens=600, pairs=""), False, lambda _: None)
    assert len(found.edges) == 2 * len(ffns_of(probe.model))
    assert get_family(family).objective != "causal"


def test_the_untrained_twin_is_what_training_began_with(study, tmp_path):
    """Held against a run of the same configuration at a rate so small that it changes nothing."""
    config = trained(tmp_path, "swish", 1)
    still = config.model_copy(update={"optim": config.optim.model_copy(update={"learning_rate": 1e-30})})
    frozen = open_model(RunFolder(train(still)), still, False)
    _, start = opened(run_of(study, "swish"))
    for (name, one), (_, other) in zip(
        frozen.named_parameters(), start.model.named_parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12, msg=name)


def test_the_page_has_its_parts_and_its_numbers(page, study):
    text = (page / "inspection.md").read_text()
    for title in ("Learned activations", "KAN edges", "Pruning", "Stability", "Across seeds", "Methods"):
        assert f"\n## {title}\n" in text
    first = text.split("**Contents:**")[0]
    assert all(f"\n{number}. " in first for number in (1, 2, 3))
    assert "Nothing is learnable in the activations of `gelu`" in text
    assert "at most 10 for `fourier-kan`" in text
    everything = json.loads((page / "inspection.json").read_text())
    assert len(everything["runs"]) == 8
    drawn = {path.stem for path in (page / "figures").glob("*.svg")}
    assert {"functions", "components", "pruning", "stability", "atlas-fourier-kan", "parameters-swish",
            "strip-gr-kan"} <= drawn  # fmt: skip
    for name in drawn:
        assert f"figures/{name}.svg" in text
    html = (page / "inspection.html").read_text()
    assert "http" not in html.split("</style>")[1].replace("http://www.w3.org", "").split("<svg")[0]
    steps = [moment["step"] for moment in everything["runs"][0]["moments"]]
    assert steps == [0, 20, 40, 60]


def test_what_was_measured_is_kept_and_drawn_again(page, study, tmp_path, capsys):
    before = {path: path.stat().st_mtime_ns for path in study.glob("*/*/*/eval/inside.json")}
    assert command.main([str(study), "--out", str(tmp_path), "--paper", *FLAGS]) == 0
    assert capsys.readouterr().err.count("known already") == 8
    assert {path: path.stat().st_mtime_ns for path in before} == before
    for path in sorted(page.rglob("*.svg")):
        again = tmp_path / path.relative_to(page)
        assert again.read_bytes() == path.read_bytes()
        assert again.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_the_report_of_the_study_repeats_the_sentences(study, tmp_path):
    assert command.main([str(study), *FLAGS]) == 0
    summary = json.loads((study / "inspection" / "findings.json").read_text())
    from eval.command import main as score

    assert score([str(study), "--suites", "embedded-pairs", "--max-pairs", "2"]) == 0
    report([str(study), "--out", str(tmp_path)])
    text = (tmp_path / "report.md").read_text()
    assert "**Inspection.** What `ffn-ablations inspect` found" in text
    for sentence in summary["sentences"]:
        assert sentence in text


def test_resets_are_those_of_weights_put_there_by_hand(study):
    probe, start = opened(run_of(study, "swish"))
    found = look_at_resets(probe, start.model, 10**6, 0)
    base = probe.loss()
    again, _ = opened(run_of(study, "swish"))
    with torch.no_grad():
        for name, parameter in again.model.named_parameters():
            if name.endswith("act.beta"):
                parameter.fill_(1.0)
    assert found["start"] == pytest.approx(again.loss() - base, abs=1e-6)
    assert probe.loss() == base  # as it was, to the bit


def test_an_untrained_model_has_used_nothing(study):
    _, start = opened(run_of(study, "gr-kan"))
    _, twin = opened(run_of(study, "gr-kan"))
    found = look_at_resets(start, twin.model, 10**6, 0)
    assert found["start"] == 0
    assert abs(found["refitted"]) < 1e-4


def test_a_scale_is_no_change_that_the_next_layer_could_not_make(tmp_path):
    """What learnable-gelu learns can stand in the weights behind it: refitting gives all of it back."""
    run = train(trained(tmp_path, "learnable-gelu", 1))
    probe, start = opened(run)
    with torch.no_grad():
        for name, parameter in probe.model.named_parameters():
            if name.endswith("act.beta"):
                parameter.mul_(torch.linspace(0.5, 3, len(parameter)))
    found = look_at_resets(probe, start.model, 10**6, 0)
    assert abs(found["start"]) > 1e-3
    assert abs(found["refitted"]) < 1e-4


@pytest.mark.parametrize("ffn", ["gelu", "gr-kan", "fourier-kan"])
def test_pruning_nothing_changes_no_bit_and_pruning_all_is_the_layer_without(study, ffn):
    path = run_of(study, ffn)
    found, _ = inspect_run(path, FEW, False, lambda _: None)
    probe, _ = opened(path)
    probe = Probe(
        probe.model, "gpt_neo", read_held_out(RunFolder(path), read_run(path), None, FEW.num_tokens)
    )
    whole = probe.loss()
    with torch.no_grad():  # a layer's output without any edge is its bias; of the last layer all that is left
        hooks = [part.register_forward_hook(lambda module, _, y: torch.zeros_like(y) + _bias(module))
                 for parts in ffns_of(probe.model) for part in parts]  # fmt: skip
    without = probe.loss()
    for hook in hooks:
        hook.remove()
    for curve in found.pruning:
        assert curve.shares == list(SHARES)
        assert curve.loss[0] == found.loss == whole
        assert curve.loss[-1] == pytest.approx(without, abs=1e-5)
        assert len(curve.accuracy) == (len(SHARES) if curve.order == "activity" else 0)


def _bias(module: torch.nn.Module) -> torch.Tensor:
    biases = [p for name, p in module.named_parameters() if name.endswith("bias") and p.shape == (16,)]
    return biases[-1] if biases else torch.zeros(16)


def test_the_pruned_model_is_the_one_of_the_curve(study):
    path = run_of(study, "fourier-kan")
    found, _ = inspect_run(path, FEW, False, lambda _: None)
    config, folder = read_run(path), path / found.pruned_model
    text = read_held_out(RunFolder(path), config, None, FEW.num_tokens)
    told = json.loads((folder / "removed.json").read_text())
    saved = Probe(AutoModelForCausalLM.from_pretrained(folder), "gpt_neo", text)
    probe = Probe(open_model(RunFolder(path), config, False), "gpt_neo", text)
    share = found.summaries["pruning edges by activity, removable"]["trained"]
    assert told["removed"] == pytest.approx(share * told["edges"], abs=4)
    remove(ways_to_prune(probe, FEW.num_tokens, config.seed)[0].removed(share))
    assert saved.loss() == pytest.approx(probe.loss(), abs=1e-6)
    assert saved.loss() - found.loss < 0.06  # what was promised, but for the line between two shares
    assert rise_at(found.pruning[0], 0.5) == pytest.approx(found.pruning[0].loss[3] - found.loss)


def test_workers_and_this_process_measure_the_same(study, tmp_path):
    numbers = []
    for workers in ("1", "2"):
        copy = tmp_path / workers
        shutil.copytree(
            study, copy / "look", ignore=shutil.ignore_patterns("inside.json", "inspection", "pruned")
        )
        out = copy / "out"
        chosen = [str(run_of(copy / "look", ffn)) for ffn in ("gelu", "swish")]
        assert command.main([*chosen, "--out", str(out), *FLAGS[:-1], workers]) == 0
        found = json.loads((out / "inspection.json").read_text())["runs"]
        numbers.append([{k: v for k, v in run.items() if k not in ("seconds", "peak_mb")} for run in found])
    assert numbers[0] == numbers[1]


def test_a_damaged_record_is_measured_again(study, tmp_path, capsys):
    copy = tmp_path / "look" / "gpt_neo" / "gelu" / run_of(study, "gelu").name
    shutil.copytree(run_of(study, "gelu"), copy)
    first, _ = inspect_run(copy, FEW, False, lambda _: None)
    record = RunFolder(copy).inspection_file
    text = record.read_text()
    record.write_text(text[: len(text) // 2])
    again, is_new = inspect_run(copy, FEW, False, lambda _: None)
    assert is_new
    assert isinstance(again, RunInspection)
    assert again.loss == first.loss


def test_a_damaged_checkpoint_is_left_out_with_a_line(study, tmp_path):
    copy = tmp_path / "look" / "gpt_neo" / "swish" / run_of(study, "swish").name
    shutil.copytree(run_of(study, "swish"), copy, ignore=shutil.ignore_patterns("eval"))
    weights = RunFolder(copy).checkpoints[40]
    weights.write_bytes(weights.read_bytes()[:-1])
    found, _ = inspect_run(copy, FEW, False, lambda _: None)
    assert [moment.step for moment in found.moments] == [0, 20, 60]
    assert any("step_0000040 cannot be read" in note for note in found.notes)


def test_a_model_without_a_finite_loss_is_refused(study, tmp_path, write_run, capsys):
    run = write_run(tmp_path, ffn="swish")
    model = AutoModelForCausalLM.from_pretrained(run / "model")
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(float("nan"))
    model.save_pretrained(run / "model")
    assert command.main([str(run), "--out", str(tmp_path / "out"), *FLAGS]) == 2
    assert "held-out loss is nan" in capsys.readouterr().err
