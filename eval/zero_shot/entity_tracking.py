"""Entity tracking (Kim and Schuster 2023, https://aclanthology.org/2023.acl-long.213) as in BabyLM 2025.

A text says what is in seven boxes and what is moved. The model has to prefer the right continuation of
"Box 3 contains" to four others; only the continuation is scored. Chance is 20%.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from base.errors import UsageError
from base.progress import Tell
from eval.config import EvalConfig
from eval.zero_shot.choices import Choice, credit, score_choices
from eval.zero_shot.suites import data_folder, find_data
from eval.zero_shot.task import TaskResult, TextTask, accuracy_and_ties, file_task, read_checked
from scores.suites.registry import SUITES

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer

ENTITY_COLUMNS = ("input_prefix", "options", "numops")


@dataclass(frozen=True)
class EntityTask(TextTask):
    """Items with several options, the first of them right; ``read`` gives objects with ``ENTITY_COLUMNS``."""

    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        rows = read_items(self)
        tell(f"{len(rows)} items")
        scored = score_choices([_choice(row) for row in rows], scorer)
        scores = [choice.scores for choice in scored]
        items = pd.DataFrame(
            {
                "suite": self.suite,
                "task": self.name,
                "item_id": [str(row["example_id"]) for row in rows],
                "num_operations": [int(row["numops"]) for row in rows],
                "num_options": [len(values) for values in scores],
                "scores": [values.tolist() for values in scores],
                "num_tokens": [choice.num_tokens for choice in scored],
                "margin": [values[0] - values[1:].max() for values in scores],
                "prediction": [int(values.argmax()) for values in scores],
                "tie": [bool((values[1:] == values[0]).any()) for values in scores],
                "correct": [credit(values) for values in scores],
            }
        )
        return self.result("entity_tracking", entity_metrics(items), items)

    def num_items(self) -> int:
        return len(read_items(self))


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks: one for each kind of text.

    Raises:
        UsageError: If their data are absent.
    """
    folder = data_folder(suite, config)
    paths = {
        name: find_data(folder, suite, f"entity_tracking_{name}", f"entity_tracking/{name}")
        for name in SUITES[suite].tasks
    }
    return [
        file_task(EntityTask, suite, name, path, ENTITY_COLUMNS, config.max_pairs)
        for name, path in paths.items()
    ]


def entity_metrics(items: pd.DataFrame) -> dict[str, float]:
    """Return the share of items that are right, and the BabyLM 2025 score, in percent.

    The BabyLM score is the mean over the numbers of operations (0 to 5), each counting the same.
    """
    of_each = items.groupby("num_operations")["correct"].mean()
    return {**accuracy_and_ties(items), "accuracy_by_operations": 100 * float(of_each.mean())}


@lru_cache(maxsize=16)
def read_items(task: EntityTask) -> tuple[dict, ...]:
    """Read a task's items.

    Raises:
        UsageError: For an item that is not as ``ENTITY_COLUMNS`` say; names the row.
    """
    return tuple(read_checked(task, _checked))


def _choice(row: dict) -> Choice:
    return Choice(row["input_prefix"], tuple(row["options"]))


def _checked(task: EntityTask, number: int, row: dict) -> dict:
    where = f"{task.suite}/{task.name}, row {number}"
    options = row["options"]
    if not (isinstance(options, list) and len(options) >= 2 and all(map(_is_text, options))):
        raise UsageError(f"{where}: options must be two or more texts, not {options!r}")
    if not _is_text(row["input_prefix"]):
        raise UsageError(f"{where}: input_prefix is not a text: {row['input_prefix']!r}")
    if not isinstance(row["numops"], int):
        raise UsageError(f"{where}: numops is not a whole number: {row['numops']!r}")
    return {"example_id": number - 1, **row}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
