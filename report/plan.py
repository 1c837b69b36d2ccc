"""How many seeds a study needs, before it is run: at a spread that is assumed, or seen in other runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import special

from base.errors import UsageError
from report.compute import arm_tables, read_scores
from report.document.markdown import decimals, family_label, table, unit_name
from report.inputs.sources import read_source
from report.parts.power import equivalence_power_each, seeds_text
from report.request import Request
from report.significance.arms import ArmTable
from report.significance.axes import Family, Level
from report.significance.comparison import Inference
from report.significance.factor import Contrast
from report.significance.multiple_comparisons import find_primary
from report.statistics import power
from report.statistics.welch import NO_SPREAD

MULTIPLES = (0.5, 1.0, 2.0)
"""Differences that seeds are counted for, in margins."""
MOST_PLANNED = 1000
"""Variants, or families, of any study."""
PLANNED_RUNS = (3, 4, 5, 6, 8, 10, 12, 16, 20)


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
        return f"{size:.{decimals(size, self.digits)}f}"


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
            margin=arms.metric.margin,
            unit=unit_name(arms.metric.unit),
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
        return [arm.to_numpy() for (of_family, _), arm in arms.runs.items() if of_family == family]
    baseline, *others = variants
    pairs = [Contrast((name,), (baseline,)) for name in others]
    return [arm for pair in pairs for arm in arms.sample(pair, [family], is_paired=True).arms]


def plan(spread: Spread, variants: int, families: int, inference: Inference, metrics: int = 1) -> str:
    """Say what studies of several sizes can find.

    Args:
        spread: That of one outcome.
        variants: How many in all, the baseline included.
        families: How many are averaged over.
        inference: Level.
        metrics: How many claims are made about, which are corrected together.

    Raises:
        UsageError: For fewer than two variants or no family.
    """
    if variants < 2 or families < 1:
        raise UsageError("--plan needs --variants of at least 2 and --families of at least 1")
    if max(variants, families) > MOST_PLANNED:
        raise UsageError(f"--plan takes at most {MOST_PLANNED:,} variants and families")
    tests = (variants - 1) * metrics
    levels = {"": inference.level} | ({f", {tests} tests": inference.level / tests} if tests > 1 else {})
    sizes = [
        [str(n), str(n * variants * families), *_detectable(spread, families, n, levels.values())]
        for n in PLANNED_RUNS
    ]
    needs = _needs(spread, families, levels.values())
    in_unit = f", in {spread.unit}" if spread.unit else ""
    corrected = f" and as one of {tests} tests, by Bonferroni's bound" if tests > 1 else ""
    return (
        f"{_heading(spread)}{in_unit}; {variants} variants, families: {families}; two-sided level "
        f"{inference.level:.2g}, {power.POWER:.0%} power.\n\nThe smallest true difference to the baseline "
        f"that is found, by itself{corrected}:\n\n"
        f"{table(['seeds', 'runs', *(f'detectable{name}' for name in levels)], sizes)}\n\n"
        "Seeds in every family and variant:\n\n"
        f"{table(['to show', *(f'seeds{name}' for name in levels)], needs)}"
    )


def seeds_to_detect(spread: Spread, size: float, families: int, levels: Iterable[float]) -> list[int | None]:
    """Return how many seeds in every family and variant find a difference, at each level; None: too many."""
    weights = _weights(spread, families)
    return [power.runs_to_detect(size, [spread.sd**2] * len(weights), weights, level) for level in levels]


def _weights(spread: Spread, families: int) -> list[float]:
    """Of the arms, or families' pairs, in a comparison."""
    sides = [1.0] if spread.is_paired else [1.0, -1.0]
    return [side / families for _ in range(families) for side in sides]


def _detectable(spread: Spread, families: int, runs: int, levels: Iterable[float]) -> Iterator[str]:
    weights = _weights(spread, families)
    error, df = power.balanced([spread.sd**2] * len(weights), weights, runs)
    for level in levels:
        size = power.minimum_detectable_effect(error, df, 1 - level)
        yield "-" if size is None else spread.shown(size)


def _needs(spread: Spread, families: int, levels: Collection[float]) -> Iterator[list[str]]:
    # Without a margin the spread itself is the only measure there is.
    for size in (multiple * (spread.margin or spread.sd) for multiple in MULTIPLES):
        seeds = seeds_to_detect(spread, size, families, levels)
        yield [f"a difference of {spread.shown(size)}", *map(seeds_text, seeds)]
    if spread.margin is not None:  # in every family, each of which has these arms
        alone = _weights(spread, 1)
        seeds = power.runs_to_show_equivalence(
            spread.margin,
            [spread.sd**2] * len(alone),
            alone,
            next(iter(levels)),
            equivalence_power_each(families),
        )
        others = ["-"] * (len(levels) - 1)
        yield [f"within {spread.shown(spread.margin)}, by itself", seeds_text(seeds), *others]


def plan_like(path: Path, request: Request) -> str:
    """Plan a study at the spread of a table or another study, one part for each outcome.

    Args:
        path: What is read; one variant with two runs is enough.
        request: What is asked of a report, margins among it, and how many variants and families the study is
            to have; None takes those of the source.

    Raises:
        UsageError: For a source that cannot be read, or that has no spread over seeds.
    """
    source = read_source(path, request)
    source, question, scores = read_scores(source, request, fewest=1)
    levels, inference = question.levels, question.inference
    variants = max(2, len(levels)) if request.variants is None else request.variants
    tables = arm_tables(source, scores)
    primary = find_primary(
        request.primary or source.design.report.primary, tuple(tables), is_strict=bool(request.primary)
    )
    num_metrics = max(1, len(primary))
    parts = []
    for arms in tables.values():
        if spread := spread_of(arms, levels, inference.paired):
            num_families = len(arms.families) if request.families is None else request.families
            # Without an average each family is a question of its own.
            has_average = num_families == 1 or arms.scopes()[0] is None or len(arms.families) == 1
            tests = num_metrics if has_average else num_metrics * num_families
            parts.append(plan(spread, variants, num_families if has_average else 1, inference, tests))
    if not parts:
        raise UsageError(
            f"{path}: no outcome has two runs of one family and variant that differ, so that the spread over "
            "seeds is not known; give the one you expect, without a source: --plan --sd 1"
        )
    return "\n\n".join(parts)


def _heading(spread: Spread) -> str:
    margin = "no margin" if spread.margin is None else f"margin {spread.shown(spread.margin)}"
    of = " of differences in pairs" if spread.is_paired else ""
    deviation = f"Standard deviation over seeds{of} {spread.shown(spread.sd)}"
    if spread.df is None:
        return f"{deviation}, {margin}"
    # What a spread seen in so many runs leaves possible: the usual interval of a variance.
    chi_squared = [2 * special.gammaincinv(spread.df / 2, p) for p in (0.975, 0.025)]
    ends = (spread.sd * math.sqrt(spread.df / quantile) for quantile in chi_squared)
    low, high = map(spread.shown, ends)
    each = ", ".join(f"{label} {spread.shown(sd)}" for label, sd in spread.of_families.items())
    return f"## {spread.name}\n\n{deviation} [{low}, {high}]{each and f' ({each})'}, {margin}"
