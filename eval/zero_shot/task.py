"""What the suites that score texts have in common: a task is data that any process can measure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pandas as pd

from base.progress import Tell
from eval.files import fingerprint, read_json_rows
from scores.suites.registry import SUITES

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer

Row = TypeVar("Row")
Task = TypeVar("Task", bound="TextTask")


@dataclass(frozen=True)
class TaskResult:
    """What was measured on one task: metrics in percent unless their name says otherwise, one row an item.

    Attributes:
        primary: The metric that stands for the task.
    """

    group: str
    metrics: dict[str, float]
    items: pd.DataFrame
    primary: str


@dataclass(frozen=True)
class TextTask(ABC):
    """One task of a suite. Two tasks of the same name and source are equal, wherever their data lies.

    Attributes:
        source: What identifies the data: a fingerprint of their file, or the name and seed they come from.
        read: Reads all of it, as objects.
        max_items: Score only so many items, evenly spaced; None takes all.
    """

    suite: str
    name: str
    source: str
    read: Callable[[], list[dict]] = field(compare=False)
    max_items: int | None = None

    @abstractmethod
    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        """Score every item.

        Raises:
            UsageError: For faulty data, or a score that is not finite.
        """

    def result(self, group: str, metrics: dict[str, float], items: pd.DataFrame) -> TaskResult:
        """Return what was measured, with the primary metric of the suite's spec."""
        return TaskResult(group, metrics, items, SUITES[self.suite].headline(metrics))

    @abstractmethod
    def num_items(self) -> int:
        """How many items there are to score."""


def file_task(
    kind: type[TextTask], suite: str, name: str, path: Path, columns: tuple[str, ...], max_items: int | None
) -> TextTask:
    """Make the task whose items are the rows of a file, JSON Lines with at least these columns."""
    return kind(suite, name, fingerprint([path]), partial(read_json_rows, path, columns), max_items)


def accuracy_and_ties(items: pd.DataFrame) -> dict[str, float]:
    """Return the share of items that are right, and, where there are any, of those that tie, in percent."""
    ties = 100 * float(items["tie"].mean())
    return {"accuracy": 100 * float(items["correct"].mean()), **({"ties": ties} if ties else {})}


def read_checked(task: Task, check: Callable[[Task, int, dict], Row]) -> list[Row]:
    """Read a task's items, each made by ``check`` of the task, the row's number from 1, and the row."""
    rows = [check(task, number, row) for number, row in enumerate(task.read(), start=1)]
    return evenly_spaced(rows, task.max_items)


def evenly_spaced(rows: list[Row], wanted: int | None) -> list[Row]:
    """Keep so many rows, evenly spaced over all, since files are sorted by paradigm; None keeps all."""
    if wanted is None or wanted >= len(rows):
        return rows
    return [rows[index * len(rows) // wanted] for index in range(wanted)]
