"""One classification task: its labels, what is read of an example, and how it is fine-tuned."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from base.errors import UsageError
from base.printing import first_few
from eval.classification.schema import (
    Label,
    TaskFile,
    fields_of,
    find_task_file,
    read_field,
    render,
    text_parts,
)
from eval.finetuning import PRESETS, FinetuneConfig, Finetuning
from scores.head_descriptions import HeadChoice

# Their definitions are as old as the first scores, which stay valid.
GLUE, EMBEDDED_GLUE = "glue", "embedded-glue"


NUM_SHOWN = 24


def plain(value: Any) -> Any:
    """Return 1 for 1.0, which tables make of integers, and anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def list_labels(labels: Iterable[Label]) -> str:
    """Name labels for a message, the first few where there are many."""
    return first_few([str(label) for label in labels], NUM_SHOWN)


def label_positions(labels: tuple[Label, ...]) -> dict[Label, int]:
    """Return which integer stands for a label.

    Where labels are declared by name, the data may have their positions instead, as on the hub; not where
    a name is itself a number, since 1 could then be the first name or the second. The names true and false
    are what a Boolean is called.
    """
    positions: dict[Label, int] = {label: place for place, label in enumerate(labels)}
    names = {str(label).lower(): place for place, label in enumerate(labels)}
    if names.keys() & {"true", "false"}:
        return positions | {name == "true": names[name] for name in ("true", "false") if name in names}
    if all(isinstance(label, str) and not label.lstrip("-").isdigit() for label in labels):
        positions |= {place: place for place in range(len(labels))}
    return positions


def most_frequent(votes: Any) -> Any:
    """Return what most annotators say, a value that is not a list as it is, and None for a tie."""
    if not isinstance(votes, list):
        return votes
    ranked = Counter(map(plain, votes)).most_common(2)
    tie = len(ranked) == 2 and ranked[0][1] == ranked[1][1]
    return ranked[0][0] if ranked and not tie else None


def encode_label(value: Any, positions: dict[Label, int], num_labels: int, many: bool) -> int | list[int]:
    """Return the integer of a label, or with ``many`` a 0 or 1 for each label.

    Raises:
        KeyError: With what is no label.
    """
    if not many:
        return _position(value, positions)
    if not isinstance(value, list):
        raise KeyError(value)
    present = {_position(member, positions) for member in value}
    return [int(place in present) for place in range(num_labels)]


def _position(value: Any, positions: dict[Label, int]) -> int:
    value = plain(value)
    if not isinstance(value, str | int) or value not in positions:
        raise KeyError(value)
    return positions[value]


def find_labels(values: Iterable[Any], many: bool, source: str) -> tuple[Label, ...]:
    """Return the labels of a training set for which none are declared: integers from 0, or names in order.

    Args:
        values: What its examples have as labels; lists of labels with ``many``.
        many: Whether an example has several.
        source: The training set, for the error message.

    Raises:
        UsageError: For labels of several types, or integers that do not run from 0 without a gap.
    """
    labels: set[Any] = set()
    for number, value in enumerate(values, start=1):
        for label in value if many and isinstance(value, list) else [value]:
            if not isinstance(plain(label), str | int):
                hint = "; set multi_label: true in the task's file" if isinstance(label, list) else ""
                raise UsageError(
                    f"{source}, row {number}: label {label!r} is neither a name nor an integer{hint}"
                )
            labels.add(plain(label))
    names = sorted(label for label in labels if isinstance(label, str))
    numbers = sorted(int(label) for label in labels if not isinstance(label, str))
    if (names and numbers) or numbers != list(range(len(numbers))):
        raise UsageError(
            f"{source}: labels {list_labels([*names[:3], *numbers])} are neither all names nor integers from "
            "0 without a gap; declare them in the task's file: labels: [...]"
        )
    return tuple(names or numbers)


TextPair = tuple[str, str | None]


@dataclass(frozen=True)
class ClassificationTask:
    """One task.

    Attributes:
        definition: What its file says.
        labels: What the integers from 0 stand for.
    """

    definition: TaskFile
    labels: tuple[Label, ...]

    @property
    def name(self) -> str:
        """As in rows."""
        return self.definition.name

    @property
    def benchmark(self) -> str:
        """As in rows."""
        return self.definition.benchmark

    @property
    def group(self) -> str:
        """As in rows."""
        return self.definition.group or self.benchmark

    @property
    def num_labels(self) -> int:
        """How many labels there are."""
        return len(self.labels)

    @property
    def label_names(self) -> tuple[str, ...]:
        """What a reader is told that the labels are."""
        if names := self.definition.label_names:
            return names
        return tuple(label if isinstance(label, str) else f"label {label}" for label in self.labels)

    @property
    def multi_label(self) -> bool:
        """Whether any number of labels may be right."""
        return self.definition.multi_label

    @property
    def metrics(self) -> tuple[str, ...]:
        """In rows; the epoch is chosen by the first one, which ``headline`` names unless a preset does."""
        return self.definition.metrics

    def headline(self, config: FinetuneConfig) -> str:
        """Name the metric that stands for the task: its file's first, unless a preset of GLUE has another."""
        averaged = PRESETS[config.preset].averaged if self.benchmark in (GLUE, EMBEDDED_GLUE) else {}
        return averaged.get(self.name, self.metrics[0])

    def source_of(self, split: str) -> ClassificationTask:
        """Return the task whose examples a split has: to train on, those of ``train_on`` where it is set."""
        other = self.definition.train_on
        return ClassificationTask(find_task_file(other), self.labels) if other and split == "train" else self

    def file_name(self, split: str) -> str:
        """Name the file of a split; tasks with the same one to train on share a fine-tuned model."""
        source = self.source_of(split)
        names = source.definition.folder_names
        return getattr(names, split) if names else f"{source.name}.{split}"

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """What every example must have besides its label."""
        fields = (field for text in self.definition.text for field in fields_of(text))
        return tuple(dict.fromkeys(fields))

    @cached_property
    def positions(self) -> dict[Label, int]:
        """The integer of every label, as the data may write it."""
        if not (counts_as := self.definition.label_map):
            return label_positions(self.labels)
        places = [self.labels.index(label) for _, label in counts_as]
        names = tuple(name for name, _ in counts_as)
        return {value: places[place] for value, place in label_positions(names).items()}

    @cached_property
    def digest(self) -> str:
        """Hexadecimal digits that change with whatever makes other examples of the same data."""
        fields = {*("hub", "text", "flatten", "min_words", "label", "labels", "multi_label", "majority")}
        if self.definition.pooled:  # without, digests are those of files that could not say it
            fields.add("pooled")
        content = self.definition.model_dump_json(include=fields)
        content += str(self.definition.label_map or "")
        if (source := self.source_of("train")) is not self:
            content += source.digest
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def make_input(self, row: dict) -> TextPair:
        """Make a text, or a pair of texts, of an example."""
        first, *second = (render(text, row) for text in self.definition.text)
        return first, second[0] if second else None

    def turns(self, row: dict) -> list[str] | None:
        """Return the turns of an example whose one text is a field with a list; None for any other."""
        (text, *others) = self.definition.text
        value = None if others or "{" in text else read_field(row, text)
        return text_parts(value) if isinstance(value, list) else None

    def finetuning(self, config: FinetuneConfig, head: HeadChoice | None = None) -> Finetuning:
        """Settle how the task is fine-tuned: ``config.resolve(task, head)``.

        A preset speaks of the tasks of GLUE by name. Any other task has its epoch chosen by its first metric
        unless the config names one, and nothing of a GLUE task that happens to have its name.
        """
        if self.benchmark in (GLUE, EMBEDDED_GLUE):
            return config.resolve(self.name, head)
        settings = config.resolve(f"{self.benchmark}/{self.name}", head)
        metric = config.metric_for_best_model or self.metrics[0]
        return settings.model_copy(update={"metric_for_best_model": metric})
