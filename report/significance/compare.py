"""Comparisons of variants with the run as the unit of replication.

Each arm (family and variant) has a variance of its own (``statistics.variances``), degrees of freedom follow
Satterthwaite (1946), and a contrast averaged over families is the stratified version of the same formula. The
rule on a page: docs/how-a-difference-is-judged.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pandas as pd
from scipy import special

from report.significance.arms import ArmTable, Sample
from report.significance.axes import Benchmark, Family, Level
from report.significance.comparison import Comparison, Inference
from report.significance.contrasts import Contrast
from report.statistics.equivalence import equivalence_p, one_sided_level, smallest_margin
from report.statistics.welch import (
    NO_SPREAD,
    Welch,
    hedges_g,
    welch,
)
from scores.outcome import Declared, Outcome, find_outcome


def outcomes(
    tasks: pd.DataFrame, declared: Declared, benchmarks: Iterable[Benchmark]
) -> dict[Benchmark, Outcome]:
    """Say what the scores of each benchmark are.

    Args:
        tasks: What ``comparable_scores`` returns.
        declared: What users said of them.
        benchmarks: Those wanted.

    Raises:
        UsageError: For scores of which nobody said which are better, or of several directions or units.
    """
    found = {}
    for benchmark in benchmarks:
        own = tasks[tasks.benchmark == benchmark]
        found[benchmark] = find_outcome(
            benchmark.name, own.metric.unique(), own.score, declared, label=str(benchmark)
        )
    return found


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
    arms = arms.as_decided(contrast)
    strata = tuple(arms.families) if family is None else (family,)
    is_above = any((f, v) in arms.above_chance for f in strata for v in contrast.weights())
    return replace(_inferred(arms, contrast, family, inference), is_at_chance=not is_above)


def interval_at(comparison: Comparison, level: float) -> tuple[float, float]:
    """Return the interval of an estimable comparison at a two-sided level."""
    half_width = special.stdtrit(comparison.df, 1 - level / 2) * comparison.standard_error
    middle = cast(float, comparison.estimate)
    return float(middle - half_width), float(middle + half_width)


def _inferred(
    arms: ArmTable,
    contrast: Contrast,
    family: Family | None,
    inference: Inference,
) -> Comparison:
    strata = tuple(arms.families) if family is None else (family,)
    sample = arms.sample(contrast, strata, inference.paired)
    known = _known(arms, contrast, family, strata, sample, inference)
    if known.reason is not None:
        return known
    result = _welch(sample.moments, inference)
    estimate, standard_error, df = (float(x) for x in (result.estimate, result.standard_error, result.df))
    if standard_error < NO_SPREAD:
        return replace(known, reason="no spread between seeds in any arm")
    of_families = [_welch(sample.moments_of(f), inference) for f in strata] if len(strata) > 1 else []
    p_equivalence, everywhere = _equivalence(result, known.margin, of_families)
    look = inference.looks.at(known.fewest_runs)
    # Beside pairs too, g says how large the difference is against the spread over runs.
    whole = arms.sample(contrast, strata, is_paired=False)
    return replace(
        known,
        look=look,
        standard_error=standard_error,
        choice_error=math.sqrt(sample.choice.variance) if sample.choices else None,
        df=df,
        p=float(result.p),
        low=float(result.low),
        high=float(result.high),
        p_equivalence=p_equivalence,
        p_equivalence_everywhere=everywhere,
        smallest_margin=smallest_margin(
            estimate,
            standard_error,
            df,
            one_sided_level(look.nominal(2 * inference.level) / 2, float(result.regret)),
        ),
        hedges_g=hedges_g(estimate, whole.arms),
    )


def _equivalence(
    whole: Welch, margin: float | None, of_families: Sequence[Welch]
) -> tuple[float | None, float | None]:
    """Return p of the average's tests, and the largest of it and those in each family."""
    if margin is None:
        return None, None
    p = _equivalence_of(whole, margin)
    return p, max([p, *(_equivalence_of(family, margin) for family in of_families)])


def _equivalence_of(found: Welch, margin: float) -> float:
    if found.standard_error < NO_SPREAD:  # of one family, all whose runs score the same
        return float(abs(found.estimate) >= margin)
    return float(equivalence_p(found.estimate, found.standard_error, found.df, margin, found.regret))


def compare_with_baseline(
    arms: ArmTable,
    baseline: Level,
    variants: Sequence[Level],
    inference: Inference,
) -> list[Comparison]:
    """Compare every variant with the baseline in every scope, each by itself (``claims`` corrects them).

    Args:
        arms: The runs of one benchmark.
        baseline: The variant that the others are compared with.
        variants: The others, in the order wanted; those without a run give ``not estimable``.
        inference: How.
    """
    pairs = [Contrast((name,), (baseline,)) for name in variants]
    return [compare_arms(arms, pair, family, inference) for family in arms.scopes() for pair in pairs]


def _known(
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
    return Comparison(
        benchmark=arms.benchmark,
        outcome=arms.outcome,
        digits=arms.digits(strata),
        part=arms.part,
        contrast=contrast,
        family=family,
        families=strata,
        margin=arms.outcome.margin,
        num_runs_plus=sum(n for (_, v), n in counts.items() if v in contrast.plus),
        num_runs_minus=sum(n for (_, v), n in counts.items() if v in contrast.minus),
        fewest_runs=min(map(len, sample.arms), default=0),
        confidence=inference.confidence,
        estimate=float(np.dot(sample.weights, [arm.mean() for arm in sample.arms])) if is_complete else None,
        reason=sample.reason,
        dropped=sample.dropped,
    )


def _welch(moments: np.ndarray, inference: Inference) -> Welch:
    means, counts, weights, variances, variance_df, added, added_df = moments
    return welch(means, variances, counts, weights, inference.confidence, added, added_df, variance_df)
