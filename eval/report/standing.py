"""Which outcomes can tell variants apart, and which cannot: the order in which a reader meets them."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.significance.axes import Benchmark
from eval.significance.comparison import AT_CHANCE, EQUIVALENT, NOT_ESTIMABLE, Comparison

FIRST = 3
"""Outcomes on the first screen."""


def families_differ(analysis: Analysis, comparison: Comparison) -> bool:
    """Whether families are shown to differ in a difference, which its average then hides."""
    p = comparison.p_interaction
    return p is not None and p < analysis.inference.level and comparison.verdict != AT_CHANCE


def can_tell(analysis: Analysis, benchmark: Benchmark) -> bool:
    """Whether anything is shown on it: a difference, in whatever families, or an equivalence."""
    scopes = analysis.scopes(benchmark)
    return any(
        c.is_different or families_differ(analysis, c) or (c.verdict == EQUIVALENT and scope == scopes[0])
        for scope in scopes
        for c in analysis.of(benchmark, scope)
    )


def is_at_chance(analysis: Analysis, benchmark: Benchmark) -> bool:
    """Whether every comparison that can be made on it is at chance, on average and in each family."""
    verdicts = {c.verdict for scope in analysis.scopes(benchmark) for c in analysis.of(benchmark, scope)}
    return AT_CHANCE in verdicts and verdicts <= {AT_CHANCE, NOT_ESTIMABLE}


def by_standing(analysis: Analysis) -> list[Benchmark]:
    """Sort outcomes: those that can tell, the open ones, those at chance; else in the report's order."""
    return sorted(
        analysis.benchmarks, key=lambda name: (not can_tell(analysis, name), is_at_chance(analysis, name))
    )


def shown_first(analysis: Analysis) -> list[Benchmark]:
    """Return the outcomes drawn on the first screen: some that can tell, else the first open ones."""
    order = by_standing(analysis)
    telling = [name for name in order if can_tell(analysis, name)]
    return (telling or [name for name in order if not is_at_chance(analysis, name)] or order)[:FIRST]
