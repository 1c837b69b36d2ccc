"""Equal errors are one line, and a model that is not as its training left it is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.run.manifest import write_completion
from eval.evaluate import Failure, failure_lines
from eval.identity import weights_hash


# Equal errors are one line.
@pytest.mark.parametrize(
    ("failures", "lines"),
    [
        ([("a", "passive", "no data")], ["a passive: no data"]),
        ([(run, task, "no data") for run in "ab" for task in "xyz"], ["a x: no data (and so of 5 more)"]),
        # What names its own task or run is one line, too.
        ([("a", task, f"no set ({task})") for task in "xyz"], ["a x: no set (x) (and so of 2 more)"]),
        (
            [("a", "x", "no data"), ("a", "y", "no data"), ("a", "x", "no memory")],
            ["a x: no data (and so of 1 more)", "a x: no memory"],
        ),
        ([(run, None, f"{run}: has no model") for run in "ab"], ["a: has no model", "b: has no model"]),
    ],
)
def test_equal_errors_are_one_line(failures, lines) -> None:
    assert (
        failure_lines([Failure(Path(run), task, UsageError(words)) for run, task, words in failures]) == lines
    )


# The hash of a run's weights, and a model that is not as its training left it.
NAMES = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    for name in (*NAMES, "README.md"):
        (tmp_path / "model" / name).write_bytes(f"{{}} of {name}".encode())
    return tmp_path


def by_hand(run_dir: Path) -> str:
    digest = hashlib.sha256()
    for name in NAMES:
        digest.update(name.encode() + hashlib.sha256((run_dir / "model" / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("has_checksums", [False, True])
def test_the_hash_is_that_of_the_files(run_dir, has_checksums):
    if has_checksums:
        write_completion(RunFolder(run_dir), {}, "0123abcd")
    assert weights_hash(run_dir) == by_hand(run_dir)
    (run_dir / "model" / "README.md").write_text("another card", encoding="utf-8")
    assert weights_hash(run_dir) == by_hand(run_dir)
    if not has_checksums:
        (run_dir / "model" / "model.safetensors").write_bytes(b"other weights")
        assert weights_hash(run_dir) == by_hand(run_dir)


DAMAGE = {
    "emptied": lambda path: path.write_bytes(b""),
    "flipped": lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", DAMAGE)
def test_a_model_that_is_not_as_it_was_written_is_refused_with_the_cure(run_dir, name, change):
    write_completion(RunFolder(run_dir), {}, "0123abcd")
    DAMAGE[change](run_dir / "model" / name)
    with pytest.raises(UsageError) as error:
        weights_hash(run_dir)
    said = str(error.value)
    assert "\n" not in said
    if (name, change) != ("config.json", "deleted"):  # then there is no model, and the same run is the cure
        assert name in said
        assert f"ffn-ablations train {run_dir}/config.yaml" in said


def test_a_file_that_came_later_is_refused(run_dir):
    write_completion(RunFolder(run_dir), {}, "0123abcd")
    (run_dir / "model" / "added_tokens.json").write_text("{}")
    with pytest.raises(UsageError, match=r"added_tokens\.json was not there"):
        weights_hash(run_dir)
