"""What the suites that score texts have in common, and which of their tasks a user asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pandas as pd

from base.errors import UsageError, unknown_name
from base.printing import Tell
from base.text.text_files import absent
from eval.config import EvalConfig
from scores.suites import SUITES

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer

Row = TypeVar("Row")


@dataclass(frozen=True)
class TaskResult:
    """What was measured on one task: metrics in percent unless their name says otherwise, one row an item.

    Attributes:
        primary: The metric that stands for the task.
        guess: What a constant answer or a guess scores, by metric in percent; empty where nobody says.
    """

    group: str
    metrics: dict[str, float]
    items: pd.DataFrame
    primary: str
    guess: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TextTask(ABC):
    """One task of a suite. Two tasks of the same name and source are equal, wherever their data lies.

    Attributes:
        source: What identifies the data: a fingerprint of their file, or the name and seed they come from.
        load_rows: Reads all of it, as objects.
        max_items: Score only so many items, evenly spaced; None takes all.
    """

    suite: str
    name: str
    source: str
    load_rows: Callable[[], list[dict]] = field(compare=False)
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


def evenly_spaced(rows: list[Row], count: int | None) -> list[Row]:
    """Return ``count`` rows, evenly spaced over all, since files are sorted by paradigm; None returns all."""
    if count is None or count >= len(rows):
        return rows
    return [rows[index * len(rows) // count] for index in range(count)]


def data_folder(suite: str, config: EvalConfig) -> Path:
    """Return ``babylm25_dir``.

    Raises:
        UsageError: If it is not given, or is no folder; says which suite needs it.
    """
    if config.babylm25_dir is None:
        raise UsageError(
            f"the suite {suite} is not on the hub; pass --babylm25-dir FOLDER, the evaluation data of the "
            "BabyLM 2025 evaluation pipeline (https://github.com/babylm/evaluation-pipeline-2025)"
        )
    if not config.babylm25_dir.is_dir():
        raise absent(config.babylm25_dir, f"no folder {config.babylm25_dir}; --babylm25-dir names one")
    return config.babylm25_dir


def find_data(folder: Path, suite: str, *names: str) -> Path:
    """Find a file, or a folder of files, by its name without suffix, in one of the pipeline's layouts.

    Raises:
        UsageError: If there is none of those names.
    """
    for base in (folder, folder / "full_eval", folder / "fast_eval"):
        for name in names:
            for suffix in (".jsonl.gz", ".jsonl", ""):
                if (path := base / f"{name}{suffix}").exists() and (suffix or path.is_dir()):
                    return path
    raise UsageError(f"no {names[0]}.jsonl or .jsonl.gz in {folder}; the suite {suite} needs it")


def find_text_tasks(config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of all suites asked for that score texts, without reading more than their files' bytes.

    Args:
        config: The suites, and where their data is.
        run_dir: The run, which ``perplexity`` may take its held-out documents from; None leaves it out.

    Raises:
        UsageError: For data that is needed and absent, or a name in ``pair_tasks`` that no suite has.
    """
    tasks = [
        task for suite in dict.fromkeys(config.suites) for task in find_suite_tasks(suite, config, run_dir)
    ]
    if config.pair_tasks is None:
        return tasks
    available = [task.name for task in tasks]
    for name in config.pair_tasks:
        if name not in available:
            raise unknown_name("task of the suites", name, available)
    return [task for task in tasks if task.name in config.pair_tasks]


def find_suite_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of one suite; none for a suite that does not score texts.

    Raises:
        UsageError: If its data is needed and absent.
    """
    return [] if SUITES[suite].kind == "classification" else SUITES[suite].find(config, run_dir)


def missing_tasks(suite: str, tasks: list[TextTask]) -> list[str]:
    """Return the tasks that a suite should have and that were not found; its mean is then another one."""
    present = {task.name for task in tasks}
    return [name for name in SUITES[suite].tasks if name not in present]
