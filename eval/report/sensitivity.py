"""Whether a verdict hangs on one run, on an outlier, on pairing, or on what a benchmark's mean is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from eval.results.rows import run_name
from eval.significance.arms import ArmTable
from eval.significance.axes import Family, Level
from eval.significance.compare import compare_scope, scopes
from eval.significance.comparison import Comparison, Inference
from eval.significance.statistics.corrections import holm


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """One primary comparison looked at in other ways; none of them replaces it."""

    comparison: Comparison
    variant: Level
    lowest_estimate: float
    """Of all differences with one run left out, in percentage points."""
    highest_estimate: float
    changed: tuple[tuple[str, str], ...]
    """(run left out, the verdict without it), where that is another verdict."""
    num_left_out: int
    without_outliers: Comparison | None
    """None where no run of the comparison is an outlier."""
    paired: Comparison
    """Runs of one seed compared with each other; where that is the primary analysis, whole arms instead."""
    mean_of_parts: Comparison | None
    """With every phenomenon weighed alike; None where a benchmark has no phenomena with several tasks."""


@dataclass(frozen=True)
class _Group:
    """The comparisons that the answer on one benchmark rests on, to be made again with other runs."""

    arms: ArmTable
    baseline: Level
    variants: tuple[Level, ...]
    inference: Inference

    def compare(self, arms: ArmTable | None = None, inference: Inference | None = None) -> list[Comparison]:
        """Compare every variant, Holm-corrected, with other arms or in another way."""
        table, how = arms or self.arms, inference or self.inference
        scope = scopes(self.arms.families)[0]
        return compare_scope(table, self.baseline, self.variants, scope, how, thorough=False)


def sensitivities(
    tables: Sequence[ArmTable],
    means: pd.DataFrame,
    outliers: pd.DataFrame,
    baseline: Level,
    variants: Sequence[Level],
    inference: Inference,
) -> list[Sensitivity]:
    """Make every estimable primary comparison again in other ways, each time with Holm's correction.

    Args:
        tables: The runs of each benchmark.
        means: What ``means_over_parts`` returns.
        outliers: What ``find_outliers`` found.
        baseline: The variant that the others are compared with.
        variants: The others.
        inference: How the primary comparisons were made.
    """
    found: list[Sensitivity] = []
    for arms in tables:
        group = _Group(arms, baseline, tuple(variants), inference)
        primary = group.compare()
        left_out = list(_leave_one_out(group, primary))
        rest, flagged = _without(arms, outliers)
        without = group.compare(rest)
        other_way = group.compare(inference=replace(inference, paired=not inference.paired))
        of_parts = means[means.benchmark == arms.benchmark]
        other_mean = ArmTable.of_scores(of_parts, arms.benchmark, outcome=arms.outcome)
        by_part = group.compare(other_mean) if len(of_parts) else [None] * len(primary)
        for place, (variant, comparison) in enumerate(zip(variants, primary, strict=True)):
            if comparison.p is None:
                continue
            others = {run: c for run, c in left_out if c.contrast == comparison.contrast}
            estimates = [c.estimate for c in others.values() if c.estimate is not None]
            found.append(
                Sensitivity(
                    comparison=comparison,
                    variant=variant,
                    lowest_estimate=min(estimates),
                    highest_estimate=max(estimates),
                    changed=tuple(
                        (run_name(run), c.verdict)
                        for run, c in others.items()
                        if c.verdict != comparison.verdict
                    ),
                    num_left_out=len(others),
                    without_outliers=without[place] if flagged & {variant, baseline} else None,
                    paired=other_way[place],
                    mean_of_parts=by_part[place],
                )
            )
    return found


def _leave_one_out(
    group: _Group, primary: Sequence[Comparison]
) -> Iterator[tuple[tuple[Family, Level, int], Comparison]]:
    """Leave out each run in turn; of a variant's own run only its own comparison is another one."""
    by_variant = dict(zip(group.variants, primary, strict=True))
    for (family, variant), runs in group.arms.runs.items():
        affected = group.variants if variant == group.baseline else (variant,)
        for seed in runs.index:
            table = group.arms.without(family, variant, int(seed))
            again = replace(group, variants=affected).compare(table)
            p_values = {name: c.p for name, c in by_variant.items()}
            p_values |= {name: c.p for name, c in zip(affected, again, strict=True)}
            corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
            for name, comparison in zip(affected, again, strict=True):
                yield (family, variant, int(seed)), replace(comparison, p_holm=corrected[name])


def _without(arms: ArmTable, outliers: pd.DataFrame) -> tuple[ArmTable, set[Level]]:
    """Leave out the outliers of a benchmark; also names the variants that have any."""
    chosen = outliers[outliers.benchmark == arms.benchmark]
    for family, variant, seed in zip(chosen.family, chosen.variant, chosen.seed, strict=True):
        arms = arms.without(family, variant, int(seed))
    return arms, set(chosen.variant)
