"""Pairs of continuations, each given its own context: of the good one more is expected than of the bad one.

What is scored is log p(continuation | context). Either the continuation differs (COMPS)
or the context (EWoK).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from base.errors import UsageError
from base.progress import Tell
from eval.files import fingerprint, read_json_rows
from eval.zero_shot.task import TaskResult, TextTask, accuracy_and_ties, evenly_spaced

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer


class ConditionalPair(NamedTuple):
    """(context, continuation) of the good and of the bad one, a space before each continuation."""

    good: tuple[str, str]
    bad: tuple[str, str]


@dataclass(frozen=True)
class ConditionalTask(TextTask):
    """Pairs that ``read`` gives as objects with ``good`` and ``bad``, both context and continuation."""

    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        pairs = read_pairs(self)
        tell(f"{len(pairs)} pairs")
        scores = scorer.score_continuations([text for pair in pairs for text in pair])
        good, bad = scores.log_likelihood[::2], scores.log_likelihood[1::2]
        items = pd.DataFrame(
            {
                "suite": self.suite,
                "task": self.name,
                "pair_id": [str(number) for number in range(len(pairs))],
                "score_good": good,
                "score_bad": bad,
                "margin": good - bad,
                "num_tokens_good": scores.num_tokens[::2],
                "num_tokens_bad": scores.num_tokens[1::2],
                "tie": good == bad,
                "correct": np.where(good == bad, 0.5, good > bad),
            }
        )
        return self.result(self.suite, accuracy_and_ties(items), items)

    def num_items(self) -> int:
        return len(read_pairs(self))


PairOfRow = Callable[[dict], ConditionalPair]


def conditional_task(
    suite: str, name: str, path: Path, columns: tuple[str, ...], pair_of: PairOfRow, max_items: int | None
) -> ConditionalTask:
    """Make the task of a file of JSON Lines, whose columns are texts and hold one pair a row.

    Args:
        suite: The suite.
        name: The task.
        path: Its file.
        columns: What every row must have as text.
        pair_of: Makes the pair of a row; a function of a module, so that the task can be sent.
        max_items: Score only so many.
    """
    read = partial(_read, path, columns, pair_of, f"{suite}/{name}")
    return ConditionalTask(suite, name, fingerprint([path]), read, max_items)


def _read(path: Path, columns: tuple[str, ...], pair_of: PairOfRow, where: str) -> list[dict]:
    rows = read_json_rows(path, columns)
    for number, row in enumerate(rows, start=1):
        for column in columns:
            if not isinstance(row[column], str) or not row[column].strip():
                raise UsageError(f"{where}, row {number}: {column} is not a text: {row[column]!r}")
    return [pair_of(row)._asdict() for row in rows]


@lru_cache(maxsize=32)
def read_pairs(task: ConditionalTask) -> tuple[ConditionalPair, ...]:
    """Read a task's pairs.

    Raises:
        UsageError: For a row without one of its texts; names the row.
    """
    return tuple(ConditionalPair(**row) for row in evenly_spaced(task.read(), task.max_items))
