"""The examples of classification tasks as tokens: what is trained on, chosen on and reported on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from transformers import PreTrainedTokenizerBase

from base.errors import UsageError, prefixed
from eval.classification.classification_task import ClassificationTask
from eval.classification.classifier import Batch
from eval.classification.example_tokens import cached, encode, tokenizer_key
from eval.classification.examples import data_source, read_examples
from eval.classification.segments import Segmentation, encode_segments
from eval.config import EvalConfig
from eval.finetuning import Finetuning
from scores.head_descriptions import DEFAULT_HEAD, get_head, parse_head

Row = TypeVar("Row")
VALIDATION_SEED = 12
"""Draws the validation examples that are reported on, where not all are: the same for every run and seed."""


@dataclass(frozen=True)
class TaskData:
    """What tasks with one training set are evaluated with.

    Attributes:
        train: The training file.
        validation: The validation file of each task, by name.
    """

    train: Batch
    validation: dict[str, Batch]


def read_task_data(
    tasks: Sequence[ClassificationTask],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    config: EvalConfig,
    settings: Finetuning,
    seed: int | None = None,
) -> TaskData:
    """Read and tokenise the training set of tasks that share one, and their validation files.

    What this process has tokenised before is not read again.

    Args:
        tasks: The first one's training set is read.
        tokenizer: The model's.
        max_length: Tokens that the model reads at most.
        config: Says where from.
        settings: Name the head, and how many examples are used.
        seed: Draws the training examples where not all are used; None reads all.
    """
    key = tokenizer_key(tokenizer)
    segmentation = segmentation_of(settings)

    def part(task: ClassificationTask, name: str, size: int | None, seed: int) -> Batch:
        def make() -> Batch:
            # Only what is used is tokenised: of SST-2's 67,349 examples perhaps 2,000.
            rows = _subset(list(enumerate(read_examples(task, name, config))), size, seed)
            idx = [str(row.get("idx", number)) for number, row in rows]
            rows = [row for _, row in rows]
            labels = [row["label"] for row in rows]
            with prefixed(f"{task.name} {name}, "):
                if segmentation is not None:
                    texts = [with_turns(task, row) for row in rows]
                    return encode_segments(tokenizer, texts, labels, segmentation, max_length, idx)
                return encode(tokenizer, [task.make_input(row) for row in rows], labels, max_length, idx)

        source = data_source(task, config, name)
        # Labels that no file declares are those of the training set, of which a validation file says nothing.
        how = (str(max_length), str(segmentation), repr(task.labels), str(size), str(seed if size else None))
        return cached((key, source, task.benchmark, task.name, name, *how), make)

    size = settings.max_validation_examples
    train_size = None if seed is None else settings.max_train_examples
    validation = {task.name: part(task, "validation", size, VALIDATION_SEED) for task in tasks}
    return TaskData(part(tasks[0].source_of("train"), "train", train_size, seed or 0), validation)


def with_turns(task: ClassificationTask, row: dict) -> tuple[str | list[str], str | None]:
    """Make the input of an example, in turns where it has some."""
    turns = task.turns(row)
    return task.make_input(row) if turns is None else (turns, None)


def segmentation_of(settings: Finetuning) -> Segmentation | None:
    """Return how texts are cut for the head that settings name; None where they stay whole."""
    choice = parse_head(settings.head)
    if choice.name == DEFAULT_HEAD or get_head(choice.name).reads != "segments":
        return None
    options: dict[str, Any] = get_head(choice.name).resolve(dict(choice.options))
    return Segmentation(**{field.name: options[field.name] for field in fields(Segmentation)})


def split(data: TaskData, task: ClassificationTask, settings: Finetuning, seed: int) -> tuple[Batch, Batch]:
    """Return what is trained on, and what the epoch is chosen on.

    Raises:
        UsageError: If what is trained on has one class, or is too small to be split.
    """
    train, selection = data.train, data.validation[task.name]
    if len(train) < 2:
        raise UsageError(f"{task.name}: {len(train)} training examples are too few to fine-tune on")
    if settings.select_on == "held-out":
        train, selection = hold_out(train, settings.held_out_fraction, seed)
    if len(np.unique(train.labels, axis=0)) < 2:
        raise UsageError(
            f"{task.name}: all {len(train)} training examples have label {train.labels[0]}, so that there is "
            "nothing to learn; add examples of the other labels or leave the task out"
        )
    return train, selection


def hold_out(data: Batch, fraction: float, seed: int) -> tuple[Batch, Batch]:
    """Split a training set at random into what is trained on and what the epoch is chosen on."""
    order = np.random.default_rng([seed, 1]).permutation(len(data))
    size = min(max(1, round(fraction * len(data))), len(data) - 1)
    return data.take(np.sort(order[size:])), data.take(np.sort(order[:size]))


def reported_rows(task: ClassificationTask, config: EvalConfig, settings: Finetuning) -> list[dict]:
    """Return the validation examples that are reported on, as their file has them."""
    return _subset(
        read_examples(task, "validation", config), settings.max_validation_examples, VALIDATION_SEED
    )


def _subset(rows: list[Row], size: int | None, seed: int) -> list[Row]:
    """Return so many examples, drawn at random, in the order of their file; None returns all."""
    if size is None or size >= len(rows):
        return rows
    places = np.random.default_rng([seed, 2]).permutation(len(rows))[:size]
    return [rows[place] for place in np.sort(places)]
