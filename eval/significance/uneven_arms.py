"""How often Welch's test is wrong where arms have different numbers of runs.

A variance of few runs is often far too small. Against an arm of many runs Welch's degrees of freedom are then
too many, and the p-value far out in the tail, where a correction over many claims looks, is much too small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from scipy import special

from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark
from eval.significance.comparison import Comparison, Inference

SPREAD_OF_FEW = 3.0
"""How many times as far the arms with the fewest runs may spread, in the second of the two rates."""
WORTH_SAYING = 1.2
"""Times as often as the level says."""
NEGLIGIBLE = 1e-9
NODES = {2: 48, 4: 20}
"""Of the quadrature over the variance of each of so many arms."""


@lru_cache(maxsize=256)
def false_rate(counts: tuple[int, ...], spreads: tuple[float, ...], level: float) -> float:
    """Return how often Welch's test of normal runs is below a level where nothing differs.

    Given the variances of the arms, the difference is normal; over these it is integrated.

    Args:
        counts: (C,) runs of every arm, 2 each or more; C is 2 or 4, and all weigh alike.
        spreads: (C,) true standard deviations of their runs.
        level: Two-sided.
    """
    runs, true = np.array(counts), np.square(spreads) / counts
    rules = [_chi(n - 1, NODES[len(counts)]) for n in counts]
    chi = np.stack(np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij"), -1)
    weights = np.prod(np.meshgrid(*(shares for _, shares in rules), indexing="ij"), axis=0)
    parts = true * chi**2 / (runs - 1)
    variance = parts.sum(-1)
    df = variance**2 / (parts**2 / (runs - 1)).sum(-1)
    reach = special.stdtrit(df, 1 - level / 2) * np.sqrt(variance / true.sum())
    return float((weights * 2 * special.ndtr(-reach)).sum())


def _chi(df: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a mean over roots of a chi-square (Gauss and Legendre)."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    chi = np.sqrt(special.chdtri(df, NEGLIGIBLE)) * (nodes + 1) / 2
    weights = weights * chi ** (df - 1) * np.exp(-(chi**2) / 2)
    return chi, weights / weights.sum()


def uneven_notes(
    claims: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> list[str]:
    """Say how often Welch's test is wrong, where arms of different size make that more often than its level.

    Args:
        claims: All that are corrected together by Holm and have a p of Welch's test.
        tables: The runs of every outcome.
        inference: How they are compared.
    """
    sizes = {_sizes(c, tables[c.benchmark]) for c in claims if c.p is not None}
    counts = [n for shape in sizes for n in shape]
    is_known = inference.method == "welch" and inference.correction == "holm" and not inference.paired
    if not is_known or len(set(counts)) < 2 or any(arms.decided for arms in tables.values()):
        return []
    level = min(c.look.nominal(inference.level / len(claims)) for c in claims)
    alike, wide = (max(false_rate(x, _spreads(x, s), level) for x in sizes) for s in (1.0, SPREAD_OF_FEW))
    if not alike > WORTH_SAYING * level:
        return []
    return [
        f"with {min(counts)} to {max(counts)} runs in an arm, a variant like its baseline is called "
        f"different {alike / level:.2g} times as often as it should be, and {wide / level:.2g} times where "
        f"the smallest arms spread {SPREAD_OF_FEW:g} times as far: Welch's test needs arms of equal size"
    ]


def _sizes(claim: Comparison, arms: ArmTable) -> tuple[int, ...]:
    """Runs of the smallest and the largest arm, in the one or two families where they are most unlike."""
    shapes = [sorted(len(arms.runs[f, v]) for v in claim.contrast.weights()) for f in claim.families]
    return tuple(n for shape in sorted(shapes, key=lambda x: x[0] / x[-1])[:2] for n in (shape[0], shape[-1]))


def _spreads(counts: Sequence[int], of_few: float) -> tuple[float, ...]:
    return tuple(of_few if n == min(counts) else 1.0 for n in counts)
