"""What a report concludes, and what it only explores: the one place where comparisons are corrected.

Primary comparisons are those of every variant with the baseline on every primary metric, averaged over
families, or in each where their scores have no average. They are corrected together: the chance that any of
them is called different although it is not is at most the level, and so is the chance that any is called
equivalent although it is not. Everything else is exploratory: corrected over the variants of one metric and
scope, each of these groups at its own level.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from base.errors import unknown_name
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark, Level
from report.significance.compare import compare_arms, interval_at
from report.significance.comparison import Comparison, Inference
from report.significance.contrasts import Contrast
from report.significance.dependence import max_t_of
from report.significance.together import Group, Members, corrected_in, in_groups
from report.statistics.corrections import Correction, Holm, MaxT
from report.statistics.looks import OneLook


@dataclass(frozen=True)
class Claims:
    """Which comparisons are claims, and how they are corrected."""

    tables: Mapping[Benchmark, ArmTable]
    """The runs of every outcome."""
    primary: Collection[Benchmark]
    inference: Inference
    drawn: dict[Hashable, Correction] = field(default_factory=dict, compare=False, repr=False)
    """Corrections by what they are over."""

    def correct(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """Correct comparisons with the baseline; their order stays.

        Args:
            comparisons: Of every outcome and variant, each inferred by itself. Scopes that are not there are
                not corrected for; claims have to be there, all of them.
        """
        return [*Together(self, comparisons).correct(dict(enumerate(comparisons))).values()]

    @property
    def is_drawn(self) -> bool:
        """Whether whole studies are drawn; tests at planned looks are corrected by Holm."""
        is_read_once = isinstance(self.inference.looks, OneLook)
        return is_read_once and not any(arms.decided for arms in self.tables.values())

    def correction(self, group: Sequence[Comparison]) -> Correction:
        """Draw what comparisons share once: without a run, or in other pairs, they share nearly the same."""
        if not self.is_drawn:
            return Holm()
        key = tuple((c.benchmark, c.contrast, c.families) for c in group)
        if key not in self.drawn:
            self.drawn[key] = self._drawn(group)
        return self.drawn[key]

    def _drawn(self, group: Sequence[Comparison]) -> MaxT:
        """Draw more studies where a corrected p lies so near to the level that the draws may decide."""
        p_values = [c.p_sequential for c in group]
        drawn = max_t_of(group, self.tables, self.inference)
        if is_near(drawn.adjust(p_values), self.inference.level, self.inference.num_draws):
            return max_t_of(group, self.tables, replace(self.inference, num_draws=self.inference.most_draws))
        return drawn

    def is_primary(self, comparison: Comparison) -> bool:
        """Whether it is about a primary metric: on average, or in each family where there is no average."""
        has_average = self.tables[comparison.benchmark].scopes()[0] is None
        return comparison.benchmark in self.primary and (comparison.family is None or not has_average)

    def with_intervals(self, comparisons: Iterable[Comparison]) -> list[Comparison]:
        """Give each corrected comparison the interval that agrees with its verdict."""
        return [with_interval(c, self.inference.level) for c in comparisons]


def is_near(p_values: Iterable[float | None], level: float, num_draws: int) -> bool:
    """Whether some p is so near to the level that other draws might say otherwise: four standard errors."""
    error = math.sqrt(level * (1 - level) / num_draws)
    return any(p is not None and abs(p - level) < 4 * error for p in p_values)


def find_primary(
    names: Sequence[str], benchmarks: Sequence[Benchmark], is_strict: bool
) -> tuple[Benchmark, ...]:
    """Find the outcomes that claims are about; all of them where nobody names any.

    Args:
        names: As written: ``held-out-loss``, ``blimp``, ``blimp margin``, ``glue`` under every head.
        benchmarks: Those that have scores.
        is_strict: Refuse names without scores, which a study may yet get.

    Raises:
        UsageError: For such a name.
    """
    known = {
        name: [b for b in benchmarks if name == str(b) or (name == b.name and not b.metric)] for name in names
    }
    for name, found in known.items():
        if not found and is_strict:
            raise unknown_name("outcome in --primary", name, list(map(str, benchmarks)))
    return tuple(b for b in benchmarks if not names or any(b in found for found in known.values()))


class Together:
    """Comparisons with the baseline, of which some may be exchanged and corrected again.

    Args:
        claims: How they are corrected.
        comparisons: As ``Claims.correct`` takes them.
    """

    def __init__(self, claims: Claims, comparisons: Sequence[Comparison]) -> None:
        self._claims = claims
        found = [replace(c, is_primary=claims.is_primary(c)) for c in comparisons]
        level = claims.inference.level
        self._groups = [
            Group(own, claims.correction([*own.values()]), level) for own in in_groups(found, _group)
        ]

    def correct(self, exchanged: Members) -> dict[int, Comparison]:
        """Correct some comparisons together with those that stay.

        Args:
            exchanged: By the place of the one that each stands for, of its outcome, contrast and scope.
        """
        found = {place: replace(c, is_primary=self._claims.is_primary(c)) for place, c in exchanged.items()}
        return corrected_in(self._groups, found)


def _group(comparison: Comparison) -> Hashable:
    """Name the comparisons that are corrected together: all claims, else those of one outcome and scope."""
    return None if comparison.is_primary else _scope(comparison)


def _scope(comparison: Comparison) -> Hashable:
    return comparison.benchmark, comparison.family


def with_interval(comparison: Comparison, level: float) -> Comparison:
    """Give a corrected comparison the interval that agrees with its verdict.

    What is not shown to differ has an interval that holds zero; where that of what is shown still reaches
    beyond zero, it ends there.
    """
    if comparison.level_simultaneous is None:
        return comparison
    low, high = interval_at(comparison, comparison.level_simultaneous)
    p = comparison.p_corrected
    if p is None or p >= level:
        low, high = min(low, 0.0), max(high, 0.0)  # an end may be zero but for rounding
    elif (comparison.estimate or 0.0) > 0:
        low = max(low, 0.0)
    else:
        high = min(high, 0.0)
    return replace(comparison, low_simultaneous=low, high_simultaneous=high)


def contrasts_of(claims: Claims, contrasts: Sequence[Contrast]) -> list[Comparison]:
    """Compare what was asked for beside the comparisons with the baseline, each by itself.

    Args:
        claims: What is compared, and how.
        contrasts: Those asked for, on every metric in every scope.
    """
    return [
        compare_arms(arms, contrast, family, claims.inference)
        for contrast in contrasts
        for arms in claims.tables.values()
        for family in arms.scopes()
    ]


def corrected_together(
    claims: Claims,
    comparisons: Sequence[Comparison],
    contrasts: Sequence[Comparison] = (),
) -> tuple[list[Comparison], list[Comparison]]:
    """Correct comparisons with the baseline and contrasts as one family.

    A contrast that is a comparison with the baseline, whichever way round, is that comparison: its p-values,
    its correction and its verdict. One that is asked for twice is one question.

    Args:
        claims: How they are corrected.
        comparisons: With the baseline, each inferred by itself.
        contrasts: What ``contrasts_of`` returns.
    """
    asked = {question(c): c for c in contrasts}
    present = set(map(question, comparisons))
    new = [c for key, c in asked.items() if key not in present]
    corrected = claims.with_intervals(claims.correct([*comparisons, *new]))
    by_key = {question(c): c for c in corrected}
    as_asked = claims.with_intervals(_corrected_as(c, by_key[question(c)]) for c in contrasts)
    return corrected[: len(comparisons)], as_asked


def question(comparison: Comparison) -> Hashable:
    """Name what a comparison asks, whichever way round its contrast is written."""
    return comparison.benchmark, comparison.family, _sides(comparison.contrast)


def _sides(contrast: Contrast) -> frozenset[frozenset[Level]]:
    """Name a contrast alike whichever way round it is written."""
    return frozenset((frozenset(contrast.plus), frozenset(contrast.minus)))


def _corrected_as(comparison: Comparison, known: Comparison) -> Comparison:
    """Take over what does not depend on the way round."""
    names = ("is_primary", "p", "look", "p_corrected", "level_simultaneous", "p_equivalence",
             "p_equivalence_everywhere", "p_equivalence_holm", "is_at_chance")  # fmt: skip
    return replace(comparison, **{name: getattr(known, name) for name in names})
