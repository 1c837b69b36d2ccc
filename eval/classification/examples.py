"""The examples of a classification task, read from files, a folder of tasks or the hub, and checked."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from base.errors import UsageError
from base.text.text_files import absent
from eval.classification.classification_task import (
    GLUE,
    ClassificationTask,
    encode_label,
    list_labels,
    most_frequent,
)
from eval.classification.schema import PooledSplit, TaskFile, read_field, text_parts
from eval.config import EvalConfig
from eval.data_files import DATA_SUFFIXES, PARQUET, TABLE_SUFFIXES, fingerprint, list_data_files, read_rows
from pretrain.data.embedded import classification_tasks

SPLITS = ("train", "validation")


def check_file(path: Path) -> Path:
    """Return the path of a task's file.

    Raises:
        UsageError: If there is no such file, or it is of a kind that cannot be read.
    """
    suffixes = (*DATA_SUFFIXES, *TABLE_SUFFIXES, PARQUET)
    if not path.name.endswith(suffixes):
        raise UsageError(f"{path}: a task's files end in {', '.join(suffixes)}; convert it to one of them")
    if not path.is_file():
        raise UsageError(
            f"no file {path}; a relative path under files: starts at the folder of the task's file"
        )
    return path


def read_examples(task: ClassificationTask, split: str, config: EvalConfig) -> list[dict]:
    """Read a task's examples.

    Args:
        task: The task.
        split: ``train`` or ``validation``.
        config: Says where from.

    Returns:
        The rows of the data, with ``label`` an integer from 0, or a list of 0 and 1 for each label.

    Raises:
        UsageError: For an absent folder or file, an absent column, an example without text, or a label
            outside the task's set.
    """
    task = task.source_of(split)
    rows, source = read_task_rows(task, split, config)
    examples = [
        {**row, "label": label}
        for number, row in enumerate(rows, start=1)
        if (label := _check_example(task, row, f"{source}, row {number}")) is not None
    ]
    if not examples:
        raise UsageError(
            f"{source}: no example is left by min_words and majority of {task.name}; change them"
        )
    return examples


def data_source(task: ClassificationTask, config: EvalConfig, *splits: str) -> str:
    """Return what stands for the content of a task's splits and what is made of it, wherever it lies."""
    splits = SPLITS if task.definition.pooled else splits
    files = [path for split in splits if (path := find_file(task, split, config)) is not None]
    if files:
        source = fingerprint(files)
    elif task.definition.hub is not None:
        source = f"hub:{task.definition.hub.path}"
    else:
        return f"embedded:{config.embedded_seed}"
    return source if task.benchmark == GLUE else f"{source}:{task.digest}"


def find_file(task: ClassificationTask, split: str, config: EvalConfig) -> Path | None:
    """Return the file of a split; None for what comes from the hub or is generated.

    Raises:
        UsageError: If it is absent.
    """
    task = task.source_of(split)
    if task.definition.files is not None:
        return check_file(getattr(task.definition.files, split))
    folder, flag = _folder(task, config)
    if task.definition.hub is None or folder is None:
        return None
    if not folder.is_dir():
        must = f"{flag} must hold <task>.train.jsonl and .validation.jsonl"
        raise absent(folder, f"no folder {folder}; {must}")
    files, name = list_data_files(folder), task.file_name(split)
    if name not in files:
        raise UsageError(f"{folder} has no {name}.jsonl, .jsonl.gz or .json; add it or leave {task.name} out")
    return files[name]


def _folder(task: ClassificationTask, config: EvalConfig) -> tuple[Path | None, str]:
    if task.benchmark == GLUE:
        return config.glue_dir, "--glue-dir"
    return config.classification_dir, "--classification-dir"


def read_task_rows(task: ClassificationTask, split: str, config: EvalConfig) -> tuple[list[dict], str]:
    """Return the rows of a split as its data has them, or as they are drawn, and what messages call it.

    Raises:
        UsageError: If they cannot be read.
    """
    if task.definition.pooled is None:
        return _read_part(task, split, config)
    parts = [_read_part(task, part, config) for part in SPLITS]
    rows = [row for part, _ in parts for row in part]
    source = f"{' and '.join(dict.fromkeys(name for _, name in parts))}, {split} drawn from all"
    return [rows[place] for place in pooled_places(len(rows), task.definition.pooled)[split]], source


def pooled_places(size: int, pooled: PooledSplit) -> dict[str, list[int]]:
    """Draw which of so many examples are trained on and reported on, in a random order."""
    order = np.random.default_rng([pooled.seed, 4]).permutation(size)[: pooled.max_examples].tolist()
    # Of 11,855 there are 8,298 to train on, 1,778 left over and 1,779 reported on, as scikit-learn rounds.
    num_train = len(order) - -(-3 * len(order) // 10)
    num_reported = -(-(len(order) - num_train) // 2)
    return {"train": order[:num_train], "validation": order[len(order) - num_reported :]}


def _read_part(task: ClassificationTask, split: str, config: EvalConfig) -> tuple[list[dict], str]:
    definition = task.definition
    if (path := find_file(task, split, config)) is not None:
        needed = () if definition.flatten else (definition.label.partition(".")[0],)
        rows, source = read_rows(path, needed, task.columns), str(path)
    elif (hub := definition.hub) is not None:
        from base.hub_datasets import load_split  # a second that nobody else should wait

        train, validation = map(task.file_name, SPLITS)
        instead = f"without network pass {_folder(task, config)[1]} FOLDER with {train}.jsonl and "
        instead += f"{validation}.jsonl" + (", or use --suites embedded-glue" * (task.benchmark == GLUE))
        source = " ".join(filter(None, (hub.path, hub.name)))
        part = load_split(hub.path, getattr(hub, split), instead, hub.name, hub.revision, hub.data_dir)
        rows = part.to_list()
    else:
        rows = embedded_examples(config.embedded_seed)[task.name][split]
        source = f"embedded {task.name} {split}"
    if definition.flatten == "multirc":
        rows = [flat for row in rows for flat in flatten_multirc(row)]
    return rows, source


def flatten_multirc(row: dict) -> list[dict]:
    """Return one example an answer, from a SuperGLUE row that nests questions and answers in a passage."""
    passage = row.get("passage")
    if not isinstance(passage, dict):
        return [row]
    return [
        {
            "paragraph": passage["text"],
            "question": question["question"],
            "answer": answer["text"],
            "label": answer.get("label"),
            "idx": f"{row.get('idx')}-{question.get('idx')}-{answer.get('idx')}",
        }
        for question in passage["questions"]
        for answer in question["answers"]
    ]


def label_value(definition: TaskFile, row: dict) -> Any:
    """Return what a row has as its label, or its labels; None where it has none, or a tie of votes."""
    value = read_field(row, definition.label)
    return most_frequent(value) if definition.majority else value


def _check_example(task: ClassificationTask, row: dict, where: str) -> int | list[int] | None:
    """The label of an example; None for one that is left out."""
    texts = []
    for column in task.columns:
        parts = text_parts(read_field(row, column))
        if parts is None:
            present = ", ".join(map(repr, row))
            raise UsageError(f"{where}: no text in column {column!r} of task {task.name}; it has {present}")
        texts += parts
    # Of a pair one may be empty, as some questions of QQP are.
    if not any(text.strip() for text in texts):
        raise UsageError(f"{where}: every text of the example is empty; remove the row")
    shortest = task.definition.min_words
    if shortest and sum(len(text.split()) for text in texts) < shortest:
        return None
    if read_field(row, task.definition.label) is None:
        raise UsageError(f"{where}: no column {task.definition.label!r}; it has {', '.join(map(repr, row))}")
    value = label_value(task.definition, row)
    if value is None:
        return None
    try:
        return encode_label(value, task.positions, task.num_labels, task.multi_label)
    except KeyError as error:
        raise _unknown_label(task, value, error.args[0], where) from None


def _unknown_label(task: ClassificationTask, value: Any, label: Any, where: str) -> UsageError:
    labels = list_labels(task.labels)
    if isinstance(value, list) is not task.multi_label:
        reason = f"value {value!r} is {'a' if isinstance(value, list) else 'no'} list; set multi_label in"
        return UsageError(f"{where}: {reason} {task.name}'s file to what the data has")
    if task.definition.labels is not None:
        return UsageError(f"{where}: label {label!r}; {task.name}'s labels are {labels}")
    return UsageError(
        f"{where}: label {label!r}; the training set of {task.name} has {labels}; if it is one of the "
        "task's, declare all of them in its file: labels: [...]"
    )


embedded_examples = lru_cache(maxsize=2)(classification_tasks)
"""What the embedded grammar writes with a seed, by task and split."""
