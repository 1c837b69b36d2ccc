"""How often claims are wrong where arms have different numbers of runs.

A variance of few runs is often far too small. Against an arm of many runs Welch's degrees of freedom are then
too many, and the p-value far out in the tail, where a correction over many claims looks, is much too small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark
from eval.significance.comparison import Comparison, Inference
from eval.significance.dependence import cells_of
from eval.significance.statistics.joint_null import Cells, p_of_t, simulated

STUDIES = 10_000
SPREAD_OF_FEW = 3.0
"""How many times as far the arms with the fewest runs may spread, in the second of the two shares."""
WORTH_SAYING = 0.01


def false_claims(
    claims: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> tuple[float, float]:
    """Return the share of studies in which any claim is wrong, of normal runs with nothing that differs.

    Runs, arms and the correlation of outcomes are those of the study; all arms spread alike or, for the
    second share, those with the fewest runs ``SPREAD_OF_FEW`` times as far.

    Args:
        claims: All that are corrected together by Holm and have a p of Welch's test.
        tables: The runs of every outcome.
        inference: How they are compared.
    """
    cells = cells_of(claims, tables, inference)
    runs = (~np.isnan(cells.values)).sum(0)
    is_small = runs == runs[(cells.weights != 0).any(0)].min()
    levels = np.array([c.look.nominal(inference.level / len(claims)) for c in claims])
    alike, wide = (_share(cells, spread, levels) for spread in (1.0, np.where(is_small, SPREAD_OF_FEW, 1.0)))
    return alike, wide


def _share(cells: Cells, spread: float | np.ndarray, levels: np.ndarray) -> float:
    """Holm rejects something exactly where the smallest p is below its first level."""
    drawn = simulated(
        cells._replace(values=_spread_by(cells.values, spread)), STUDIES, np.random.default_rng(0)
    )
    return float((p_of_t(drawn) < levels).any(1).mean())


def _spread_by(values: np.ndarray, spread: float | np.ndarray) -> np.ndarray:
    """Put other values where there are some, with these standard deviations in every column."""
    places = np.where(np.isnan(values), np.nan, np.arange(len(values), dtype=float)[:, None])
    counts = (~np.isnan(values)).sum(0)
    centred = places - np.nansum(places, 0) / np.maximum(counts, 1)
    sd = np.sqrt(np.nansum(centred**2, 0) / np.maximum(counts - 1, 1))
    return centred / np.where(sd > 0, sd, 1.0) * spread


def uneven_notes(
    claims: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> list[str]:
    """Say how often claims are wrong, where arms of different size make that more often than the level."""
    sizes = {
        len(tables[c.benchmark].runs[family, variant])
        for c in claims
        for family in c.families
        for variant in c.contrast.weights()
    }
    is_known = inference.method == "welch" and inference.correction == "holm" and not inference.paired
    if not is_known or len(sizes) < 2 or any(arms.decided for arms in tables.values()):
        return []
    alike, wide = false_claims(claims, tables, inference)
    if alike <= inference.level + WORTH_SAYING:
        return []
    return [
        f"with {min(sizes)} to {max(sizes)} runs in an arm, variants like their baseline are claimed to "
        f"differ in {alike:.0%} of studies instead of {inference.level:.0%}, and in {wide:.0%} where the "
        f"smallest arms spread {SPREAD_OF_FEW:g} times as far: Welch's test needs arms of equal size"
    ]
