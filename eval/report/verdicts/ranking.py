"""Variants in the order of their scores, in the groups that cannot be told apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eval.report.verdicts.findings import Findings
from eval.significance.arms import ArmTable, Key
from eval.significance.axes import Benchmark, Family, Level
from eval.significance.comparison import AT_CHANCE, NOT_ESTIMABLE, SHOWN, Comparison
from eval.significance.statistics.all_pairs import groups, letter, told_apart
from eval.significance.statistics.looks import OneLook
from eval.significance.statistics.tuning import NO_CHOICE

FIRST = 3
"""Outcomes on the first screen."""


def families_differ(comparison: Comparison) -> bool:
    """Whether families are shown to differ in a difference, which its average then hides."""
    return comparison.has_interaction and comparison.verdict != AT_CHANCE


def is_shown(comparison: Comparison) -> bool:
    """Whether a difference or an equivalence is shown, corrected for all that was looked at with it."""
    return comparison.verdict in SHOWN


def can_tell(findings: Findings, benchmark: Benchmark) -> bool:
    """Whether anything is shown on it over all families."""
    return any(map(is_shown, findings.overall(benchmark)))


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


FEWEST = 4
"""Variants from which on their order is worth a table of its own."""
MOST_GROUPS = 8
"""Beyond them letters are not read any more."""
EDGE = "(edge)"
"""Stands behind a variant whose best value lies at the edge of what was tuned."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One variant in the order of an outcome."""

    variant: Level
    mean: float
    """Of its runs."""
    num_runs: int
    letters: str
    """Of its groups: two variants share a letter exactly where they are not told apart."""
    better_than: tuple[Level, ...] = ()
    """Those that it is told apart from and that come after it."""
    is_at_edge: bool = False
    """Whether its best value lay at the edge of what was tuned: it may be better than its mean says."""
    comparison: Comparison | None
    """With the baseline; None for the baseline itself."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """The variants of one outcome and family, the best first."""

    benchmark: Benchmark
    family: Family
    places: tuple[Place, ...]
    left_out: tuple[Level, ...]
    """Variants with fewer than two runs, of which no test says anything."""

    @property
    def leaders(self) -> list[Level]:
        """Variants that are not told from the first."""
        first = set(self.places[0].letters.split())
        return [x.variant for x in self.places if first & set(x.letters.split())]

    @cached_property
    def has_letters(self) -> bool:
        """Whether they are few enough to be read."""
        return len({one for x in self.places for one in x.letters.split()}) <= MOST_GROUPS

    def ahead_of(self, place: Place) -> list[Level]:
        """Variants that come before one and are told apart from it."""
        return [x.variant for x in self.places if place.variant in x.better_than]


def rank(findings: Findings, at_edge: Collection[Key] = ()) -> tuple[Ranking, ...]:
    """Order the variants on the outcome that a reader meets first, in each family by itself.

    Nothing where runs are paired or the study is looked at several times: the tests of pairs know of neither.

    Args:
        findings: What is compared.
        at_edge: Those whose best value lay at the edge of what was tuned.
    """
    how = findings.inference
    if how.paired or not isinstance(how.looks, OneLook):
        return ()
    table = findings.tables[by_standing(findings)[0]]
    found = (_ranking(findings, table, family, at_edge) for family in findings.families)
    return tuple(ranking for ranking in found if ranking is not None)


def _ranking(findings: Findings, table: ArmTable, family: Family, at_edge: Collection[Key]) -> Ranking | None:
    arms, left_out = {}, []
    for variant in findings.variants:
        if len(table.runs.get((family, variant), ())) > 1:
            arms[variant] = table.squares((family, variant))
        else:
            left_out.append(variant)
    if len(arms) < FEWEST:
        return None
    ordered = sorted(arms, key=lambda variant: -table.outcome.sign * arms[variant][1])
    counts, means, squares = (np.array(x, dtype=float) for x in zip(*(arms[v] for v in ordered), strict=True))
    choices = [table.choices.get((family, v), NO_CHOICE) for v in ordered]
    differ = told_apart(
        means, squares / (counts - 1), counts, findings.inference.level,
        added=[x.variance for x in choices], added_df=[x.df for x in choices],
    )  # fmt: skip
    letters = _letters(groups(differ), len(ordered))
    compared = {c.contrast.plus: c for c in findings.of(table.benchmark, family)}
    places = tuple(
        Place(
            variant=variant,
            mean=float(mean),
            num_runs=int(count),
            letters=own,
            better_than=tuple(ordered[other] for other in np.flatnonzero(row) if other > number),
            # What is tuned by one outcome has no edge in another.
            is_at_edge=bool(table.choices) and (family, variant) in at_edge,
            comparison=compared.get((variant,)),
        )
        for number, (variant, mean, count, own, row) in enumerate(
            zip(ordered, means, counts, letters, differ, strict=True)
        )
    )
    return Ranking(benchmark=table.benchmark, family=family, places=places, left_out=tuple(left_out))


def _letters(found: Sequence[Sequence[int]], count: int) -> list[str]:
    """The letters of each arm's groups, with spaces between them."""
    return [" ".join(letter(n) for n, group in enumerate(found) if arm in group) for arm in range(count)]
