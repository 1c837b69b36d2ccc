"""The classification tasks: their columns, labels, inputs and metrics, and where their examples come from.

The eleven tasks and their inputs are those of the BabyLM 2023 evaluation
(https://github.com/babylm/evaluation-pipeline-2023, finetune_classification.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from eval.config import EvalConfig
from eval.files import fingerprint, list_data_files, read_hub_rows, read_json_rows
from ffn_variants.errors import UsageError

HUB_GLUE, HUB_SUPER_GLUE = "nyu-mll/glue", "aps/super_glue"

TextPair = tuple[str, str | None]


def columns(first: str, second: str | None = None) -> Callable[[dict], TextPair]:
    """Make the input of an example from one column, or from two as a pair."""
    return lambda row: (row[first], row[second] if second is not None else None)


def multirc_input(row: dict) -> TextPair:
    """Make MultiRC's input: is this answer to the question right, given the paragraph?"""
    return f"Question: {row['question']} Answer: {row['answer']}", row["paragraph"]


def wsc_input(row: dict) -> TextPair:
    """Make WSC's input: does the pronoun refer to the noun phrase?"""
    question = f'Does "{row["span2_text"]}" refer to "{row["span1_text"]}" in this passage?'
    return question, row["text"]


@dataclass(frozen=True, kw_only=True)
class ClassificationTask:
    """One task.

    Attributes:
        name: As in rows.
        benchmark: ``glue`` or ``embedded-glue``.
        columns: What every example must have besides its label.
        make_input: From an example to a text or a pair of texts.
        num_labels: Labels are integers from 0.
        multi_label: Whether an example may have several labels.
        metrics: In rows; the first one is the task's headline.
        train: Name of the training file; tasks with the same one share a fine-tuned model.
        validation: Name of the validation file.
        hub: Data set, configuration and validation split on the hub; None for the embedded tasks.
    """

    name: str
    benchmark: str = "glue"
    columns: tuple[str, ...]
    make_input: Callable[[dict], TextPair]
    num_labels: int = 2
    multi_label: bool = False
    metrics: tuple[str, ...] = ("accuracy",)
    train: str
    validation: str
    hub: tuple[str, str, str] | None = None


def _glue(name: str, *names: str, metrics: tuple[str, ...] = ("accuracy",)) -> ClassificationTask:
    return ClassificationTask(
        name=name,
        columns=names,
        make_input=columns(*names),
        metrics=metrics,
        train=f"{name}.train",
        validation=f"{name}.validation",
        hub=(HUB_GLUE, name, "validation"),
    )


def _mnli(name: str, split: str) -> ClassificationTask:
    return ClassificationTask(
        name=name,
        columns=("premise", "hypothesis"),
        make_input=columns("premise", "hypothesis"),
        num_labels=3,
        train="mnli.train",
        validation=f"mnli.{split}",
        hub=(HUB_GLUE, "mnli", split),
    )


def _super_glue(name: str, *names: str, make_input: Callable[[dict], TextPair]) -> ClassificationTask:
    return ClassificationTask(
        name=name,
        columns=names,
        make_input=make_input,
        train=f"{name}.train",
        validation=f"{name}.validation",
        hub=(HUB_SUPER_GLUE, name, "validation"),
    )


GLUE_TASKS: dict[str, ClassificationTask] = {
    task.name: task
    for task in (
        _glue("cola", "sentence", metrics=("matthews_correlation", "accuracy")),
        _glue("sst2", "sentence"),
        _glue("mrpc", "sentence1", "sentence2", metrics=("f1", "accuracy")),
        _glue("qqp", "question1", "question2", metrics=("f1", "accuracy")),
        _mnli("mnli", "validation_matched"),
        _mnli("mnli-mm", "validation_mismatched"),
        _glue("qnli", "question", "sentence"),
        _glue("rte", "sentence1", "sentence2"),
        _super_glue("boolq", "question", "passage", make_input=columns("question", "passage")),
        _super_glue("multirc", "paragraph", "question", "answer", make_input=multirc_input),
        _super_glue("wsc", "text", "span1_text", "span2_text", make_input=wsc_input),
    )
}


def embedded_tasks(config: EvalConfig) -> dict[str, ClassificationTask]:
    """Return the small tasks that the embedded grammar writes."""
    tasks = {}
    for name, splits in _embedded_examples(config.embedded_seed).items():
        texts = tuple(key for key in ("sentence", "sentence1", "sentence2") if key in splits["train"][0])
        tasks[name] = ClassificationTask(
            name=name,
            benchmark="embedded-glue",
            columns=texts,
            make_input=columns(*texts),
            train=f"{name}.train",
            validation=f"{name}.validation",
        )
    return tasks


def read_examples(task: ClassificationTask, split: str, config: EvalConfig) -> list[dict]:
    """Read a task's examples.

    Args:
        task: The task.
        split: ``train`` or ``validation``.
        config: Says where from.

    Raises:
        UsageError: For an absent folder or file, an absent column, an example without text, or a label
            outside the task's set.
    """
    if task.hub is None:
        rows = _embedded_examples(config.embedded_seed)[task.name][split]
        source = f"embedded {task.name} {split}"
    elif config.glue_dir is not None:
        path = find_glue_file(task, split, config.glue_dir)
        rows, source = read_json_rows(path, ("label",)), str(path)
    else:
        rows, source = _read_hub(task, split), f"{task.hub[0]} {task.hub[1]}"
    if task.name == "multirc":
        rows = [flat for row in rows for flat in flatten_multirc(row)]
    _check_examples(task, rows, source)
    return rows


def data_source(task: ClassificationTask, split: str, config: EvalConfig) -> str:
    """Return what stands for the content of a task's split, wherever it lies."""
    if task.hub is None:
        return f"embedded:{config.embedded_seed}"
    if config.glue_dir is None:
        return f"hub:{task.hub[0]}"
    return fingerprint([find_glue_file(task, split, config.glue_dir)])


def find_glue_file(task: ClassificationTask, split: str, glue_dir: Path) -> Path:
    """Find the file of a task's split in a folder.

    Raises:
        UsageError: If the folder or the file is absent; says which names are looked for.
    """
    if not glue_dir.is_dir():
        raise UsageError(
            f"no folder {glue_dir}; --glue-dir must hold <task>.train.jsonl and .validation.jsonl"
        )
    name = task.train if split == "train" else task.validation
    files = list_data_files(glue_dir)
    if name not in files:
        raise UsageError(
            f"{glue_dir} has no {name}.jsonl, .jsonl.gz or .json; add it or leave {task.name} out"
        )
    return files[name]


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


def _check_examples(task: ClassificationTask, rows: list[dict], source: str) -> None:
    for number, row in enumerate(rows, start=1):
        for column in task.columns:
            if not isinstance(row.get(column), str):
                present = ", ".join(map(repr, row))
                raise UsageError(
                    f"{source}, row {number}: no text in column {column!r} of task {task.name}; it has "
                    f"{present}"
                )
        # Of a pair one may be empty, as some questions of QQP are.
        if not any(row[column].strip() for column in task.columns):
            raise UsageError(f"{source}, row {number}: every text of the example is empty; remove the row")
        if row.get("label") not in range(task.num_labels):
            allowed = ", ".join(map(str, range(task.num_labels)))
            label = row.get("label")
            raise UsageError(f"{source}, row {number}: label {label!r}; {task.name}'s labels are {allowed}")


def _read_hub(task: ClassificationTask, split: str) -> list[dict]:
    assert task.hub is not None
    path, name, validation = task.hub
    instead = "without network pass --glue-dir FOLDER, or use --suites embedded-glue"
    return read_hub_rows(path, name, "train" if split == "train" else validation, instead)


@lru_cache(maxsize=2)
def _embedded_examples(seed: int) -> dict[str, dict[str, list[dict]]]:
    from pretrain.embedded import classification_tasks

    return classification_tasks(seed)
