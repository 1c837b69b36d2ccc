"""Comparisons of variants with the run as the unit of replication, and everything the report says of each.

Each arm (family and variant) has a variance of its own (``statistics.welch``), degrees of freedom follow
Satterthwaite (1946), and a contrast averaged over families is the stratified version of the same formula. The
rule on a page: docs/how-a-difference-is-judged.md. How comparisons are made (``Inference``) is chosen before
the results are seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy import special

from report.significance.arms import ArmTable, Sample
from report.significance.axes import Benchmark, Family, Level
from report.significance.factor import Contrast
from report.statistics.looks import Look, Looks, OneLook, one_sided
from report.statistics.welch import (
    CONFIDENCE,
    NO_SPREAD,
    Welch,
    equivalence_p,
    hedges_g,
    one_sided_level,
    smallest_margin,
    welch,
)
from scores.metrics import Declared, Metric, find_metric

DIFFERENT, NEGLIGIBLE = ("better", "worse"), ("better (negligible)", "worse (negligible)")
EQUIVALENT, WITHIN_MARGIN = "equivalent", "within margin"
UNDECIDED, AT_CHANCE, NOT_ESTIMABLE = "undecided", "at chance", "not estimable"
OPEN = (WITHIN_MARGIN, UNDECIDED, AT_CHANCE)
SHOWN = (*DIFFERENT, *NEGLIGIBLE, EQUIVALENT)
"""Verdicts that something is shown with; they decide a primary comparison."""

NUM_DRAWS = 10_000


@dataclass(frozen=True, kw_only=True)
class Inference:
    """How comparisons are made; none of it is ever chosen by looking at the scores."""

    confidence: float = CONFIDENCE
    """Level of the intervals; one minus it is the level of every test."""
    paired: bool = False
    """Compare runs of one family and seed with each other instead of the means of arms."""
    num_draws: int = NUM_DRAWS
    """Whole studies that are drawn for a correction."""
    most_draws: int = 10 * NUM_DRAWS
    """The same where a corrected p lies near to the level."""
    generator_seed: int = 0
    """Of the draws."""
    looks: Looks = field(default_factory=OneLook)
    """When the study is looked at; the tests hold their level over all of these looks together."""

    @property
    def level(self) -> float:
        """Level of every test."""
        return 1 - self.confidence


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One contrast on one benchmark, in ``unit``; ``None`` where the runs do not allow a number."""

    benchmark: Benchmark
    metric: Metric
    """What the scores are."""
    digits: int = 2
    """Decimals that are worth showing."""
    contrast: Contrast
    family: Family | None
    """None: averaged over ``families`` with equal weights."""
    families: tuple[Family, ...]
    part: str | None = None
    """Phenomenon or task of the benchmark that this is about; None for the whole benchmark."""
    num_runs_plus: int
    num_runs_minus: int
    fewest_runs: int = 0
    """Of its arms, the smallest number of runs; of pairs where runs are paired."""
    num_failed: int = 0
    """Further runs of its arms that failed and have no score: it is then about surviving runs."""
    estimate: float | None = None
    standard_error: float | None = None
    choice_error: float | None = None
    """What the choice of rates adds to it, as the root of a variance; None where nothing was tuned."""
    df: float | None = None
    confidence: float = CONFIDENCE
    low: float | None = None
    high: float | None = None
    p: float | None = None
    """Of this look alone."""
    look: Look = field(default_factory=OneLook)
    """What p-values are worth where the study is looked at several times; verdicts rest on them."""
    is_primary: bool = False
    """Whether it is primary: these are corrected together, and the others explored."""
    p_corrected: float | None = None
    """Corrected over all primary comparisons; of an exploratory one over the variants of its metric and
    scope, of a contrast asked for over those in its scope. None outside such a group of tests."""
    level_simultaneous: float | None = None
    """Two-sided level of the interval that agrees with ``p_corrected``."""
    low_simultaneous: float | None = None
    high_simultaneous: float | None = None
    """It holds zero exactly where no difference is shown; what is shown may end there."""
    margin: float | None = None
    """What was named negligible before the results; None where nobody did."""
    p_equivalence: float | None = None
    """The larger p of the two one-sided tests at ``margin``."""
    p_equivalence_everywhere: float | None = None
    """The largest of it and of those in each family (intersection-union), which equivalence rests on: where
    differences of families cancel, nothing is equivalent."""
    p_equivalence_holm: float | None = None
    """The latter, corrected over the same group as ``p_corrected``."""
    smallest_margin: float | None = None
    """The smallest margin at which the two one-sided tests would pass."""
    hedges_g: float | None = None
    is_at_chance: bool = False
    """Whether no arm is shown to score more than the margin above chance."""
    reason: str | None = None
    """Why it is not estimable."""
    dropped: tuple[str, ...] = ()
    """Runs without a partner, where runs are paired by seed."""

    @property
    def unit(self) -> str | None:
        """Of the estimate and its interval; None where nobody said the unit of the scores."""
        return self.metric.unit

    @property
    def is_better(self) -> bool | None:
        """Whether the first group is the better one, as far as the estimate goes; None for no difference."""
        return None if not self.estimate else self.estimate * self.metric.sign > 0

    @property
    def verdict(self) -> str:
        """The first that holds; undecided, at chance and not estimable never say "no effect"."""
        level = 1 - self.confidence
        p = self.p_sequential if self.p_corrected is None else self.p_corrected
        if p is None:
            return NOT_ESTIMABLE
        is_within = _is_below(self.p_equivalence_sequential, level)
        if p < level:
            return (NEGLIGIBLE if is_within else DIFFERENT)[not self.is_better]
        if self.is_at_chance:
            return AT_CHANCE
        if is_within:
            is_corrected = self.p_equivalence_holm is not None
            return (
                EQUIVALENT if not is_corrected or _is_below(self.p_equivalence_holm, level) else WITHIN_MARGIN
            )
        return UNDECIDED

    @property
    def p_sequential(self) -> float | None:
        """``p`` over all looks; what is corrected."""
        return None if self.p is None else self.look.p(self.p)

    @property
    def p_equivalence_sequential(self) -> float | None:
        """``p_equivalence_everywhere`` over all looks."""
        p = self.p_equivalence_everywhere
        return None if p is None else one_sided(self.look, p)

    @property
    def is_different(self) -> bool:
        """Whether a difference is shown, of whatever size."""
        return self.verdict in (*DIFFERENT, *NEGLIGIBLE)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval that agrees with the verdict: the simultaneous one where tests were corrected."""
        if self.low_simultaneous is not None and self.high_simultaneous is not None:
            return self.low_simultaneous, self.high_simultaneous
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def largest_remaining(self) -> float | None:
        """The largest difference, in either direction, that the interval leaves possible."""
        return None if self.interval is None else max(map(abs, self.interval))


def _is_below(p: float | None, level: float) -> bool:
    return p is not None and p < level


def metrics(
    tasks: pd.DataFrame, declared: Declared, benchmarks: Iterable[Benchmark]
) -> dict[Benchmark, Metric]:
    """Say what the scores of each benchmark are.

    Args:
        tasks: What ``comparable_scores`` returns.
        declared: What users said of them.
        benchmarks: Those wanted.

    Raises:
        UsageError: For scores of which nobody said which are better, or of several directions or units.
    """
    parts = ((benchmark, tasks[tasks.benchmark == benchmark]) for benchmark in benchmarks)
    return {
        name: find_metric(name.name, part.metric.unique(), part.score, declared, label=str(name))
        for name, part in parts
    }


def compare_arms(
    arms: ArmTable, contrast: Contrast, family: Family | None, inference: Inference
) -> Comparison:
    """Compare within one family, or over all of them with equal weights when ``family`` is None.

    Args:
        arms: The runs.
        contrast: Which variants with which.
        family: One family or None.
        inference: How.
    """
    strata = tuple(arms.families) if family is None else (family,)
    sample = arms.sample(contrast, strata, inference.paired)
    described = _described(arms, contrast, family, strata, sample, inference)
    if described.reason is not None:
        return described
    result = _welch(sample.moments, inference)
    if result.standard_error < NO_SPREAD:
        return replace(described, reason="no spread between seeds in any arm")
    families = strata if len(strata) > 1 else ()
    of_families = [_welch(sample.of_family(f).moments, inference) for f in families]
    return replace(described, **_inferred(result, of_families, arms, sample, described, inference))


def interval_at(comparison: Comparison, level: float) -> tuple[float, float]:
    """Return the interval of an estimable comparison at a two-sided level."""
    half_width = special.stdtrit(comparison.df, 1 - level / 2) * comparison.standard_error
    middle = cast(float, comparison.estimate)
    return float(middle - half_width), float(middle + half_width)


def _inferred(
    result: Welch,
    of_families: Sequence[Welch],
    arms: ArmTable,
    sample: Sample,
    described: Comparison,
    inference: Inference,
) -> dict[str, Any]:
    """Return the fields of a comparison that its tests say."""
    estimate, standard_error, df = (float(x) for x in (result.estimate, result.standard_error, result.df))
    p_equivalence, everywhere = _equivalence(result, described.margin, of_families)
    look = inference.looks.at(described.fewest_runs)
    level = one_sided_level(look.nominal(2 * inference.level) / 2, float(result.regret))
    # Beside pairs too, g says how large the difference is against the spread over runs.
    whole = arms.sample(described.contrast, described.families, is_paired=False)
    return {
        "look": look,
        "standard_error": standard_error,
        "choice_error": math.sqrt(sample.choice.variance) if sample.choices else None,
        "df": df,
        "p": float(result.p),
        "low": float(result.low),
        "high": float(result.high),
        "p_equivalence": p_equivalence,
        "p_equivalence_everywhere": everywhere,
        "smallest_margin": smallest_margin(estimate, standard_error, df, level),
        "hedges_g": hedges_g(estimate, whole.arms),
    }


def _equivalence(
    whole: Welch, margin: float | None, of_families: Sequence[Welch]
) -> tuple[float | None, float | None]:
    """Return p of the average's tests, and the largest of it and those in each family."""
    if margin is None:
        return None, None
    p = _equivalence_of(whole, margin)
    return p, max([p, *(_equivalence_of(family, margin) for family in of_families)])


def _equivalence_of(result: Welch, margin: float) -> float:
    if result.standard_error < NO_SPREAD:  # of one family, all whose runs score the same
        return float(abs(result.estimate) >= margin)
    return float(equivalence_p(result.estimate, result.standard_error, result.df, margin, result.regret))


def compare_with_baseline(
    arms: ArmTable, baseline: Level, variants: Sequence[Level], inference: Inference
) -> list[Comparison]:
    """Compare every variant with the baseline in every scope, each by itself, without any correction.

    Args:
        arms: The runs of one benchmark.
        baseline: The variant that the others are compared with.
        variants: The others, in the order wanted; those without a run give ``not estimable``.
        inference: How.
    """
    pairs = [Contrast((name,), (baseline,)) for name in variants]
    return [compare_arms(arms, pair, family, inference) for family in arms.scopes() for pair in pairs]


def _described(
    arms: ArmTable,
    contrast: Contrast,
    family: Family | None,
    strata: tuple[Family, ...],
    sample: Sample,
    inference: Inference,
) -> Comparison:
    """What holds even where nothing can be inferred: who, how many, and the difference itself."""
    counts = {(f, v): len(arms.runs.get((f, v), ())) for f in strata for v in contrast.weights()}
    is_complete = bool(sample.arms) and all(len(arm) for arm in sample.arms)
    is_above_chance = any(key in arms.above_chance for key in counts)
    return Comparison(
        benchmark=arms.benchmark,
        metric=arms.metric,
        digits=arms.digits(strata),
        part=arms.part,
        contrast=contrast,
        family=family,
        families=strata,
        margin=arms.metric.margin,
        num_runs_plus=sum(n for (_, v), n in counts.items() if v in contrast.plus),
        num_runs_minus=sum(n for (_, v), n in counts.items() if v in contrast.minus),
        fewest_runs=min(map(len, sample.arms), default=0),
        confidence=inference.confidence,
        estimate=float(np.dot(sample.weights, [arm.mean() for arm in sample.arms])) if is_complete else None,
        is_at_chance=not is_above_chance,
        reason=sample.reason,
        dropped=sample.dropped,
    )


def _welch(moments: np.ndarray, inference: Inference) -> Welch:
    means, counts, weights, variances, variance_df, added, added_df = moments
    return welch(means, variances, counts, weights, inference.confidence, added, added_df, variance_df)
