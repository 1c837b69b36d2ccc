"""Why a verdict is to be taken with care: it would be another one after a small change."""

from __future__ import annotations

from collections.abc import Iterator

from eval.report.verdicts.sensitivity import Sensitivity
from eval.significance.comparison import INCONCLUSIVE, NOT_ESTIMABLE, SHOWN, WITHIN_MARGIN, Comparison


def fragile_because(found: Sensitivity, level: float) -> tuple[str, ...]:
    """Say in a few words each what a verdict hangs on; nothing where it stands.

    Args:
        found: The comparison, and how it looks in other ways.
        level: Of the tests.
    """
    return tuple(_reasons(found, level))


def _reasons(found: Sensitivity, level: float) -> Iterator[str]:
    comparison = found.comparison
    if without := {run for run, verdict in found.changed if _is_other(verdict, comparison)}:
        yield f"hangs on {next(iter(without))}" if len(without) == 1 else "hangs on one run"
    elif found.without_outliers is not None and _is_another(found.without_outliers, comparison):
        yield f"{found.without_outliers.verdict} without outliers"
    if _is_another(found.paired, comparison):
        yield f"{found.paired.verdict} {'unpaired' if found.is_paired else 'when paired'}"
    if _disagrees(comparison, level):
        yield "permutation p disagrees"
    yield from separation(comparison, level)


def separation(comparison: Comparison, level: float) -> Iterator[str]:
    """Say where no run lies among those of the other arm, by more than chance, and still nothing is shown."""
    floor = comparison.permutation_floor
    is_whole = comparison.probability_of_superiority in (0.0, 1.0)
    is_open = comparison.verdict in (INCONCLUSIVE, WITHIN_MARGIN)
    if is_whole and is_open and (floor is None or floor < level):
        side = "above" if comparison.probability_of_superiority else "below"
        yield f"all runs {side} all of the baseline's"


def _is_another(other: Comparison, comparison: Comparison) -> bool:
    return other.p is not None and _is_other(other.verdict, comparison)


def _is_other(verdict: str, comparison: Comparison) -> bool:
    """Whether another claim would be made, or one where there is none; what is explored changes often."""
    known = comparison.verdict
    return verdict not in (known, NOT_ESTIMABLE) and not {verdict, known}.isdisjoint(SHOWN)


def _disagrees(comparison: Comparison, level: float) -> bool:
    """Whether Welch's test and the permutation test, both uncorrected, fall on different sides."""
    p, other, floor = comparison.p, comparison.p_permutation, comparison.permutation_floor
    if p is None or other is None or floor is None or floor >= level:
        return False
    return (p < level) != (other < level)
