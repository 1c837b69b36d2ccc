"""Every file of a finished run, damaged in every way: the same command makes it again, or names it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from base.errors import UsageError
from base.run.folder_names import RunFolder
from pretrain.config import RunConfig
from pretrain.resolution import load_config
from pretrain.run.run_folder import read_run, run_dir
from pretrain.training.training_run import train
from tests.cases import run_damage

MODEL = ["model/model.safetensors", "model/config.json", "model/tokenizer.json"]
NAMED = ["provenance.json", "metrics.jsonl"]
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "emptied": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "a bit flipped": lambda content: content[:40] + bytes([content[40] ^ 4]) + content[41:],
    "deleted": lambda content: None,
}


def config_of(folder: Path, seed: int = 5) -> RunConfig:
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    overrides = {
        "seed": seed,
        "model": {"ffn": "relu", **sizes},
        "data": {"num_stories": 100, "vocab_size": 300, "block_size": 32},
        "optim": {"max_steps": 5},
        "train": {"save_steps": 2, "torch_compile": False},
        "output": {"runs_dir": str(folder)},
    }
    return load_config(None, overrides=overrides)


@pytest.fixture(scope="module")
def undisturbed(runs_dir) -> Path:
    """Two runs of one study."""
    for seed in (5, 6):
        train(config_of(runs_dir, seed))
    return runs_dir


@pytest.fixture
def finished(undisturbed, tmp_path) -> tuple[RunConfig, RunFolder]:
    """A copy of a finished run, which the tests may damage."""
    shutil.copytree(undisturbed, tmp_path / "runs")
    config = config_of(tmp_path / "runs")
    return config, RunFolder(run_dir(config))


@pytest.fixture
def other(finished, tmp_path) -> RunFolder:
    """The same of another seed, in the same study."""
    return RunFolder(run_dir(config_of(tmp_path / "runs", 6)))


def contents(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in ("config.yaml", *MODEL, *NAMED)}


def damage_file(path: Path, kind: str) -> None:
    content = DAMAGES[kind](path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "kind"), [*zip(MODEL, DAMAGES, strict=False), ("COMPLETED", "emptied"), ("COMPLETED", "deleted")]
)
@pytest.mark.ci
def test_a_damaged_model_is_made_again(finished, name, kind, capsys):
    config, run = finished
    before = contents(run.path)
    damage_file(run.path / name, kind)
    train(config)
    out, err = capsys.readouterr()
    assert "continued at step 4" in out
    told = [line for line in err.splitlines() if name in line]
    assert len(told) == (0 if (name, kind) == ("COMPLETED", "deleted") else 1), err
    after = contents(run.path)
    assert {name: after[name] for name in MODEL} == {name: before[name] for name in MODEL}
    assert run_damage(run) == {}
    train(config)
    assert "is finished; nothing to do" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["emptied", "a bit flipped", "deleted"])
def test_a_damaged_configuration_is_written_again(finished, kind, capsys):
    config, run = finished
    before, text = contents(run.path), run.config_file.read_text()
    damage_file(run.config_file, kind)
    with pytest.raises(UsageError):
        read_run(run.path)
    train(config)
    assert "is finished; nothing to do" in capsys.readouterr().out
    assert contents(run.path) | {"config.yaml": b""} == before | {"config.yaml": b""}
    assert run.config_file.read_text().split("output:")[0] == text.split("output:")[0]


@pytest.mark.parametrize(("before", "after"), [("seed: 5", "seed: 6"), ("ffn: relu", "ffn: silu")])
def test_an_edited_configuration_is_told(finished, before, after):
    _, run = finished
    text = run.config_file.read_text()
    run.config_file.write_text(text.replace(before, after))
    with pytest.raises(UsageError, match=r"is not the configuration that the run was begun with"):
        read_run(run.path)
    run.provenance_file.unlink()
    with pytest.raises(UsageError, match=r"\(\w{8}, its name \w{8}\), so it was edited or damaged"):
        read_run(run.path)


def test_an_emptied_configuration_is_no_run_of_gelu_wherever_it_was_moved(finished):
    _, run = finished
    moved = run.path.rename(run.path.with_name("elsewhere"))
    assert read_run(moved).model.ffn == "relu"
    (moved / "config.yaml").write_text("")
    with pytest.raises(UsageError, match=r"is not the configuration .*, so it was edited or damaged"):
        read_run(moved)


def test_folders_that_were_exchanged_are_refused(finished, other):
    config, run = finished
    before = contents(run.path), contents(other.path)
    aside = run.path.rename(run.path.with_name("aside"))
    other.path.rename(run.path)
    aside.rename(other.path)
    for read in (train, lambda config: read_run(run.path)):
        with pytest.raises(UsageError, match=r"\(\w{8}, its name \w{8}\), .* or the folder renamed"):
            read(config)
    assert (contents(other.path), contents(run.path)) == before


def test_a_marker_of_another_run_is_refused(finished, other):
    config, run = finished
    shutil.copy(other.completion_marker, run.completion_marker)
    shutil.rmtree(run.model_dir)
    shutil.copytree(other.model_dir, run.model_dir)
    for read in (train, lambda config: read_run(run.path)):
        with pytest.raises(UsageError, match=r"\(\w{8}, COMPLETED \w{8}\), .* mixed up with"):
            read(config)


def test_a_folder_in_the_marker_s_place_is_named(finished, capsys):
    config, run = finished
    run.completion_marker.unlink()
    run.completion_marker.mkdir()
    with pytest.raises(IsADirectoryError, match="COMPLETED"):
        train(config)
    assert "COMPLETED is damaged (Is a directory)" in capsys.readouterr().err
