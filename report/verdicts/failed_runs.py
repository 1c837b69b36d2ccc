"""Runs that failed: how many of each variant, and whether some fail more often.

A verdict is about the runs that have a score. Where the worst runs of a variant fail, those that are left are
better than it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from report.inputs.study_checks import FailedRun
from report.significance.axes import Family, Level
from report.significance.comparison import Comparison
from report.statistics.corrections import Holm


@dataclass(frozen=True, kw_only=True)
class FailureCount:
    """How many runs of a variant failed."""

    variant: Level
    family: Family | None
    """None: in all of them."""
    num_runs: int
    """That ended, in whatever way; not those that are still to be run."""
    num_diverged: int
    num_failed: int
    """With another error."""
    p: float | None = None
    """Fisher's exact test against the baseline, over all families; None for the baseline and in a family."""
    p_corrected: float | None = None
    """Corrected over the variants."""

    @property
    def without_result(self) -> int:
        """Diverged or failed."""
        return self.num_diverged + self.num_failed


def count_failures(
    failed: Sequence[FailedRun],
    ended: Collection[tuple[str, Family, Level]],
    comparisons: Sequence[Comparison],
) -> tuple[FailureCount, ...]:
    """Count the runs that failed, by variant and family; nothing where none did.

    Args:
        failed: The runs that failed.
        ended: Run id, family and variant of the runs that ended with a result.
        comparisons: The comparisons with the baseline as reported.
    """
    if not failed or not comparisons:
        return ()
    (baseline,) = comparisons[0].contrast.minus
    variants = list(dict.fromkeys([baseline, *(c.contrast.plus[0] for c in comparisons)]))
    families = list(dict.fromkeys(family for c in comparisons for family in c.families))
    everything = {*ended, *((run.run_id, run.family, run.variant) for run in failed)}
    counts = [_count(failed, everything, v, f) for v in variants for f in (None, *families)]
    return tuple(_tested(counts))


def with_failed(
    comparisons: Iterable[Comparison], failed: Sequence[FailedRun], scores: pd.DataFrame
) -> tuple[Comparison, ...]:
    """Say of each comparison how many of its runs failed and have no score."""
    return tuple(replace(c, num_failed=len(_lost(c, failed, scores))) for c in comparisons)


def failure_notes(failures: Sequence[FailureCount], level: float) -> list[str]:
    """Name the variants that are shown to fail more or less often than the baseline."""
    overall = [c for c in failures if c.family is None]
    return [
        f"{c.variant} failed in {c.without_result} of {c.num_runs} runs, {base.variant} in "
        f"{base.without_result} of {base.num_runs} (Fisher's exact test, Holm, p {c.p_corrected:.2g})"
        for base in overall[:1]
        for c in overall
        if c.p_corrected is not None and c.p_corrected < level
    ]


def _count(
    failed: Sequence[FailedRun],
    everything: Collection[tuple[str, Family, Level]],
    variant: Level,
    family: Family | None,
) -> FailureCount:
    has_diverged = [
        run.has_diverged for run in failed if run.variant == variant and family in (None, run.family)
    ]
    return FailureCount(
        variant=variant,
        family=family,
        num_runs=sum(v == variant and family in (None, f) for _, f, v in everything),
        num_diverged=sum(has_diverged),
        num_failed=len(has_diverged) - sum(has_diverged),
    )


def _tested(counts: Sequence[FailureCount]) -> list[FailureCount]:
    """Compare the counts over all families with that of the baseline, the first."""
    baseline, *others = [c for c in counts if c.family is None]
    p_values = [_fisher(c, baseline) for c in others]
    corrected = zip(others, p_values, Holm().adjust(p_values), strict=True)
    tested = {c.variant: replace(c, p=p, p_corrected=p_corrected) for c, p, p_corrected in corrected}
    return [tested.get(c.variant, c) if c.family is None else c for c in counts]


def _fisher(first: FailureCount, second: FailureCount) -> float | None:
    """Test whether two variants fail equally often (Fisher's exact test, two-sided)."""
    from scipy.stats import fisher_exact  # half a second, and only where runs failed

    if not first.num_runs or not second.num_runs:
        return None
    table = [[c.without_result, c.num_runs - c.without_result] for c in (first, second)]
    return float(fisher_exact(table).pvalue)


def _lost(comparison: Comparison, failed: Sequence[FailedRun], scores: pd.DataFrame) -> list[FailedRun]:
    """The failed runs of a comparison's arms that have no score on its outcome."""
    scored = set(scores.run_id[scores.benchmark == comparison.benchmark])
    return [
        run
        for run in failed
        if run.family in comparison.families
        and run.variant in comparison.contrast.weights()
        and run.run_id not in scored
    ]
