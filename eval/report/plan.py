"""How many seeds a study needs, before it is run: at a spread that is assumed, or seen in other runs."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy import special

from base.errors import UsageError
from eval.report.analyse import read_arms
from eval.report.analysis import Request
from eval.report.document.markdown import table, unit_name
from eval.report.document.names import family_label
from eval.report.inputs.sources import read_source
from eval.report.parts.power import equivalence_power_each, seeds_text
from eval.significance.arms import ArmTable
from eval.significance.axes import Family, Level
from eval.significance.comparison import Inference
from eval.significance.contrasts import Contrast
from eval.significance.statistics.corrections import MaxT
from eval.significance.statistics.joint_null import Draws, cells_of_arms, differences_found, p_of_t, simulated
from eval.significance.statistics.power import (
    POWER,
    balanced,
    minimum_detectable_effect,
    runs_to_detect,
    runs_to_show_equivalence,
)
from eval.significance.statistics.welch import NO_SPREAD

MULTIPLES = (0.5, 1.0, 2.0)
"""Differences that seeds are counted for, in margins."""
MOST_PLANNED = 1000
"""Variants, or families, of any study."""
PLANNED_RUNS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
MOST_DRAWN = 400
"""Arms, times outcomes, of which whole studies are drawn."""
FARTHEST = 1e4
"""The largest difference that is looked for, in spreads."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Spread over seeds within one family and variant, of which a study is planned.

    Attributes:
        name: Of the outcome; empty where the spread is assumed.
        sd: Standard deviation, in the unit.
        margin: The largest difference that is negligible, in the same; None where nobody named one.
        unit: As a reader sees it; may be empty.
        digits: Decimals that are worth showing.
        is_paired: Whether it is that of differences between runs of one seed.
        df: Degrees of freedom of ``sd``; None where it is assumed.
        of_families: Each family's own standard deviation, by its label; empty where there is one.
    """

    name: str = ""
    sd: float
    margin: float | None
    unit: str = "the unit of both"
    digits: int = 2
    is_paired: bool = False
    df: int | None = None
    of_families: Mapping[str, float] = field(default_factory=dict)

    def shown(self, size: float) -> str:
        """Write a difference in the unit."""
        return f"{size:.{self.digits}f}"

    @property
    def in_unit(self) -> str:
        """Say what the numbers are in; empty where nobody said it."""
        return f", in {self.unit}" if self.unit else ""


def spread_of(arms: ArmTable, variants: Sequence[Level], is_paired: bool) -> Spread | None:
    """Pool the spread over all arms of an outcome, families alike; None where no arm of a family tells it.

    Args:
        arms: Its runs.
        variants: Those compared, the baseline first, .
        is_paired: Compare runs of one seed: then it is the spread of their differences.
    """
    samples = [_samples(arms, variants, family, is_paired) for family in arms.families]
    repeated = [[arm for arm in family if len(arm) > 1] for family in samples]
    if not all(repeated):
        return None
    degrees = [sum(len(arm) - 1 for arm in family) for family in repeated]
    squares = [sum(float(((arm - arm.mean()) ** 2).sum()) for arm in family) for family in repeated]
    variances = np.divide(squares, degrees)
    sd, labels = math.sqrt(variances.mean()), map(family_label, arms.families)
    return (
        None
        if sd < NO_SPREAD
        else Spread(
            name=str(arms.benchmark),
            sd=sd,
            margin=arms.outcome.margin,
            unit=unit_name(arms.outcome.unit),
            digits=arms.digits(arms.families),
            is_paired=is_paired,
            df=sum(degrees),
            of_families=dict(zip(labels, np.sqrt(variances).tolist(), strict=True)) if degrees[1:] else {},
        )
    )


def _samples(
    arms: ArmTable, variants: Sequence[Level], family: Family, is_paired: bool
) -> Sequence[np.ndarray]:
    if not is_paired:
        return [arm.to_numpy() for (own, _), arm in arms.runs.items() if own == family]
    baseline, *others = variants
    pairs = [Contrast((name,), (baseline,)) for name in others]
    return [arm for pair in pairs for arm in arms.sample(pair, [family], is_paired=True).arms]


def plan(spread: Spread, variants: int, families: int, inference: Inference, outcomes: int = 1) -> str:
    """Say what studies of several sizes can find.

    Args:
        spread: That of one outcome.
        variants: How many in all, the baseline included.
        families: How many are averaged over.
        inference: Level.
        outcomes: How many claims are made about, which are corrected together.

    Raises:
        UsageError: For fewer than two variants or no family.
    """
    if variants < 2 or families < 1:
        raise UsageError("--plan needs --variants of at least 2 and --families of at least 1")
    if max(variants, families) > MOST_PLANNED:
        raise UsageError(f"--plan takes at most {MOST_PLANNED:,} variants and families")
    tests = (variants - 1) * outcomes
    study = PlannedStudy(variants, families, outcomes, spread.is_paired, inference)
    levels = [study.by_itself, *([study.corrected] if tests > 1 else [])]
    corrected = [f", {tests} tests" for _ in levels[1:]]
    sizes = table(
        ["seeds", "runs", *(f"detectable{said}" for said in ("", *corrected))],
        [
            [
                str(n),
                str(n * variants * families),
                *(_shown(spread, study.detectable(n, of)) for of in levels),
            ]
            for n in PLANNED_RUNS
        ],
    )
    needs = table(
        ["to show", *(f"seeds{said}" for said in ("", *corrected))],
        _needs(spread, study, families, levels),
    )
    return (
        f"{_heading(spread)}{spread.in_unit}; {variants} variants, families: {families}; two-sided level "
        f"{inference.level:.2g}, {POWER:.0%} power.\n\nThe smallest true difference to the baseline that is "
        "found, by itself"
        + (f" and as one of {tests} tests, {study.correction}" if corrected else "")
        + f":\n\n{sizes}\n\nSeeds in every family and variant:\n\n{needs}"
    )


@dataclass(frozen=True)
class PlannedStudy:
    """A study in which all arms spread alike, by 1, judged by the rule that will judge it.

    Attributes:
        variants: How many, the baseline included.
        families: How many are averaged over.
        outcomes: How many claims are made about; they are taken as independent.
        is_paired: Whether runs of one seed are compared; the spread is then that of their differences.
        inference: Level, and number of draws.
    """

    variants: int
    families: int
    outcomes: int
    is_paired: bool
    inference: Inference

    @property
    def tests(self) -> int:
        """How many claims."""
        return (self.variants - 1) * self.outcomes

    @property
    def is_drawn(self) -> bool:
        """Whether whole studies are drawn; not of pairs, whose dependence is not known, nor of very many."""
        return not self.is_paired and self.variants * self.families * self.outcomes <= MOST_DRAWN

    @property
    def correction(self) -> str:
        """What is done for having looked at several."""
        return "whole studies being drawn" if self.is_drawn else "by Bonferroni's bound"

    def by_itself(self, runs: int) -> float:
        """Return the level of a single test."""
        return self.inference.level

    def corrected(self, runs: int) -> float:
        """Return the level of a test among all claims."""
        if not self.is_drawn:
            return self.inference.level / self.tests
        kinds = _draws_of(self, min(runs, PLANNED_RUNS[-1]))
        level, *_ = MaxT(*map(p_of_t, kinds)).levels([1.0] * self.tests, self.inference.level)
        return level or 0.0

    def detectable(self, runs: int, level_of: Callable[[int], float]) -> float | None:
        """Find the smallest true difference, in spreads, that is found with the usual power; None if none."""
        level = level_of(runs)
        if not self.is_drawn or runs > PLANNED_RUNS[-1]:
            error, df = balanced([1.0] * len(self.weights), self.weights, runs)
            return minimum_detectable_effect(error, df, 1 - level)
        as_seen, *_ = _draws_of(self, runs)
        size = float(np.quantile(np.nan_to_num(differences_found(as_seen, level), nan=np.inf), POWER))
        return size if size < FARTHEST else None

    @property
    def weights(self) -> list[float]:
        """Of the arms, or families' pairs, in a comparison."""
        sides = [1.0] if self.is_paired else [1.0, -1.0]
        return [side / self.families for _ in range(self.families) for side in sides]

    def seeds_for(self, difference: float, level_of: Callable[[int], float]) -> int | None:
        """Find the fewest runs in every arm that find a true difference, in spreads, with the usual power."""
        counted = range(PLANNED_RUNS[0], PLANNED_RUNS[-1] + 1)
        place = bisect.bisect_left(counted, True, key=lambda runs: self._finds(difference, runs, level_of))
        if place < len(counted):
            return counted[place]
        level = level_of(PLANNED_RUNS[-1])
        return runs_to_detect(difference, [1.0] * len(self.weights), self.weights, level)

    def _finds(self, difference: float, runs: int, level_of: Callable[[int], float]) -> bool:
        size = self.detectable(runs, level_of)
        return size is not None and size <= difference


@lru_cache(maxsize=64)
def _draws_of(study: PlannedStudy, runs: int) -> list[Draws]:
    """Draw studies of arms that spread alike."""
    num_arms = study.families * study.variants
    pattern = np.linspace(-1.0, 1.0, runs)
    scores = np.tile((pattern / pattern.std(ddof=1))[None, :, None], (num_arms, 1, study.outcomes))
    contrasts = np.hstack([-np.ones((study.variants - 1, 1)), np.eye(study.variants - 1)])
    weights = np.tile(contrasts / study.families, (study.outcomes, study.families))
    outcomes = np.repeat(np.arange(study.outcomes), study.variants - 1)
    cells = cells_of_arms(scores, weights, outcomes, np.repeat(np.arange(study.families), study.variants))
    cells = replace(cells, correlation=np.eye(len(cells.groups)))
    rng = np.random.default_rng([study.inference.generator_seed, runs])
    return simulated(cells, study.inference.num_draws, rng)


def plan_like(path: Path, request: Request, variants: int | None, families: int | None) -> str:
    """Plan a study at the spread of a table or another study, one part for each outcome.

    Args:
        path: What is read; one variant with two runs is enough.
        request: What is asked of a report, margins among it.
        variants: How many the study is to have; None takes those of the source.
        families: How many it is averaged over; None likewise.

    Raises:
        UsageError: For a source that cannot be read, or that has no spread over seeds.
    """
    tables, levels, inference, num_outcomes = read_arms(
        read_source(path, request.axes, request.reading), request
    )
    parts = []
    for arms in tables:
        if spread := spread_of(arms, levels, inference.paired):
            num_families = len(arms.families) if families is None else families
            # Without an average each family is a question of its own.
            has_average = num_families == 1 or arms.scopes()[0] is None or len(arms.families) == 1
            parts.append(
                plan(
                    spread,
                    max(2, len(levels)) if variants is None else variants,
                    num_families if has_average else 1,
                    inference,
                    num_outcomes if has_average else num_outcomes * num_families,
                )
            )
    if not parts:
        raise UsageError(
            f"{path}: no outcome has two runs of one family and variant that differ, so that the spread over "
            "seeds is not known; give the one you expect, without a source: --plan --sd 1"
        )
    return "\n\n".join(parts)


def _heading(spread: Spread) -> str:
    margin = "no margin" if spread.margin is None else f"margin {spread.shown(spread.margin)}"
    of = " of differences in pairs" if spread.is_paired else ""
    said = f"Standard deviation over seeds{of} {spread.shown(spread.sd)}"
    if spread.df is None:
        return f"{said}, {margin}"
    # What a spread seen in so many runs leaves possible: the usual interval of a variance.
    chi_squared = [2 * special.gammaincinv(spread.df / 2, p) for p in (0.975, 0.025)]
    ends = (spread.sd * math.sqrt(spread.df / quantile) for quantile in chi_squared)
    low, high = map(spread.shown, ends)
    own = ", ".join(f"{label} {spread.shown(sd)}" for label, sd in spread.of_families.items())
    return f"## {spread.name}\n\n{said} [{low}, {high}]{own and f' ({own})'}, {margin}"


def _shown(spread: Spread, size: float | None) -> str:
    return "-" if size is None else spread.shown(size * spread.sd)


def _needs(
    spread: Spread, study: PlannedStudy, families: int, levels: Sequence[Callable[[int], float]]
) -> Iterable[list[str]]:
    # Without a margin the spread itself is the only measure there is.
    for multiple in MULTIPLES:
        size = multiple * (spread.margin or spread.sd)
        seeds = [seeds_text(study.seeds_for(size / spread.sd, level)) for level in levels]
        yield [f"a difference of {spread.shown(size)}", *seeds]
    if spread.margin is not None:
        # In every family, each of which has these arms; the weights of an average are divided by families.
        own = [weight * families for weight in study.weights[: len(study.weights) // families]]
        variances, power = [spread.sd**2] * len(own), equivalence_power_each(families)
        seeds = seeds_text(
            runs_to_show_equivalence(spread.margin, variances, own, study.inference.level, power)
        )
        yield [f"within {spread.shown(spread.margin)}, by itself", seeds, *("-" for _ in levels[1:])]
