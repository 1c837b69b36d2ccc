"""Comparisons of variants with the run as the unit of replication.

The default interval is Welch's: each (family, variant) cell has its own variance, degrees of freedom follow
Satterthwaite (1946), and a contrast averaged over families is the stratified version of the same formula.
Percentile bootstraps are not offered: at five seeds they cover 88%, not 95% (docs/statistics.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize, stats

from eval.aggregate import normalise_rows, run_scores
from eval.contrasts import Contrast, parse_contrast
from ffn_variants.errors import UsageError, unknown_name

CONFIDENCE = 0.95
POWER = 0.80
# Spread below this many percentage points is rounding of equal scores, not variation between seeds.
NO_SPREAD = 1e-9

DIFFERENT, INCONCLUSIVE, NOT_ESTIMABLE = "different", "inconclusive", "not estimable"

Cells = Mapping[tuple[str, str], np.ndarray]  # (family, variant) -> one score per seed


class Welch(NamedTuple):
    """A weighted sum of cell means with its Welch-Satterthwaite inference; every field has the same shape."""

    estimate: np.ndarray
    standard_error: np.ndarray
    df: np.ndarray
    p: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One contrast on one benchmark, in percentage points; ``None`` where the runs do not allow a number."""

    benchmark: str
    contrast: str
    family: str | None
    """None: averaged over ``families`` with equal weights."""
    families: tuple[str, ...]
    num_runs_plus: int
    num_runs_minus: int
    estimate: float | None = None
    standard_error: float | None = None
    df: float | None = None
    p: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = CONFIDENCE
    hedges_g: float | None = None
    minimum_detectable_effect: float | None = None
    """Smallest true difference found with 80% power by this test at this spread, before any correction."""
    p_holm: float | None = None
    """Corrected over the variants of this benchmark and scope; None outside such a group of tests."""
    part: str | None = None
    """Phenomenon or task of the benchmark that this is about; None for the whole benchmark."""
    p_bh: float | None = None
    """Corrected by Benjamini and Hochberg over all parts and variants of this benchmark."""
    margin: float | None = None
    """Percentage points named negligible before the results."""
    p_equivalence: float | None = None
    """The larger p of the two one-sided tests at ``margin``."""
    smallest_margin: float | None = None
    """The smallest margin at which the two one-sided tests would pass."""
    p_interaction: float | None = None
    """Whether families differ in this difference; None within one family."""
    p_permutation: float | None = None
    permutation_floor: float | None = None
    """The smallest p that so many runs allow."""
    bootstrap_low: float | None = None
    bootstrap_high: float | None = None
    probability_of_superiority: float | None = None
    """Share of pairs of runs in which the first scores higher, ties counted half."""
    reason: str | None = None
    """Why it is not estimable."""

    @property
    def verdict(self) -> str:
        """``different``, ``inconclusive`` or ``not estimable``; never that there is no effect."""
        p = self.p if self.p_holm is None else self.p_holm
        if p is None:
            return NOT_ESTIMABLE
        return DIFFERENT if p < 1 - self.confidence else INCONCLUSIVE

    @property
    def largest_remaining(self) -> float | None:
        """The largest difference, in either direction, that the interval leaves possible."""
        return None if self.low is None or self.high is None else max(abs(self.low), abs(self.high))


def welch(means, variances, counts, weights, confidence: float = CONFIDENCE) -> Welch:
    """Infer a weighted sum of cell means, each cell with its own variance.

    With two cells and weights (1, -1) this is Welch's t-test; with 2F cells and weights +-1/F it is the
    difference averaged over F families (Satterthwaite 1946; Welch 1947).

    Args:
        means: (..., C) cell means.
        variances: (..., C) unbiased cell variances.
        counts: (..., C) runs per cell, at least 2.
        weights: (C,) contrast weights.
        confidence: Level of the two-sided interval.

    Returns:
        Arrays of shape (...). Cells without any spread give nan for df, p and the interval.
    """
    means, variances, counts, weights = (
        np.asarray(x, dtype=float) for x in (means, variances, counts, weights)
    )
    estimate = (weights * means).sum(-1)
    terms = weights**2 * variances / counts
    variance = terms.sum(-1)
    standard_error = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = variance**2 / (terms**2 / (counts - 1)).sum(-1)
        p = 2 * stats.t.sf(np.abs(estimate) / standard_error, df)
    half_width = stats.t.ppf((1 + confidence) / 2, df) * standard_error
    return Welch(estimate, standard_error, df, p, estimate - half_width, estimate + half_width)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for having looked at all of them (Holm 1979); None stays None and is not counted."""
    known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, index) in enumerate(known):
        running = max(running, min(1.0, (len(known) - rank) * p))
        corrected[index] = running
    return corrected


def minimum_detectable_effect(
    standard_error: float, df: float, confidence: float = CONFIDENCE, power: float = POWER
) -> float | None:
    """Find the true difference that the two-sided t-test would detect with the given power (noncentral t)."""
    critical = stats.t.ppf((1 + confidence) / 2, df)

    def shortfall(noncentrality) -> float:
        # The far tail underflows to nan at large noncentrality, where it is zero.
        far_tail = np.nan_to_num(stats.nct.cdf(-critical, df, noncentrality))
        return float(stats.nct.sf(critical, df, noncentrality) + far_tail - power)

    upper = 2 * critical + 3
    if not shortfall(upper) > 0:
        return None
    root = optimize.brentq(shortfall, 0.0, upper, xtol=1e-10)
    return float(np.asarray(root)) * standard_error


def hedges_g(estimate: float, cells: Sequence[np.ndarray]) -> float | None:
    """Standardise by the spread within cells, with Hedges' (1981) small-sample factor 1 - 3/(4 df - 1)."""
    df = sum(len(cell) - 1 for cell in cells)
    pooled = math.sqrt(sum(((cell - cell.mean()) ** 2).sum() for cell in cells) / df)
    return None if pooled < NO_SPREAD else estimate / pooled * (1 - 3 / (4 * df - 1))


def compare(
    rows: pd.DataFrame,
    contrast: str,
    *,
    benchmark: str | None = None,
    family: str | None = None,
    baseline: str | None = None,
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Compare variants on one benchmark.

    Args:
        rows: A table with family, variant, seed, benchmark and score, or the full rows schema.
        contrast: ``swish - gelu`` or ``relu+silu - prelu+swish``; ``swish`` alone means minus ``baseline``.
        benchmark: Which one; may be left out when the table holds one.
        family: One family, or None for the average over all families with equal weights.
        baseline: What a one-sided contrast is compared with.
        confidence: Level of the interval.

    Raises:
        UsageError: For an unusable table or an unknown variant, benchmark or family.
    """
    scores, _ = run_scores(normalise_rows(rows))
    benchmarks = sorted(scores.benchmark.unique())
    if benchmark is None and len(benchmarks) > 1:
        raise UsageError(f"rows hold several benchmarks, name one of: {', '.join(benchmarks)}")
    benchmark = benchmarks[0] if benchmark is None else benchmark
    if benchmark not in benchmarks:
        raise unknown_name("benchmark", benchmark, benchmarks)
    cells = cells_of(scores, benchmark)
    families = sorted({name for name, _ in cells})
    if family is not None and family not in families:
        raise unknown_name("family", family, families)
    parsed = parse_contrast(contrast, sorted({name for _, name in cells}), baseline)
    return compare_cells(cells, parsed, benchmark, family, families, confidence)


def cells_of(scores: pd.DataFrame, benchmark: str) -> dict[tuple[str, str], np.ndarray]:
    """Group one benchmark's run scores by (family, variant), in order of seed."""
    chosen = scores[scores.benchmark == benchmark].sort_values(["family", "variant", "seed"])
    return {(f, v): np.asarray(cell.score) for (f, v), cell in chosen.groupby(["family", "variant"])}


def compare_cells(
    cells: Cells,
    contrast: Contrast,
    benchmark: str,
    family: str | None,
    families: Sequence[str],
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Compare within one family, or over all ``families`` with equal weights when ``family`` is None."""
    strata = tuple(families) if family is None else (family,)
    weights = {(f, v): w / len(strata) for f in strata for v, w in contrast.weights().items()}
    runs = {key: len(cells.get(key, ())) for key in weights}
    known = Comparison(
        benchmark=benchmark,
        contrast=str(contrast),
        family=family,
        families=strata,
        num_runs_plus=sum(n for key, n in runs.items() if weights[key] > 0),
        num_runs_minus=sum(n for key, n in runs.items() if weights[key] < 0),
        confidence=confidence,
    )
    if absent := [f"{f} {v}" for (f, v), n in runs.items() if n == 0]:
        return replace(known, reason=f"no run of {', '.join(absent)}")
    arms = [cells[key] for key in weights]
    estimate = float(sum(w * arm.mean() for w, arm in zip(weights.values(), arms, strict=True)))
    known = replace(known, estimate=estimate)
    if single := [f"{f} {v}" for (f, v), n in runs.items() if n == 1]:
        return replace(known, reason=f"one run only of {', '.join(single)}")
    result = welch(
        [arm.mean() for arm in arms],
        [arm.var(ddof=1) for arm in arms],
        [len(arm) for arm in arms],
        list(weights.values()),
        confidence,
    )
    if result.standard_error < NO_SPREAD:
        return replace(known, reason="no spread between seeds in any arm")
    _, standard_error, df, p, low, high = (float(value) for value in result)
    return replace(
        known,
        standard_error=standard_error,
        df=df,
        p=p,
        low=low,
        high=high,
        hedges_g=hedges_g(estimate, arms),
        minimum_detectable_effect=minimum_detectable_effect(standard_error, df, confidence),
    )


def scopes(families: Sequence[str]) -> list[str | None]:
    """What is compared: the average over families (the primary one), then each; or the only family."""
    return [None, *families] if len(families) > 1 else list(families)


def compare_with_baseline(
    scores: pd.DataFrame, baseline: str, variants: Sequence[str], confidence: float = CONFIDENCE
) -> list[Comparison]:
    """Compare every variant with the baseline on every benchmark and scope, Holm-corrected over the variants.

    Args:
        scores: The table of ``eval.aggregate.run_scores``.
        baseline: The variant that the others are compared with.
        variants: The others, in the order wanted; those without a run on a benchmark give ``not estimable``.
        confidence: Level of the intervals; one minus it is the family-wise error rate.
    """
    comparisons: list[Comparison] = []
    for benchmark in sorted(scores.benchmark.unique()):
        cells = cells_of(scores, benchmark)
        families = sorted({family for family, _ in cells})
        for family in scopes(families):
            group = [
                compare_cells(cells, Contrast((name,), (baseline,)), benchmark, family, families, confidence)
                for name in variants
            ]
            corrected = holm([comparison.p for comparison in group])
            comparisons += [replace(c, p_holm=p) for c, p in zip(group, corrected, strict=True)]
    return comparisons
