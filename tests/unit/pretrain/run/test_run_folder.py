"""The run folder: its name, the configuration in it, its lock, and every file damaged in every way."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.system import is_locked
from pretrain.config import ResolvedConfig, RunConfig
from pretrain.resolution import load_config
from pretrain.run.run_folder import (
    RESULT_NEUTRAL,
    check_same_config,
    config_hash,
    read_run,
    run_dir,
    sole_writer,
    write_config,
)
from pretrain.training.training_run import train
from tests.cases import run_damage, small_run


# The run folder: its name, the configuration in it, and its marks.
def test_name():
    config = load_config(None, ["--family", "roberta", "--ffn", "relu", "--seed", "7", "--study", "s"])
    path = run_dir(config)
    assert path.parts[:-1] == ("runs", "s", "roberta", "relu")
    assert path.name == f"seed7-{config_hash(config)}"
    assert run_dir(load_config(None, ["--run-name", "mine"])).name == "mine"


def other_value(value: Any, annotation: Any = None) -> Any:
    """Another value of the same type; of a field that allows certain words, another of them."""
    if get_origin(annotation) is Literal:
        return next(word for word in get_args(annotation) if word != value)
    if value is None:
        return 1
    return value + 1 if isinstance(value, int | float) else f"{value}x" if isinstance(value, str) else ("x",)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # any other value will do
def test_hash_covers_every_field_that_can_change_the_result_and_nothing_else():
    """Walks over all fields, so that a new one is either hashed or named as neutral."""
    config = load_config(None)
    plain = config_hash(config)
    for section in RunConfig.model_fields:
        part = getattr(config, section)
        fields = type(part).model_fields if hasattr(part, "model_copy") else [None]
        for field in fields:
            if field is None:
                changed = config.model_copy(
                    update={section: "roberta" if section == "family" else other_value(part)}
                )
            else:
                value = other_value(getattr(part, field), type(part).model_fields[field].annotation)
                changed = config.model_copy(update={section: part.model_copy(update={field: value})})
            neutral = RESULT_NEUTRAL.get(section, set())
            expected_same = neutral is True or field in neutral
            assert (config_hash(changed) == plain) == expected_same, f"{section}.{field}"


def test_hashes_never_change():
    """Runs that stand on somebody's disk must be found again."""
    flags = {
        "63189f86": [],
        "06c2c4dc": ["--ffn", "kan", "--seed", "3"],
        "b07f57b3": ["--ffn", "kan", "--splines.knot-updates", "0", "0.1"],
        "0e8de225": ["--train.batch-size", "8"],
    }
    assert {config_hash(load_config(None, given)): given for given in flags.values()} == flags


def test_a_field_that_a_later_version_adds_leaves_the_hashes_as_they_are():
    class Later(ResolvedConfig):
        novelty: float = 0.5

    config = load_config(None)
    later = Later(**dict(config))
    assert config_hash(later) == config_hash(config) != config_hash(Later(**dict(config), novelty=0.6))


def test_another_config_is_refused_naming_the_field(tmp_path):
    write_config(tmp_path, load_config(None))
    check_same_config(tmp_path, load_config(None, ["--train.logging-steps", "3", "--runs-dir", "x"]))
    with pytest.raises(UsageError, match=r"another config \(optim.learning_rate 0.0005, now 0.001\); pass"):
        check_same_config(tmp_path, load_config(None, ["--optim.learning-rate", "1e-3"]))
    write_config(tmp_path / "kan", load_config(None, ["--ffn", "kan"]))
    flags = ["--ffn", "kan", "--model.ffn-options", "grid_size", "3"]
    with pytest.raises(UsageError, match=r"model.ffn_options None, now \{'grid_size': 3\}"):
        check_same_config(tmp_path / "kan", load_config(None, flags))


# One process at a time in a run folder.
def test_a_second_writer_is_refused_until_the_first_is_killed(tmp_path):
    code = (
        "import sys, filelock\nwith filelock.FileLock(sys.argv[1]): print('in', flush=True); sys.stdin.read()"
    )
    holder = [sys.executable, "-c", code, str(RunFolder(tmp_path).lock_file)]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        with pytest.raises(UsageError, match="another process trains in this folder"), sole_writer(tmp_path):
            pass
        process.kill()
    with sole_writer(tmp_path):
        assert is_locked(RunFolder(tmp_path).lock_file)


def test_what_a_killed_writer_left_goes_with_its_successor(tmp_path):
    left = tmp_path / "model.tmp-7"
    left.mkdir()
    with sole_writer(tmp_path):
        assert not left.exists()
        left.mkdir()
        with (
            pytest.raises(UsageError, match=f"if there is none, remove {tmp_path}/.lock"),
            sole_writer(tmp_path),
        ):
            pass
        assert left.exists()  # whoever is kept out removes nothing


def test_asking_keeps_no_writer_out(tmp_path):
    """Whoever asks takes the lock for a moment."""
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            is_locked(RunFolder(tmp_path).lock_file)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(50):
            with sole_writer(tmp_path):
                pass
    finally:
        ended.set()
        asking.join()


# Every file of a finished run, damaged in every way: the same command makes it again, or names it.
MODEL = ["model/model.safetensors", "model/config.json", "model/tokenizer.json"]
NAMED = ["provenance.json", "metrics.jsonl"]
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "emptied": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "a bit flipped": lambda content: content[:40] + bytes([content[40] ^ 4]) + content[41:],
    "deleted": lambda content: None,
}


def config_of(folder: Path, seed: int = 5) -> ResolvedConfig:
    sections = small_run(folder, model={"ffn": "relu", "num_hidden_layers": 1}, optim={"max_steps": 5})
    return load_config(None, ["--seed", f"{seed}"], sections)


@pytest.fixture(scope="module")
def undisturbed(runs_dir) -> Path:
    """Two runs of one study."""
    for seed in (5, 6):
        train(config_of(runs_dir, seed))
    return runs_dir


@pytest.fixture
def finished(undisturbed, tmp_path) -> tuple[ResolvedConfig, RunFolder]:
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
