"""Metrics in the order in which a report shows them."""

from __future__ import annotations

from report.significance.axes import Benchmark
from report.significance.comparison import AT_CHANCE, NOT_ESTIMABLE, SHOWN
from report.verdicts.findings import Findings

FIRST = 3
"""Outcomes on the first screen."""


def can_tell(findings: Findings, benchmark: Benchmark) -> bool:
    """Whether anything is shown on it by a primary comparison."""
    return any(c.verdict in SHOWN for c in findings.comparisons if c.benchmark == benchmark and c.is_primary)


def is_at_chance(findings: Findings, benchmark: Benchmark) -> bool:
    """Whether every comparison that can be made on it is at chance, on average and in each family."""
    verdicts = {c.verdict for scope in findings.scopes(benchmark) for c in findings.of(benchmark, scope)}
    return AT_CHANCE in verdicts and verdicts <= {AT_CHANCE, NOT_ESTIMABLE}


def by_standing(findings: Findings) -> list[Benchmark]:
    """Sort outcomes: those of the claims first; those that can tell, the open ones, those at chance."""
    primary = findings.primary
    return sorted(
        findings.benchmarks,
        key=lambda name: (name not in primary, not can_tell(findings, name), is_at_chance(findings, name)),
    )


def shown_first(findings: Findings) -> list[Benchmark]:
    """Return the outcomes drawn on the first screen: claims that can tell, else the first open ones."""
    order = by_standing(findings)
    claimed = [name for name in order if name in findings.primary] or order
    telling = [name for name in claimed if can_tell(findings, name)]
    return (telling or [name for name in claimed if not is_at_chance(findings, name)] or claimed)[:FIRST]
