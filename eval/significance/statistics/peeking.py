"""How often looks at a study that grows find a difference where there is none, by simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from scipy import special


def error_rate(
    num_runs: Iterable[int], levels: float | Sequence[float] = 0.05, studies: int = 40_000
) -> float:
    """Return how often any of several looks at two equal variants finds a difference, by simulation.

    Welch's t of normal scores with equal variances in one family; a fixed generator.

    Args:
        num_runs: Runs in every arm at each look, at least 2; sorted, each counted once.
        levels: Of the test at each look, or of all of them.
        studies: How many are simulated.
    """
    ascending = tuple(sorted(set(num_runs)))
    each = np.broadcast_to(np.asarray(levels, dtype=float), len(ascending))
    return _error_rate(ascending, tuple(each.tolist()), studies)


@lru_cache(maxsize=64)
def _error_rate(num_runs: tuple[int, ...], levels: tuple[float, ...], studies: int) -> float:
    scores = np.random.default_rng(0).normal(size=(studies, 2, num_runs[-1] if num_runs else 0))
    wrong = np.zeros(studies, dtype=bool)
    for n, level in zip(num_runs, levels, strict=True):
        terms = scores[..., :n].var(-1, ddof=1) / n
        variance = terms.sum(-1)
        df = variance**2 * (n - 1) / (terms**2).sum(-1)
        t = np.subtract(*scores[..., :n].mean(-1).T) / np.sqrt(variance)
        wrong |= 2 * special.stdtr(df, -np.abs(t)) < level
    return float(wrong.mean())
