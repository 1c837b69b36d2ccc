"""What a report concludes, and what it only explores: the one place where comparisons are corrected.

Primary comparisons are those of every variant with the baseline on every primary metric, averaged over
families, or in each where their scores have no average. They are corrected together: the chance that any of
them is called different although it is not is at most the level, and so is the chance that any is called
equivalent although it is not. Everything else is exploratory: corrected over the variants of one metric and
scope, each of these groups at its own level.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from base.errors import unknown_name
from report.significance.arms import ArmTable, Key
from report.significance.axes import Benchmark, Level
from report.significance.comparison import NUM_DRAWS, Comparison, Inference, compare_arms, interval_at
from report.significance.factor import Contrast
from report.statistics.corrections import Correction, Holm, MaxT
from report.statistics.joint_null import Cells, cells_of_arms, cells_of_pairs, p_of_t, simulated
from report.statistics.looks import OneLook
from report.statistics.tuning import NO_CHOICE


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


Members = Mapping[int, Comparison]
"""Comparisons by their place among all."""


class Group:
    """Differences and equivalences that are corrected together.

    Args:
        members: The comparisons.
        correction: Of their differences; equivalences are corrected by Holm.
        level: Of all of them together.
    """

    def __init__(self, members: Members, correction: Correction, level: float) -> None:
        self._correction, self._level = correction, level
        self._p = {place: c.p_sequential for place, c in members.items()}
        self._equivalence = {place: c.p_equivalence_sequential for place, c in members.items()}

    def fields(self, exchanged: Members) -> dict[int, dict[str, Any]]:
        """Return the corrected fields of members that are exchanged for others."""
        own = {place: c for place, c in exchanged.items() if place in self._p}
        if not own:
            return {}
        p_values = self._p | {place: c.p_sequential for place, c in own.items()}
        levels = dict(zip(p_values, self._correction.levels([*p_values.values()], self._level), strict=True))
        corrected = _adjusted(p_values, self._correction)
        equivalence = {place: c.p_equivalence_sequential for place, c in own.items()}
        equivalent = _adjusted(self._equivalence | equivalence, Holm())
        return {
            place: {
                "p_corrected": corrected[place],
                "level_simultaneous": (level := levels[place]) and c.look.nominal(level),
                "p_equivalence_holm": equivalent[place],
            }
            for place, c in own.items()
        }


def corrected_in(groups: Iterable[Group], exchanged: Members) -> dict[int, Comparison]:
    """Correct comparisons within their groups, among those that stay."""
    fields: dict[int, dict[str, Any]] = {place: {} for place in exchanged}
    for group in groups:
        for place, found in group.fields(exchanged).items():
            fields[place] |= found
    return {place: replace(c, **fields[place]) for place, c in exchanged.items()}


def in_groups(
    comparisons: Sequence[Comparison], key: Callable[[Comparison], Hashable]
) -> list[dict[int, Comparison]]:
    """Return the comparisons of each group by their place among all."""
    groups: dict[Hashable, dict[int, Comparison]] = {}
    for place, comparison in enumerate(comparisons):
        groups.setdefault(key(comparison), {})[place] = comparison
    return list(groups.values())


def _adjusted(p_values: Mapping[int, float | None], correction: Correction) -> dict[int, float | None]:
    return dict(zip(p_values, correction.adjust([*p_values.values()]), strict=True))


def max_t_of(
    comparisons: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> MaxT:
    """Draw whole studies without any difference.

    Args:
        comparisons: What is corrected together, in this order; those without a p are never in question.
        tables: The runs of every outcome.
        inference: How comparisons are made.
    """
    cells, rng = cells_of(comparisons, tables, inference), _generator(inference)
    sizes = [
        min(NUM_DRAWS, inference.num_draws - begun) for begun in range(0, inference.num_draws, NUM_DRAWS)
    ]
    parts = [list(map(p_of_t, simulated(cells, size, rng))) for size in sizes]
    return MaxT(*map(np.concatenate, zip(*parts, strict=True)))


def _generator(inference: Inference) -> np.random.Generator:
    return np.random.default_rng([inference.generator_seed, zlib.crc32(b"max-t")])


def cells_of(
    comparisons: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> Cells:
    """Arrange the runs of comparisons as whole runs with all of their outcomes."""
    benchmarks = list(dict.fromkeys(c.benchmark for c in comparisons))
    of_outcomes = [tables[benchmark] for benchmark in benchmarks]
    families = sorted({family for c in comparisons for family in c.families})
    keys = _keys(comparisons, of_outcomes, families, inference)
    weights = np.zeros((len(comparisons), len(keys)))
    places = {key: place for place, key in enumerate(keys)}
    for row, comparison in zip(weights, comparisons, strict=True):
        for family in comparison.families:
            for variant, weight in comparison.contrast.weights().items():
                row[places[family, variant]] = weight / len(comparison.families)
    scores = _scores(of_outcomes, keys)
    outcomes = np.array([benchmarks.index(c.benchmark) for c in comparisons], int)
    family_of = np.array([families.index(family) for family, _ in keys])
    if inference.paired:
        choices = _choices_of_pairs(comparisons, tables, families)
        return cells_of_pairs(scores, weights, outcomes, family_of, choices)
    variants = list(dict.fromkeys(variant for _, variant in keys))
    choices = [[arms.choices.get(key, NO_CHOICE) for arms in of_outcomes] for key in keys]
    return cells_of_arms(
        scores,
        weights,
        outcomes,
        family_of,
        np.moveaxis(np.array(choices), -1, 0),
        np.array([variants.index(variant) for _, variant in keys]),
    )


def _keys(
    comparisons: Sequence[Comparison],
    tables: Sequence[ArmTable],
    families: Sequence[object],
    inference: Inference,
) -> list[Key]:
    """Every arm of the families, as all of them tell what is usual; of pairs only those compared."""
    compared = {(f, v) for c in comparisons for f in c.families for v in c.contrast.weights()}
    others = {key for table in tables for key in table.runs if key[0] in families}
    return sorted(compared if inference.paired else compared | others)


def _choices_of_pairs(
    comparisons: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], families: Sequence
) -> np.ndarray:
    """(2, F, m) what tuning adds to each difference within each family."""
    choices = [[tables[c.benchmark].choice(c.contrast, family) for c in comparisons] for family in families]
    return np.moveaxis(np.array(choices, dtype=float), -1, 0)


def _scores(tables: Sequence[ArmTable], keys: Sequence[Key]) -> np.ndarray:
    """(A, S, O) scores, nan where missing; the rows of a family are its seeds."""
    seeds = {
        family: sorted(
            {seed for t in tables for (f, _), arm in t.runs.items() if f == family for seed in arm.index}
        )
        for family, _ in keys
    }
    found = np.full((len(keys), max(map(len, seeds.values()), default=0), len(tables)), np.nan)
    for outcome, table in enumerate(tables):
        for place, (family, variant) in enumerate(keys):
            arm = table.runs.get((family, variant))
            if arm is not None:
                found[place, np.searchsorted(seeds[family], arm.index), outcome] = arm.to_numpy()
    return found
