"""Variants of a user's own file, and edited ones: their runs, copies, studies, and the model elsewhere."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import slurm.study.cells
from base.errors import UsageError
from base.records import peek_record
from base.run.folder_names import RunFolder
from eval.config import EvalConfig
from eval.evaluate import evaluate_runs
from ffn_variants import FFN_VARIANTS
from ffn_variants.source_fingerprint import source_fingerprint
from pretrain.resolution import load_config
from pretrain.training.dry_run import check_usable, describe_run
from pretrain.training.training_run import train
from report.inputs.run_facts import read_facts
from slurm.cell_state import read_state
from slurm.snapshot import take_snapshot
from slurm.study.cells import contents
from slurm.study.cells import own_variants as own_of
from slurm.study.study import load_study
from slurm.worker import run_cells
from tests.cases import FEW_TASKS, forget_variants, listed
from tests.processes import run_command

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "16", "--model.intermediate-size", "32", "--model.num-hidden-layers", "1"),
    *("--optim.max-steps", "4", "--train.save-steps", "2", "--train.no-torch-compile"),
]


@pytest.fixture(scope="module")
def place(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a user's file."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copy(repository / "examples/xielu.py", folder / "mine.py")
    return folder


def train_with(place: Path, file: Path):
    """Train with the variant of a file, by the command."""
    return run_command("pretrain.train", "--ffn", f"{file}:XIELU", *TINY, "--runs-dir", place / "runs")


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    """The folder of a finished run with that file."""
    done = train_with(place, place / "mine.py")
    assert done.returncode == 0, done.stderr
    (path,) = (place / "runs/default/gpt_neo/my-xielu").iterdir()
    return path


def test_the_run_keeps_the_file_and_its_fingerprint(run: Path, place: Path) -> None:
    assert (run / "variant.py").read_bytes() == (place / "mine.py").read_bytes()
    config = (run / "config.yaml").read_text()
    assert "\n  ffn: my-xielu\n" in config
    assert f"\n  ffn_file: {place}/mine.py:XIELU\n" in config
    completion = peek_record(run / "COMPLETED")
    assert {"model/ffn_my-xielu.py", "model/modeling_ffn.py"} < set(completion["files"])
    model = json.loads((run / "model/config.json").read_text())
    source = peek_record(run / "provenance.json")["variant_source"]
    assert len(source) == 12
    assert model["ffn_source"] == source


@pytest.mark.ci
def test_the_same_command_finds_the_run_wherever_the_file_lies(run: Path, place: Path) -> None:
    again = place / "again" / "other.py"
    again.parent.mkdir()
    again.write_text((place / "mine.py").read_text() + "# a thought\n")  # which is no other formula
    assert "is finished; nothing to do" in train_with(place, again).stdout
    again.unlink()
    gone = train_with(place, again)
    assert gone.returncode == 2
    assert gone.stderr.startswith(f"error: {again}: no such file; give path/to/mine.py:SPEC, or the copy of")
    assert "nothing to do" in train_with(place, run / "variant.py").stdout
    refused = run_command("pretrain.train", run / "config.yaml")
    assert refused.returncode == 2
    assert f"{run}/config.yaml: its FFN variant is in {place}/mine.py:XIELU, which is code" in refused.stderr
    assert refused.stderr.endswith(f"consent to run it: type --ffn {run}/variant.py:XIELU\n")
    typed = run_command("pretrain.train", run / "config.yaml", "--ffn", f"{run}/variant.py:XIELU")
    assert "nothing to do" in typed.stdout, typed.stderr


@pytest.mark.ci
def test_an_edited_formula_is_another_run(run: Path, place: Path) -> None:
    edited = place / "edited.py"
    edited.write_text((place / "mine.py").read_text() + "HALF = 0.5\n")
    done = train_with(place, edited)
    assert "nothing to do" not in done.stdout, done.stderr
    (other,) = set(run.parent.iterdir()) - {run}
    assert (other / "variant.py").read_text() == edited.read_text() != (run / "variant.py").read_text()


@pytest.mark.ci
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("raise SystemExit\n")])
def test_a_lost_or_damaged_copy_is_made_again(run, place, damage):
    damage(run / "variant.py")
    before = (run / "model/model.safetensors").stat().st_mtime_ns
    done = train_with(place, place / "mine.py")
    assert done.returncode == 0, done.stderr
    assert (run / "variant.py").read_bytes() == (place / "mine.py").read_bytes()
    assert (run / "model/model.safetensors").stat().st_mtime_ns == before


def test_the_card_says_what_to_read_first_and_its_code_works(run, own_variants):
    card = (run / "model/README.md").read_text()
    code = card.split("```python\n")[1].split("```")[0].replace("path/to/this/folder", f"{run}/model")
    assert "the feed-forward variant is ffn_my-xielu.py in this folder:\n# read it first" in code
    assert "ffn_file" not in card  # whose place is one of this machine
    shown: dict = {}
    exec(code, shown)
    assert shown["model"].config.ffn == "my-xielu"


FORMULA = "a_p x^2 + b x for x > 0, a_n (e^x - 1 - x) + b x elsewhere"


def pairs(number: int) -> EvalConfig:
    return EvalConfig(suites=("embedded-pairs",), pair_tasks=tuple(FEW_TASKS), max_pairs=number)


@pytest.mark.usefixtures("own_variants")
@pytest.mark.ci
def test_cells_run_the_copy_and_what_reads_runs_nothing(tmp_path, repository, write_study, monkeypatch):
    shutil.copy(repository / "examples/xielu.py", tmp_path / "mine.py")
    file = write_study(tmp_path, variants=["gelu", "mine.py:XIELU"], seeds=[1])
    study = load_study(file, trust_remote_code=True)
    copy = take_snapshot(study.folder, contents(own_of(study.planned)))
    study.write()
    monkeypatch.setattr(slurm.study.cells, "CODE_ROOT", copy)
    (tmp_path / "mine.py").unlink()
    forget_variants("my-xielu")

    text = (copy / "own_variants/my-xielu.py").read_bytes()
    (copy / "own_variants/my-xielu.py").write_bytes(text + b"\n")
    run_cells(study.cells[1:])
    state = read_state(study.folder, study.cells[1].run_id)
    assert state.name == "missing"  # so that the same command tries it again
    assert "is not the file of the variant 'my-xielu' that was submitted, and was not run" in state.error
    (copy / "own_variants/my-xielu.py").write_bytes(text)

    run_cells(study.cells)
    assert [read_state(study.folder, cell.run_id).name for cell in study.cells] == ["done"] * 2
    gelu, run = (cell.run_dir for cell in study.cells)
    assert (run / "variant.py").read_bytes() == text

    forget_variants("my-xielu")
    facts = read_facts(RunFolder(run), "of the run")
    assert (facts.formula, facts.reference) == (FORMULA, "Huang and Schlag 2024, arXiv:2411.13010")

    outcome = evaluate_runs([run, gelu], pairs(5), num_workers=1, progress=False)
    (failure,) = outcome.failures
    said = str(failure.error)
    assert f"{run}/model brings its FFN variant 'my-xielu' in ffn_my-xielu.py, which is code; read" in said
    assert "--trust-remote-code" in said
    assert set(outcome.requested) == {gelu}
    assert "my-xielu" not in FFN_VARIANTS
    outcome = evaluate_runs([run], pairs(5), num_workers=1, progress=False, trust_remote_code=True)
    assert not outcome.failures
    assert len(outcome.requested[run])

    forget_variants("my-xielu")
    (run / "model/ffn_my-xielu.py").write_bytes(text + b"# a stranger's\n")
    (failure,) = evaluate_runs([run], pairs(6), 1, progress=False, trust_remote_code=True).failures
    assert f"{run}/model/ffn_my-xielu.py has " in str(failure.error)
    assert "my-xielu" not in FFN_VARIANTS


@pytest.mark.ci
def test_a_finished_run_is_not_passed_off_as_the_new_formula_s(tmp_path, other_formula, capsys):
    config = load_config(None, [*TINY, "--ffn", "swish", "--runs-dir", str(tmp_path)])
    path, before = train(config), source_fingerprint("swish")
    assert peek_record(path / "provenance.json")["variant_source"] == before
    assert json.loads((path / "model/config.json").read_text())["ffn_source"] == before
    capsys.readouterr()
    assert train(config) == path
    assert "is finished; nothing to do" in capsys.readouterr().out

    other_formula()
    now = source_fingerprint("swish")
    with pytest.raises(UsageError) as refused:
        train(config)
    assert f"{path} was trained through another 'swish' (source {before}, now {now});" in str(refused.value)
    assert f"add '{before}' to earlier_sources of its spec" in str(refused.value)
    assert f"{path} (was trained through another 'swish'" in describe_run(config)

    other_formula(earlier_sources=(before,))
    assert train(config) == path  # each cure helps
    other_formula()
    shutil.rmtree(path)
    train(config)
    assert peek_record(path / "provenance.json")["variant_source"] == now


def test_an_unfinished_run_is_not_continued_with_another_formula(tmp_path, other_formula):
    config = load_config(None, [*TINY, "--ffn", "swish", "--runs-dir", str(tmp_path)])
    path = train(config)
    (path / "COMPLETED").unlink()
    shutil.rmtree(path / "model")
    before = sorted(path.rglob("*"))
    other_formula()
    with pytest.raises(UsageError, match="was trained through another 'swish'"):
        train(config)
    assert sorted(path.rglob("*")) == before


@pytest.mark.ci
def test_a_run_of_another_formula_is_not_scored_and_the_others_are(make_run, evaluate, other_formula, capsys):
    swish, gelu = make_run(), make_run(ffn="gelu")
    before = source_fingerprint("swish")
    pairs = ("--suites", "embedded-pairs", "--pair-tasks", *FEW_TASKS, "--max-pairs", "4")
    assert evaluate(swish, *pairs) == 0
    rows = (swish / "eval/rows.parquet").read_bytes()
    other_formula()
    assert evaluate(swish, *pairs) == 0  # all is scored
    capsys.readouterr()
    # In this process, as another one would not know of the changed formula.
    one_process = (*pairs[:-1], "5", "--workers", "1")
    assert evaluate(swish, gelu, *one_process) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert line.startswith(f"error: {swish} was trained through another 'swish' (source {before}, now")
    assert (swish / "eval/rows.parquet").read_bytes() == rows
    assert (gelu / "eval/rows.parquet").is_file()


LAYER = """import torch
from torch import nn


class Bent(nn.Module):
    def forward(self, x):
        return """


@pytest.mark.parametrize(
    ("layer", "told"), listed(__file__, "layers and what is said of them before they are trained")
)
def test_a_layer_that_sees_other_tokens_or_fails_is_not_trained(tmp_path, own_variants, layer, told):
    path = tmp_path / "mine.py"
    path.write_text(LAYER + layer)
    config = load_config(None, ["--ffn", f"{path}:Bent", *TINY])
    before = torch.get_rng_state()
    if told:
        with pytest.raises(
            UsageError, match=f"bent is not trained: .*{told}.*: ffn-ablations check {path}:Bent"
        ):
            check_usable(config)
    else:
        check_usable(config)
    assert torch.equal(torch.get_rng_state(), before)
