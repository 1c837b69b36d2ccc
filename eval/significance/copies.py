"""Runs with the same scores throughout: copies, or chance?

All runs with the same tasks are judged together, by how often two different runs of an arm agree in a score.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from eval.results.rows import RunKey
from eval.suites.registry import HELD_OUT, is_percentage

RUN = ["family", "variant", "seed"]
SCORE = ["benchmark", "task", "metric", "head"]
MOST_BY_CHANCE = 0.001
"""Pairs of equal runs that chance may make in a study whose equal runs count as copies."""
STEP_OF_SHARES = 0.3
"""Percentages may be shares of a few hundred items, however many decimals they have."""
MAX_DECIMALS = 8


def find_equal_runs(rows: pd.DataFrame) -> dict[tuple[RunKey, ...], bool]:
    """Find runs with the same scores throughout: whether these are too many to agree by chance.

    A run that scores zero in everything gives one answer to everything, and is taken for no copy. One rounded
    score alone is the same in two runs too often to be worth a word.

    Args:
        rows: What ``normalise_rows`` returns, each key once.
    """
    # Each training tells its own held-out loss, whoever's scores lie beside it.
    rows = rows[rows.benchmark != HELD_OUT] if (rows.benchmark != HELD_OUT).any() else rows
    table = rows.set_index([*RUN, *SCORE])["score"].unstack(SCORE).sort_index()
    found: dict[tuple[RunKey, ...], bool] = {}
    for block in _blocks(table):
        if groups := list(_equal(block)):
            are_copies = equal_by_chance(block) < MOST_BY_CHANCE
            found |= dict.fromkeys(groups if are_copies or block.shape[1] > 1 else (), are_copies)
    return found


def _blocks(table: pd.DataFrame) -> Iterable[pd.DataFrame]:
    """Runs that have the same tasks, and their scores."""
    has_score = table.notna().to_numpy()
    for pattern in np.unique(has_score, axis=0):
        yield table.loc[(has_score == pattern).all(axis=1), pattern]


def _equal(block: pd.DataFrame) -> Iterable[tuple[RunKey, ...]]:
    scored = block[(block != 0).any(axis=1)]
    names = scored.groupby(list(scored.columns), sort=False).ngroup()
    for _, own in names.groupby(names):
        if len(own) > 1:
            yield tuple(own.index)


def equal_by_chance(block: pd.DataFrame) -> float:
    """Estimate from above how many pairs of runs have all of their scores in common by chance.

    Two different runs of an arm agree in a score as often as is seen, or as its steps and spread let them,
    whichever is more. The first of K scores counts with that share, each other one with its root, as
    scores of one run move together. Scores that differ by the same amount in all runs, or add up to one sum,
    count once.

    Args:
        block: (R, K) scores by family, variant and seed.
    """
    different = [np.unique(arm.to_numpy(float), axis=0) for _, arm in block.groupby(RUN[:2])]
    pairs = sum(_pairs(len(arm)) for arm in different)
    if not pairs:
        return float(_pairs(len(block)))
    counts = [np.unique(scores, return_counts=True)[1] for arm in different for scores in arm.T]
    seen = sum(_pairs(n) for of_scores in counts for n in of_scores) / (pairs * block.shape[1])
    share = max(seen, _agree_by_steps(block, different))
    return _pairs(len(block)) * share ** ((_num_apart(block.to_numpy(float)) + 1) / 2)


def _agree_by_steps(block: pd.DataFrame, different: Sequence[np.ndarray]) -> float:
    """Return how often normal scores of spread sd, in steps of d, are the same: d / (2 sqrt(pi) sd)."""
    scores = block.to_numpy(float)
    decimals = np.array([np.abs(scores - scores.round(n)).max(axis=0) > 1e-9 for n in range(MAX_DECIMALS)])
    steps = 10.0 ** -decimals.sum(axis=0)
    shares = [is_percentage(name) for name in block.columns.get_level_values("metric")]
    steps = np.where(shares, np.maximum(steps, STEP_OF_SHARES), steps)
    apart = np.concatenate([arm - arm.mean(axis=0) for arm in different])
    sd = np.sqrt((apart**2).sum(axis=0) / (len(apart) - len(different)))
    chances = np.minimum(1.0, steps / np.maximum(2 * np.sqrt(np.pi) * sd, steps))
    return float(np.exp(np.log(chances).mean()))


def _num_apart(scores: np.ndarray) -> int:
    """Count the (R, K) scores that do not follow from another one."""
    moves = scores - scores[0]
    moves = moves * np.sign(moves[np.abs(moves).argmax(axis=0), np.arange(moves.shape[1])])
    return np.unique(moves.round(MAX_DECIMALS), axis=1).shape[1]


def _pairs(num: int) -> int:
    return int(num) * (int(num) - 1) // 2
