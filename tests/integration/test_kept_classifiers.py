"""A kept classifier whose file is damaged is fine-tuned again, and comes out the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from eval.classification.config import FinetuneConfig
from eval.classification.tasks.chosen import embedded_tasks
from eval.config import EvalConfig
from eval.interpretation.classifiers import finetuned

CONFIG = EvalConfig(
    finetune=FinetuneConfig(
        head=("linear frozen",), num_train_epochs=1, max_train_examples=32, max_validation_examples=20
    )
)
TASK = next(iter(embedded_tasks(CONFIG).values()))


def changed_header(data: bytes, old: bytes, new: bytes) -> bytes:
    """The file with other text of as many bytes in its header."""
    assert data.count(old) == 1
    assert len(old) == len(new)
    return data.replace(old, new)


def flipped(data: bytes, place: int) -> bytes:
    found = bytearray(data)
    found[place] ^= 1
    return bytes(found)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "cut in the header": lambda data: data[:20],
    "empty": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "a bit of a weight": lambda data: flipped(data, len(data) - 3),
    "the course is no JSON": lambda data: changed_header(data, b'"course":"[', b'"course":"{'),
    "the name of the course": lambda data: changed_header(data, b'"course"', b'"coarse"'),
    "the name of the checksum": lambda data: changed_header(data, b'"sha256"', b'"sha257"'),
    "the length of the header": lambda data: flipped(data, 0),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory, write_run) -> tuple[Path, Path, bytes]:
    """A run, the file of its classifier, and what the file holds."""
    run = write_run(tmp_path_factory.mktemp("runs"), "gpt_neo", num_hidden_layers=1)
    finetuned(run, TASK, CONFIG)
    (file,) = (run / "eval" / "classifiers").rglob("*.safetensors")
    return run, file, file.read_bytes()


def weights(run: Path) -> dict[str, torch.Tensor]:
    return finetuned(run, TASK, CONFIG).classifier.state_dict()


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_mended(kept: tuple[Path, Path, bytes], damage: Callable[[bytes], bytes]) -> None:
    run, file, data = kept
    file.write_bytes(data)
    before = weights(run)
    assert file.read_bytes() == data  # it was read, not made again
    file.write_bytes(damage(data))
    after = weights(run)
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert file.read_bytes() != damage(data)
