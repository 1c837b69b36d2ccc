"""The hash of a run's weights, and the note that saves reading them again."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from base.errors import UsageError
from eval.models.identity import known_weights_hash, remember_weights, weights_hash


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "model" / "README.md").write_text("a card", encoding="utf-8")
    return tmp_path


def note_another_hash(run_dir: Path) -> None:
    """Put a hash into the note that can only come from there."""
    remember_weights(run_dir)
    note = run_dir / "eval" / ".weights.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"weights": "0123456789abcdef"}))


def by_hand(run_dir: Path) -> str:
    digest = hashlib.sha256()
    for name in sorted(path.name for path in (run_dir / "model").iterdir()):
        if not name.endswith(".md"):
            content = (run_dir / "model" / name).read_bytes()
            digest.update(name.encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]


def test_without_a_note_the_files_are_read(run_dir: Path) -> None:
    assert known_weights_hash(run_dir) == weights_hash(run_dir) == by_hand(run_dir)


def test_unchanged_files_are_not_read_again(run_dir: Path) -> None:
    note_another_hash(run_dir)
    assert known_weights_hash(run_dir) == "0123456789abcdef"
    (run_dir / "model" / "README.md").write_text("another card", encoding="utf-8")
    assert known_weights_hash(run_dir) == "0123456789abcdef"


def touch_later(path: Path) -> None:
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))


@pytest.mark.parametrize(
    "change",
    [
        lambda model: (model / "model.safetensors").write_bytes(b"more weights"),
        lambda model: touch_later(model / "model.safetensors"),
        lambda model: (model / "tokenizer.json").write_text("{}", encoding="utf-8"),
        lambda model: (model / "spiece.model").write_bytes(b"words"),
        lambda model: (model / "model.safetensors").unlink(),
        lambda model: (model.parent / "eval" / ".weights.json").write_text(
            '{"weights": "01', encoding="utf-8"
        ),
        lambda model: (model.parent / "eval" / ".weights.json").write_text("[]", encoding="utf-8"),
    ],
    ids=["longer", "touched", "new file", "SentencePiece", "removed", "broken note", "another note"],
)
def test_after_a_change_they_are(change, run_dir: Path) -> None:
    note_another_hash(run_dir)
    change(run_dir / "model")
    assert known_weights_hash(run_dir) == by_hand(run_dir)


def test_the_note_is_true_and_written_once(run_dir: Path) -> None:
    note_another_hash(run_dir)
    remember_weights(run_dir)
    note = run_dir / "eval" / ".weights.json"
    content, state = json.loads(note.read_text()), note.stat()
    assert content["weights"] == by_hand(run_dir)
    assert sorted(content["files"]) == ["config.json", "model.safetensors"]
    remember_weights(run_dir)
    assert note.stat() == state  # not written again


def test_no_model_is_told_with_and_without_a_note(run_dir: Path) -> None:
    note_another_hash(run_dir)
    (run_dir / "model" / "config.json").unlink()
    with pytest.raises(UsageError, match="has no model"):
        known_weights_hash(run_dir)
