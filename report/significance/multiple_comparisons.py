"""Which comparisons are primary, and how they are corrected for each other: the one place for both.

Primary comparisons are those of every variant with the baseline on every primary metric, averaged over
families, or in each where their scores have no average. They are corrected as one family of tests: the chance
that any of them is called different although it is not is at most the level, and so is the chance that any is
called equivalent although it is not. Everything else is exploratory: corrected over the variants of one
metric and scope, each of these groups at its own level.

Differences are corrected by max-t, which uses what comparisons share: one baseline, paired seeds, runs with
several metrics (``statistics.joint_null``). Tests at planned looks and equivalences are corrected by Holm.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Hashable, Mapping, Sequence
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
from report.statistics.tuning_curves import NO_CHOICE
from scores.metrics import is_of_training

Members = Mapping[int, Comparison]
"""Comparisons by their place among all."""


@dataclass(frozen=True)
class MultipleComparisons:
    """The runs of every metric, which of these are primary, and how comparisons are made and corrected."""

    tables: Mapping[Benchmark, ArmTable]
    primary: Collection[Benchmark]
    inference: Inference
    _drawn: dict[Hashable, tuple[list[Any], Correction]] = field(default_factory=dict, compare=False)
    """By the comparisons that a correction is over: these in its own order, and the correction."""

    def correct(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """Correct comparisons with the baseline; their order stays.

        Args:
            comparisons: Of every metric and variant, each inferred by itself. Scopes that are not there are
                not corrected for; primary comparisons have to be there, all of them.
        """
        return [*CorrectedGroups(self, comparisons).correct(dict(enumerate(comparisons))).values()]

    @property
    def is_drawn(self) -> bool:
        """Whether whole studies are drawn; tests at planned looks are corrected by Holm."""
        return isinstance(self.inference.looks, OneLook)

    def correction(self, group: dict[int, Comparison]) -> tuple[dict[int, Comparison], Correction]:
        """Draw what comparisons share once: without a run, or in other pairs, they share nearly the same.

        Returns:
            The comparisons in the order in which they are to be corrected, and how.
        """
        if not self.is_drawn or len(group) == 1:  # of one nothing is to be corrected
            return group, Holm()
        places = {(c.benchmark, c.contrast, c.families): place for place, c in group.items()}
        if (key := frozenset(places)) not in self._drawn:
            self._drawn[key] = [*places], self._max_t([*group.values()])
        order, correction = self._drawn[key]
        return {places[each]: group[places[each]] for each in order}, correction

    def _max_t(self, group: Sequence[Comparison]) -> MaxT:
        """Draw more studies where a corrected p lies so near to the level that the draws may decide."""
        inference = self.inference
        max_t = max_t_of(group, self.tables, inference)
        corrected = max_t.adjust([c.p_sequential for c in group])
        # 10,000 draws tell a share of 5% to within 0.002, so that 0.048 may be 0.051 with other draws.
        # Near is within four standard errors of a share of draws.
        error = math.sqrt(inference.level * (1 - inference.level) / inference.num_draws)
        if any(p is not None and abs(p - inference.level) < 4 * error for p in corrected):
            return max_t_of(group, self.tables, replace(inference, num_draws=inference.most_draws))
        return max_t

    def is_primary(self, comparison: Comparison) -> bool:
        """Whether it is about a primary metric: on average, or in each family where there is no average."""
        has_average = self.tables[comparison.benchmark].scopes()[0] is None
        return comparison.benchmark in self.primary and (comparison.family is None or not has_average)

    def compare(self, contrasts: Sequence[Contrast]) -> list[Comparison]:
        """Compare by contrasts beside those with the baseline, on every metric in every scope, each alone."""
        return [
            compare_arms(arms, contrast, family, self.inference)
            for contrast in contrasts
            for arms in self.tables.values()
            for family in arms.scopes()
        ]

    def correct_with(
        self, comparisons: Sequence[Comparison], contrasts: Sequence[Comparison]
    ) -> tuple[list[Comparison], list[Comparison]]:
        """Correct comparisons with the baseline and contrasts as one family of tests.

        A contrast that is a comparison with the baseline, whichever way round, is that comparison: its
        p-values, its correction and its verdict. One that is asked for twice is one question.

        Args:
            comparisons: With the baseline, each inferred by itself.
            contrasts: What ``compare`` returns.
        """
        level, questions = self.inference.level, set(map(question, comparisons))
        further = {question(c): c for c in contrasts if question(c) not in questions}
        corrected = self.correct([*comparisons, *further.values()])
        corrected = [with_interval(c, level) for c in corrected]
        # A contrast "gelu - kan" is the question of "kan - gelu": it takes over the verdict, not the sign.
        by_question = {question(c): c for c in corrected}
        as_written = [_corrected_as(c, by_question[question(c)]) for c in contrasts]
        return corrected[: len(comparisons)], [with_interval(c, level) for c in as_written]


def find_primary(
    names: Sequence[str], benchmarks: Sequence[Benchmark], is_strict: bool
) -> tuple[Benchmark, ...]:
    """Find the metrics that primary comparisons are about; where nobody names any, all but a training's own.

    Args:
        names: As written: ``held-out-loss``, ``blimp``, ``blimp margin``, ``glue`` under every head.
        benchmarks: Those that have scores.
        is_strict: Refuse names without scores, which a study may yet get.

    Raises:
        UsageError: For such a name.
    """
    by_name = {
        name: [b for b in benchmarks if name == str(b) or (name == b.name and not b.metric)] for name in names
    }
    for name, matches in by_name.items():
        if not matches and is_strict:
            raise unknown_name("metric in --primary", name, list(map(str, benchmarks)))
    if not names:
        return tuple(b for b in benchmarks if not is_of_training(b.name)) or tuple(benchmarks)
    return tuple(b for b in benchmarks if any(b in matches for matches in by_name.values()))


class CorrectedGroups:
    """Comparisons with the baseline, of which some may be exchanged and corrected again.

    A report leaves out each of thousands of runs in turn. So what the other comparisons come to is looked up
    once, and only what is exchanged is written anew.

    Args:
        plan: How they are corrected.
        comparisons: As ``MultipleComparisons.correct`` takes them.
    """

    def __init__(self, plan: MultipleComparisons, comparisons: Sequence[Comparison]) -> None:
        self._plan = plan
        groups: dict[Hashable, dict[int, Comparison]] = {}
        for place, comparison in self._marked(dict(enumerate(comparisons))).items():
            # All primary comparisons are one group, else those of one metric and scope.
            scope = None if comparison.is_primary else (comparison.benchmark, comparison.family)
            groups.setdefault(scope, {})[place] = comparison
        self._groups = [plan.correction(group) for group in groups.values()]

    def _marked(self, comparisons: Members) -> dict[int, Comparison]:
        return {place: replace(c, is_primary=self._plan.is_primary(c)) for place, c in comparisons.items()}

    def correct(self, exchanged: Members) -> dict[int, Comparison]:
        """Correct some comparisons together with those that stay.

        Args:
            exchanged: By the place of the one that each stands for, of its metric, contrast and scope.
        """
        marked, corrected = self._marked(exchanged), dict[int, Comparison]()
        for group, correction in self._groups:
            if inside := {place: c for place, c in marked.items() if place in group}:
                everything = _corrected(group | inside, correction, self._plan.inference.level)
                corrected |= {place: everything[place] for place in inside}
        return {place: corrected[place] for place in exchanged}


def _corrected(members: Members, correction: Correction, level: float) -> dict[int, Comparison]:
    """Correct the differences of a group, and its equivalences by Holm."""
    p_values = [c.p_sequential for c in members.values()]
    levels, corrected = correction.levels(p_values, level), correction.adjust(p_values)
    equivalent = Holm().adjust([c.p_equivalence_sequential for c in members.values()])
    numbers = zip(members.items(), corrected, levels, equivalent, strict=True)
    return {
        place: replace(
            c, p_corrected=p, level_simultaneous=alone and c.look.nominal(alone), p_equivalence_holm=p_same
        )
        for (place, c), p, alone, p_same in numbers
    }


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


def question(comparison: Comparison) -> Hashable:
    """Name what a comparison asks, whichever way round its contrast is written."""
    contrast = comparison.contrast
    sides: frozenset[frozenset[Level]] = frozenset((frozenset(contrast.plus), frozenset(contrast.minus)))
    return comparison.benchmark, comparison.family, sides


def _corrected_as(comparison: Comparison, corrected: Comparison) -> Comparison:
    """Take over what does not depend on the way round."""
    names = ("is_primary", "p", "look", "p_corrected", "level_simultaneous", "p_equivalence",
             "p_equivalence_everywhere", "p_equivalence_holm", "is_at_chance")  # fmt: skip
    return replace(comparison, **{name: getattr(corrected, name) for name in names})


def max_t_of(
    comparisons: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> MaxT:
    """Draw whole studies without any difference.

    Args:
        comparisons: What is corrected together, in this order; those without a p are never in question.
        tables: The runs of every metric.
        inference: How comparisons are made.
    """
    cells = cells_of(comparisons, tables, inference)
    # A sequence of its own that depends on no order in which groups are corrected.
    rng = np.random.default_rng([inference.generator_seed, zlib.crc32(b"max-t")])
    # In parts, as all draws at once would not fit into memory.
    sizes = [min(NUM_DRAWS, inference.num_draws - done) for done in range(0, inference.num_draws, NUM_DRAWS)]
    parts = [list(map(p_of_t, simulated(cells, size, rng))) for size in sizes]
    return MaxT(*map(np.concatenate, zip(*parts, strict=True)))


def cells_of(
    comparisons: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> Cells:
    """Arrange the runs of comparisons as whole runs with all of their metrics."""
    benchmarks = list(dict.fromkeys(c.benchmark for c in comparisons))
    of_metrics = [tables[benchmark] for benchmark in benchmarks]
    families = sorted({family for c in comparisons for family in c.families})
    keys = _keys(comparisons, of_metrics, families, inference)
    # Averaged over two families, kan - gelu has 1/2 at both arms of kan, -1/2 at both of gelu, else 0.
    weights = np.zeros((len(comparisons), len(keys)))
    places = {key: place for place, key in enumerate(keys)}
    for row, comparison in zip(weights, comparisons, strict=True):
        for family in comparison.families:
            for variant, weight in comparison.contrast.weights().items():
                row[places[family, variant]] = weight / len(comparison.families)
    scores = _scores(of_metrics, keys)
    metrics = np.array([benchmarks.index(c.benchmark) for c in comparisons], int)
    family_of = np.array([families.index(family) for family, _ in keys])
    if inference.paired:
        # (F, m, 2) what tuning adds to each difference within each family
        choices = [[tables[c.benchmark].choice(c.contrast, f) for c in comparisons] for f in families]
        choices_first = np.moveaxis(np.array(choices, dtype=float), -1, 0)
        return cells_of_pairs(scores, weights, metrics, family_of, choices_first)
    variants = list(dict.fromkeys(variant for _, variant in keys))
    variant_of = np.array([variants.index(variant) for _, variant in keys])
    choices = [[arms.choices.get(key, NO_CHOICE) for arms in of_metrics] for key in keys]
    choices_first = np.moveaxis(np.array(choices), -1, 0)
    return cells_of_arms(scores, weights, metrics, family_of, choices_first, variant_of)


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


def _scores(tables: Sequence[ArmTable], keys: Sequence[Key]) -> np.ndarray:
    """(A, S, O) scores, nan where missing; the rows of a family are its seeds."""
    # One row a seed, so that runs of one seed, and metrics of one run, stand beside each other.
    seeds = {
        family: sorted(
            {seed for t in tables for (f, _), arm in t.runs.items() if f == family for seed in arm.index}
        )
        for family, _ in keys
    }
    scores = np.full((len(keys), max(map(len, seeds.values()), default=0), len(tables)), np.nan)
    for metric, table in enumerate(tables):
        for place, (family, variant) in enumerate(keys):
            arm = table.runs.get((family, variant))
            if arm is not None:
                scores[place, np.searchsorted(seeds[family], arm.index), metric] = arm.to_numpy()
    return scores
