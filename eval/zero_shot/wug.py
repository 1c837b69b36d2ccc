"""Wug tests as in BabyLM 2025: does a model prefer what people prefer?

- ``wug``: nonce adjectives are made into nouns in two ways, "actignability" and "actignableness" (Hofmann et
  al. 2024, https://arxiv.org/abs/2411.07990).
- ``wug-past``: nonce verbs are put into the past in two ways (Weissweiler et al. 2023,
  https://arxiv.org/abs/2310.15113).

People were asked which they prefer, and the score is the rank correlation of a model's preference with
theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from base.errors import UsageError
from base.progress import Tell
from eval.config import EvalConfig
from eval.files import list_data_files
from eval.zero_shot.choices import Choice, score_choices
from eval.zero_shot.suites import data_folder, find_data
from eval.zero_shot.task import TaskResult, TextTask, file_task, read_checked
from scores.suites.registry import SUITES

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer

WUG_COLUMNS = ("sentences", "ratio")


@dataclass(frozen=True)
class WugTask(TextTask):
    """Pairs of texts with the share of people who chose the first; ``read`` gives ``WUG_COLUMNS``."""

    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        rows = read_items(self)
        tell(f"{len(rows)} items")
        scored = score_choices([Choice("", row.texts) for row in rows], scorer)
        first, second = np.array([choice.scores for choice in scored]).T
        lengths = np.array([choice.num_tokens for choice in scored])
        items = pd.DataFrame(
            {
                "suite": self.suite,
                "task": self.name,
                "item_id": [str(index) for index in range(len(rows))],
                "text_first": [row.texts[0] for row in rows],
                "text_second": [row.texts[1] for row in rows],
                "score_first": first,
                "score_second": second,
                "num_tokens_first": lengths[:, 0],
                "num_tokens_second": lengths[:, 1],
                "margin": first - second,
                "tie": first == second,
                "preference": preference(first, second),
                "human_preference": [row.ratio for row in rows],
            }
        )
        return self.result("morphology", {"spearman_correlation": self._correlation(items)}, items)

    def num_items(self) -> int:
        return len(read_items(self))

    def _correlation(self, items: pd.DataFrame) -> float:
        preferences, human = items["preference"], items["human_preference"]
        if preferences.nunique() < 2 or human.nunique() < 2:
            raise UsageError(
                f"{self.suite}/{self.name}: all {len(items)} preferences are equal, which correlates with "
                "nothing; score more items (--max-pairs), or look at the model"
            )
        return 100 * float(spearmanr(preferences, human).statistic)


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the one task.

    Raises:
        UsageError: If its data are absent.
    """
    (name,) = SUITES[suite].tasks
    path = find_data(data_folder(suite, config), suite, name, f"{name}/{name}")
    if path.is_dir():
        (path, *others) = list_data_files(path).values()
        if others:
            raise UsageError(f"{path.parent} holds several data files; {suite} has one")
    return [file_task(WugTask, suite, name, path, WUG_COLUMNS, config.max_pairs)]


def preference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return how much of a softmax over both scores falls on the first, in float32 as the pipeline does.

    Where a model is sure, float32 rounds to 1 and such items share a rank.
    """
    margin = (first - second).astype(np.float32)
    return 1 / (1 + np.exp(-margin))


@dataclass(frozen=True)
class WugItem:
    """Two texts, and the share of people who prefer the first."""

    texts: tuple[str, str]
    ratio: float


@lru_cache(maxsize=4)
def read_items(task: WugTask) -> tuple[WugItem, ...]:
    """Read a task's items.

    Raises:
        UsageError: For an item that is not as ``WUG_COLUMNS`` say; names the row.
    """
    return tuple(read_checked(task, _item))


def _item(task: WugTask, number: int, row: dict) -> WugItem:
    where = f"{task.suite}/{task.name}, row {number}"
    texts = str(row["sentences"]).split("\t")
    if len(texts) != 2 or not all(text.strip() for text in texts):
        raise UsageError(f"{where}: sentences must be two texts with a tab between: {row['sentences']!r}")
    try:
        ratio = float(row["ratio"])
    except (TypeError, ValueError):
        ratio = float("nan")
    if not 0 <= ratio <= 1:
        raise UsageError(f"{where}: ratio is not a number from 0 to 1: {row['ratio']!r}")
    return WugItem((texts[0], texts[1]), ratio)
