"""A variant in the user's own file, as commands meet it: the run, its copy, and the model elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from base.records import peek_record
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


def train(place: Path, file: Path):
    """Train with the variant of a file, by the command."""
    return run_command("pretrain.train", "--ffn", f"{file}:XIELU", *TINY, "--runs-dir", place / "runs")


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    """The folder of a finished run with that file."""
    done = train(place, place / "mine.py")
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
    source = completion["variant_source"]
    assert len(source) == 12
    assert model["ffn_source"] == peek_record(run / "provenance.json")["variant_source"] == source


@pytest.mark.ci
def test_the_same_command_finds_the_run_wherever_the_file_lies(run: Path, place: Path) -> None:
    again = place / "again" / "other.py"
    again.parent.mkdir()
    again.write_text((place / "mine.py").read_text() + "# a thought\n")  # which is no other formula
    assert "is finished; nothing to do" in train(place, again).stdout
    again.unlink()
    gone = train(place, again)
    assert gone.returncode == 2
    assert gone.stderr == (
        f"error: {again}: no such file; give path/to/mine.py:SPEC, or the copy of it in a run's folder, "
        "RUN/variant.py:SPEC\n"
    )
    assert "nothing to do" in train(place, run / "variant.py").stdout
    refused = run_command("pretrain.train", run / "config.yaml")
    assert refused.returncode == 2
    assert refused.stderr == (
        f"error: {run}/config.yaml: its FFN variant is in {place}/mine.py:XIELU, which is code; read "
        f"that file, then consent to run it: type --ffn {run}/variant.py:XIELU\n"
    )
    typed = run_command("pretrain.train", run / "config.yaml", "--ffn", f"{run}/variant.py:XIELU")
    assert "nothing to do" in typed.stdout, typed.stderr


@pytest.mark.ci
def test_an_edited_formula_is_another_run(run: Path, place: Path) -> None:
    edited = place / "edited.py"
    edited.write_text((place / "mine.py").read_text() + "HALF = 0.5\n")
    done = train(place, edited)
    assert "nothing to do" not in done.stdout, done.stderr
    (other,) = set(run.parent.iterdir()) - {run}
    assert (other / "variant.py").read_text() == edited.read_text() != (run / "variant.py").read_text()


@pytest.mark.ci
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("raise SystemExit\n")])
def test_a_lost_or_damaged_copy_is_made_again(
    run: Path, place: Path, damage: Callable[[Path], object]
) -> None:
    damage(run / "variant.py")
    before = (run / "model/model.safetensors").stat().st_mtime_ns
    done = train(place, place / "mine.py")
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
