"""Minimal pairs: a model is right about a pair when its good sentence scores higher than its bad one.

Seven pairs of BLiMP are identical: a tie counts one half, and ties are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from base.errors import UsageError
from base.progress import Tell
from eval.config import EvalConfig
from eval.zero_shot.choices import Choice, continuations, score_choices
from eval.zero_shot.task import TaskResult, TextTask, accuracy_and_ties, read_checked
from pretrain.data.embedded import minimal_pairs
from scores.suites.blimp_paradigms import phenomenon_name

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer

PAIR_COLUMNS = ("sentence_good", "sentence_bad")
# The `pair_ID` of one supplement task repeats; there the row number is the id.
PAIR_ID_COLUMNS = ("pairID", "pair_id")


@dataclass(frozen=True)
class PairTask(TextTask):
    """Pairs of sentences; ``read`` gives objects with at least ``PAIR_COLUMNS``."""

    def measure(self, scorer: TextScorer, tell: Tell) -> TaskResult:
        pairs = read_pairs(self)
        tell(f"{len(pairs)} pairs")
        items = score_pairs(self, pairs, scorer)
        return self.result(task_group(items), accuracy_and_ties(items), items)

    def num_items(self) -> int:
        return len(read_pairs(self))


# A study asks for the same pairs once a run, all 67 paradigms of BLiMP being 30 MB.
@lru_cache(maxsize=256)
def read_pairs(task: PairTask) -> pd.DataFrame:
    """Read a task's pairs.

    Returns:
        Columns sentence_good, sentence_bad, paradigm, phenomenon, pair_id, all text; not to be changed.

    Raises:
        UsageError: For a sentence that is not text or is empty; names the row.
    """
    return pd.DataFrame(read_checked(task, _normalise))


def _normalise(task: PairTask, number: int, row: dict) -> dict[str, str]:
    for column in PAIR_COLUMNS:
        if not isinstance(row[column], str) or not row[column].strip():
            where = f"{task.suite}/{task.name}, row {number}"
            raise UsageError(f"{where}: {column} is not a sentence: {row[column]!r}")
    named = (row[key] for key in PAIR_ID_COLUMNS if row.get(key) is not None)
    return {
        "sentence_good": row["sentence_good"],
        "sentence_bad": row["sentence_bad"],
        "paradigm": str(row.get("UID") or task.name),
        "phenomenon": phenomenon_name(str(row.get("linguistics_term") or task.name)),
        "pair_id": str(next(named, number - 1)),
    }


def score_pairs(task: PairTask, pairs: pd.DataFrame, scorer: TextScorer) -> pd.DataFrame:
    """Score the pairs of one task.

    Returns:
        One row a pair: suite, task, phenomenon, paradigm, pair_id, score_good and score_bad (nats), margin
        (their difference), num_tokens_good and num_tokens_bad (scored tokens), num_tokens_differing (see
        ``count_differing``), tie, and correct (1, 0, or 0.5 for a tie).

    Raises:
        UsageError: If a score is not a finite number.
    """
    sentences = zip(pairs["sentence_good"], pairs["sentence_bad"], strict=True)
    choices = [Choice("", both) for both in sentences]
    scored = score_choices(choices, scorer)
    good, bad = np.array([s.scores for s in scored]).T
    lengths = np.array([s.num_tokens for s in scored])
    return pd.DataFrame(
        {
            "suite": task.suite,
            "task": task.name,
            "phenomenon": pairs["phenomenon"].to_numpy(),
            "paradigm": pairs["paradigm"].to_numpy(),
            "pair_id": pairs["pair_id"].to_numpy(),
            "score_good": good,
            "score_bad": bad,
            "margin": good - bad,
            "num_tokens_good": lengths[:, 0],
            "num_tokens_bad": lengths[:, 1],
            "num_tokens_differing": _differing(choices, scorer),
            "tie": good == bad,
            "correct": (good > bad) + 0.5 * (good == bad),
        }
    )


def _differing(choices: Sequence[Choice], scorer: TextScorer) -> list[int]:
    """Count for each pair the tokens that differ; the tokens are those of the scoring just done."""
    texts = scorer.encode(continuations(choices))
    tokens = [list(text.input_ids[text.start : text.end]) for text in texts]
    return [count_differing(good, bad) for good, bad in zip(tokens[::2], tokens[1::2], strict=True)]


def count_differing(first: Sequence[int], second: Sequence[int]) -> int:
    """Count the tokens in which two sequences differ: those between what both begin and what both end with.

    Of ``a b c d`` and ``a x y d`` two differ. Where one has more of them than the other, it is the larger
    number: of ``a b d`` and ``a d`` one differs. Equal sequences differ in none.
    """
    begun = _num_shared(first, second)
    ended = _num_shared(first[begun:][::-1], second[begun:][::-1])
    return max(len(first), len(second)) - begun - ended


def _num_shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Count the tokens with which both begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))


def task_group(items: pd.DataFrame) -> str:
    """Return the phenomenon of a task, which is its own name where its pairs have several or none."""
    phenomena = items["phenomenon"].unique()
    return phenomena[0] if len(phenomena) == 1 else items["task"].iloc[0]


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List a task for each paradigm of the grammar; the seed and the number of pairs are the config's."""
    size, seed = config.embedded_pairs_per_paradigm, config.embedded_seed
    source = f"embedded:{size}:{seed}"
    return [
        PairTask(suite, uid, source, partial(_read, size, seed, uid), config.max_pairs)
        for uid in _pairs(size, seed)
    ]


def _read(pairs_per_paradigm: int, seed: int, uid: str) -> list[dict]:
    return _pairs(pairs_per_paradigm, seed)[uid]


@lru_cache(maxsize=2)
def _pairs(pairs_per_paradigm: int, seed: int) -> dict[str, list[dict]]:
    return minimal_pairs(pairs_per_paradigm, seed)
