"""What the YAML file of a classification task says, which tasks have one here, and how it reads a row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictInt, StrictStr, field_validator, model_validator

from base.config_input import read_config
from base.errors import UsageError, unknown_name
from base.sections import Section
from eval.config import EvalConfig
from eval.finetuning import Metric, unfit_metric
from scores.suites import HARNESS_PREFIX, SUITES, UNGROUPED

Label = str | int


def read_field(row: Mapping[str, Any], field: str) -> Any:
    """Return a field of a row, or None where it is absent.

    ``turns.utterance`` is the field ``utterance`` in ``turns``; where ``turns`` is a list, of each of its
    members.
    """
    if field in row:
        return row[field]
    value: Any = row
    for name in field.split("."):
        if isinstance(value, list):
            value = [member.get(name) if isinstance(member, Mapping) else None for member in value]
        elif isinstance(value, Mapping):
            value = value.get(name)
        else:
            return None
    return value


def text_parts(value: Any) -> list[str] | None:
    """Return the texts of a field, which holds one or a list of them; None where it holds anything else."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return value
    return None


_FIELD = re.compile(r"\{([^{}]+)\}")


def fields_of(text: str) -> tuple[str, ...]:
    """Return the fields of a text: its own name, or those in ``"Question: {question} Answer: {answer}"``.

    Raises:
        ValueError: For a template with an unnamed field or a single brace, or a text without a name.
    """
    if not text.strip() or re.search(r"[{}]", _FIELD.sub("", text)):
        raise ValueError(f"text {text!r}: braces hold the name of a field, as in {{question}}")
    return tuple(_FIELD.findall(text)) or (text,)


def render(text: str, row: Mapping[str, Any]) -> str:
    """Return a field of a row, or a template filled in; the members of a list are joined by blanks."""

    def value_of(field: str) -> str:
        return " ".join(text_parts(read_field(row, field)) or ())

    return _FIELD.sub(lambda match: value_of(match[1]), text) if "{" in text else value_of(text)


FOLDER = Path(__file__).parent / "tasks"
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class HubSource(Section):
    """A data set of the Hugging Face hub."""

    path: str
    """Its repository, such as fancyzhx/ag_news."""
    name: str | None = None
    """Its configuration, where it has several."""
    data_dir: str | None = None
    """Only the files in this folder of the repository."""
    revision: str | None = None
    """A commit, tag or branch of it."""
    train: str = "train"
    """The split that is trained on; ``train+validation`` joins two, as the library ``datasets`` spells it."""
    validation: str = "validation"
    """The split that is reported on. The epoch is chosen on a part held out of the training split, so this
    may be a test split."""

    @model_validator(mode="after")
    def _check_splits(self) -> HubSource:
        train, validation = self.train.split("+"), self.validation.split("+")
        for name, parts in (("train", train), ("validation", validation)):
            if not all(map(str.strip, parts)) or len(set(parts)) < len(parts):
                raise ValueError(f"{name} is {'+'.join(parts)!r}; splits joined by +, each once")
        if both := sorted(set(train) & set(validation)):
            raise ValueError(
                f"split {both[0]} is trained on and reported on; name another one under train or validation"
            )
        return self


class FileSource(Section):
    """Files: .jsonl, .json, .csv, .tsv (each may be gzipped) or .parquet."""

    train: Path
    """What is trained on; a relative path starts at the task's file."""
    validation: Path
    """What is reported on."""


class PooledSplit(Section):
    """Another split than the data set's own, drawn from all of its examples."""

    seed: int = Field(ge=0)
    max_examples: int | None = Field(None, ge=8)
    """So many are drawn first (null: all)."""


class FolderNames(Section):
    """What the files of a task are called in a folder of tasks, without suffix."""

    train: str
    validation: str


def _pairs(value: Any) -> Any:
    """A mapping as pairs, which can be hashed."""
    return tuple(value.items()) if isinstance(value, dict) else value


class TaskFile(Section):
    """A classification task."""

    name: str = Field("", pattern=r"^$|" + NAME)
    """In rows; empty: the name of the file."""
    benchmark: str = Field(UNGROUPED, pattern=NAME)
    """What the task is averaged with in a report."""
    group: str | None = None
    """In rows; null: the benchmark."""
    reference: str = ""
    """Where the task comes from."""
    hub: HubSource | None = None
    """A data set of the hub."""
    files: FileSource | None = None
    """Files in place of the hub."""
    folder_names: FolderNames | None = None
    """Names of its files in --classification-dir and --glue-dir; null: <name>.train and <name>.validation."""
    text: tuple[str, ...] = Field(min_length=1, max_length=2)
    """A field, a template with {field}s in it, or a list of two of them, which are read as a pair. A field
    may hold a list of texts, such as the turns of a dialogue; turns.utterance is a field within a field."""
    pooled: PooledSplit | None = None
    """Join what is trained on and what is reported on, and draw both anew: 70% and 15%. The other 15% nobody
    reads, as in the source (FR-KAN) that split so. Equal texts of the data may fall into both parts."""
    flatten: Literal["multirc"] | None = None
    """multirc: rows nest questions and answers in a passage, and an answer is an example."""
    min_words: int = Field(0, ge=0)
    """Leave out examples of fewer words."""
    label: str = "label"
    """The field with the label."""
    labels: tuple[StrictStr | StrictInt, ...] | None = None
    """Every label in the order of its integer; the data has names, or positions from 0 where all labels here
    are names. Null: those of the training set, which are integers from 0 or names."""
    label_names: tuple[StrictStr, ...] | None = None
    """What readers are told each of ``labels`` means, in their order; scores do not depend on it."""
    train_on: str | None = None
    """Another task, whose training examples are trained on in place of its own; its ``labels`` stand here."""
    label_map: Annotated[tuple[tuple[str, Label], ...], BeforeValidator(_pairs)] = ()
    """What each label of the data counts as; in the order of its integer, where the data may have these."""
    multi_label: bool = False
    """The label's field holds a list, and any number of labels may be right."""
    segment_labels: str | None = Field(None, min_length=1)
    """The field with the labels of each turn of ``text``, a list for each turn; with these it is judged how
    well segments explain labels (``explain --measure segments``), and nothing is trained on them
    but what that is compared with."""
    majority: bool = False
    """The label's field holds what each annotator says; the most frequent counts, and an example with a tie
    is left out."""
    metrics: tuple[Metric, ...] = Field(("accuracy",), min_length=1)
    """What is reported. By the first one the epoch is chosen, and it stands for the task in means."""

    @field_validator("text", "metrics", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("text")
    @classmethod
    def _check_text(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            fields_of(text)
        return value

    @field_validator("labels", "label_names", mode="before")
    @classmethod
    def _check_booleans(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and any(isinstance(label, bool) for label in value):
            raise ValueError(f"{value!r} is how YAML reads yes, no, on and off; put each in quotes")
        return value

    @field_validator("labels", "label_names")
    @classmethod
    def _check_labels(cls, value: tuple[Label, ...] | None) -> tuple[Label, ...] | None:
        if value is not None and len(value) < 2:
            raise ValueError(f"{list(value)!r} is not two or more names or integers")
        if value and len({type(label) for label in value}) > 1:
            raise ValueError("some labels are names and some integers; make them one or the other")
        if value and len(set(value)) < len(value):
            raise ValueError(f"label {next(x for x in value if value.count(x) > 1)!r} stands there twice")
        return value

    @model_validator(mode="after")
    def _check_whole(self) -> TaskFile:
        names, labels = self.label_names, self.labels or ()
        if names is not None and len(names) != len(labels):
            raise ValueError(
                f"label_names has {len(names)} names and {len(labels)} labels are declared; each needs "
                "one, in the order of labels"
            )
        if wrong := [label for _, label in self.label_map if label not in labels]:
            raise ValueError(f"label_map has {wrong[0]!r}, which labels has not; declare it there")
        if self.train_on and not labels:
            raise ValueError(f"train_on needs labels, those of {self.train_on} in its order")
        if self.majority and self.multi_label:
            raise ValueError("majority and multi_label exclude each other: one makes one label of a list")
        if self.segment_labels and not self.multi_label:
            raise ValueError(
                "segment_labels needs multi_label: true: a segment can have no label only where each is "
                "judged by itself"
            )
        num_labels = len(self.labels) if self.labels else None
        for metric in self.metrics:
            if reason := unfit_metric(metric, num_labels, self.multi_label):
                raise ValueError(f"metrics: {reason}")
        return self


def shipped_tasks() -> tuple[str, ...]:
    """Return the names of the tasks that have a file here, in order."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def find_task_file(task: str) -> TaskFile:
    """Return a task by its name, or by the path of its YAML file.

    Raises:
        UsageError: For an unknown name, or a file that is absent or faulty.
    """
    if task.endswith((".yaml", ".yml")) or "/" in task:
        return read_task_file(Path(task))
    if task not in (names := shipped_tasks()):
        raise unknown_name("classification task (one of your own is given by its .yaml file)", task, names)
    return shipped_task(task)


def benchmarks_asked_for(config: EvalConfig) -> tuple[str, ...]:
    """Return what scores are called in rows: suites, the benchmarks of ``classify``, one a name in ``tasks``.

    Raises:
        UsageError: For an unknown task in ``classify``, or a faulty file of one.
    """
    classified = (find_task_file(task).benchmark for task in config.classify)
    by_name = (HARNESS_PREFIX + name for name in config.tasks)
    return tuple(dict.fromkeys((*config.suites, *classified, *by_name)))


@lru_cache(maxsize=64)
def shipped_task(name: str) -> TaskFile:
    """Return a task that has a file here."""
    return _complete(FOLDER / f"{name}.yaml")


def read_task_file(path: Path) -> TaskFile:
    """Read a user's task.

    Raises:
        UsageError: If the file cannot be read, does not fit, or names a benchmark that is another's.
    """
    task = _complete(path)
    if task.benchmark in SUITES or task.benchmark.startswith(HARNESS_PREFIX):
        raise UsageError(
            f"{path}: benchmark {task.benchmark} has tasks of its own, which yours would be averaged with; "
            "give it another name or leave it out"
        )
    return task


def _complete(path: Path) -> TaskFile:
    task = read_config(path, TaskFile)
    if (task.hub is None) == (task.files is None):
        raise UsageError(
            f"{path}: says where the examples are either under hub: or under files:, one of them"
        )
    changes: dict[str, Any] = {"name": task.name or path.stem, "group": task.group or task.benchmark}
    if not re.match(NAME, changes["name"]):
        raise UsageError(
            f"{path}: {changes['name']!r} is no name for a task; give it one of letters, digits, -, _ and ."
        )
    if task.files is not None:
        folder = path.absolute().parent
        changes["files"] = FileSource(
            train=folder / task.files.train, validation=folder / task.files.validation
        )
    return task.model_copy(update=changes)
