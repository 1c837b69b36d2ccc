"""What the study could see: noise of every metric, the detectable difference, and the seeds it takes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from report.analysis import Analysis
from report.document.markdown import amount, family_label, records_table, span, title
from report.part import NextStep, Page, Part, Section
from report.significance.arms import ArmTable, Sample
from report.significance.axes import Benchmark, Family
from report.significance.comparison import SHOWN, Comparison, Inference
from report.statistics.looks import PlannedLooks
from report.statistics.power import (
    MAX_RUNS,
    POWER,
    SignalNoise,
    minimum_detectable_effect,
    runs_to_detect,
    runs_to_show_equivalence,
    signal_noise,
)
from report.verdicts.findings import are_opposite, by_standing, named, uneven


@dataclass(frozen=True, kw_only=True)
class Power:
    """What a comparison finds with 80% power, at the level of its interval; named as in tables/power.csv.

    Differences are in the comparison's unit, seeds are those of every arm. None: no number, or more seeds
    than are looked for. Under a plan of looks, seeds are for the level of its last look; more than that has
    are those of a new study that is read once.
    """

    comparison: Comparison
    sd: float
    """Within arms over seeds: the root of the mean variance."""
    detectable_difference: float | None
    """The smallest true difference that is found with as many seeds as there are."""
    seeds_to_detect_estimate: int | None
    """To find a true difference as large as the one seen."""
    seeds_to_detect_margin: int | None
    """To find a true difference as large as the margin."""
    seeds_for_equivalence: int | None
    """To show equivalence at the margin, in every family, where there is no difference; by the next step of
    Holm's correction over those not shown yet."""

    @property
    def seeds(self) -> int | None:
        """To reach a verdict: the difference seen is found, or, if within the margin, equivalence shown."""
        if self.comparison.is_primary and self.comparison.verdict in SHOWN:
            return self.comparison.fewest_runs
        possible = [self.seeds_to_detect_estimate]
        margin, estimate = self.comparison.margin, self.comparison.estimate
        if margin is not None and estimate is not None and abs(estimate) < margin:
            possible.append(self.seeds_for_equivalence)
        return min((seeds for seeds in possible if seeds is not None), default=None)


def power_of(arms: ArmTable, comparison: Comparison, inference: Inference, group: list[Comparison]) -> Power:
    """Work out what an estimable comparison would need, its arms' variances being the true ones.

    Args:
        arms: All runs of its outcome.
        comparison: What was found.
        inference: Level, looks and pairing.
        group: Estimable comparisons that it is corrected with, itself among them.
    """
    sample = arms.sample(comparison.contrast, comparison.families, inference.paired)
    variances = [noise.variance for noise in sample.noises]
    effect = abs(float(np.dot(sample.weights, [arm.mean() for arm in sample.arms])))
    level = comparison.level_simultaneous or inference.level / len(group)
    detectable = minimum_detectable_effect(comparison.standard_error or 0.0, comparison.df or 0.0, 1 - level)
    margin = comparison.margin
    num_open = max(1, sum((c.p_equivalence_holm or 0.0) >= inference.level for c in group))

    def seeds_to_detect(difference: float) -> int | None:
        return inference.looks.runs_needed(
            lambda level: runs_to_detect(difference, variances, sample.weights, level, choice=sample.choice),
            comparison.look.p(level),
        )

    return Power(
        comparison=comparison,
        sd=math.sqrt(np.mean(variances)),
        detectable_difference=detectable,
        seeds_to_detect_estimate=seeds_to_detect(effect),
        seeds_to_detect_margin=None if margin is None else seeds_to_detect(margin),
        seeds_for_equivalence=inference.looks.runs_needed(
            lambda level: _seeds_for_equivalence(sample, margin, level / 2), 2 * inference.level / num_open
        ),
    )


def _seeds_for_equivalence(sample: Sample, margin: float | None, level: float) -> int | None:
    """Find how many seeds show equivalence in every family, which that of the average asks for."""
    if margin is None:
        return None
    families = dict.fromkeys(sample.strata)
    power, needed = equivalence_power_each(len(families)), []
    for family in families:
        arms = sample.of_family(family)
        variances = [noise.variance for noise in arms.noises]
        needed.append(runs_to_show_equivalence(margin, variances, arms.weights, level, power, arms.choice))
    return None if None in needed else max(needed)


def equivalence_power_each(num_families: int) -> float:
    """Return the power in each family with which all of them pass at the usual power."""
    return POWER ** (1 / num_families)


@dataclass(frozen=True, kw_only=True)
class MetricPower:
    """One outcome in one scope, in the unit of its comparisons; None where the runs do not allow a number."""

    comparisons: tuple[Comparison, ...]
    """Of every variant with the baseline."""
    power: tuple[Power, ...]
    """Of those that are estimable."""
    spreads: SignalNoise | None
    """Between variants and between seeds, of those variants that have a run in every family."""
    num_arms: int
    num_above_chance: int
    """Arms that are shown to score more than the margin above chance; all of them where it is not known."""

    @property
    def benchmark(self) -> Benchmark:
        """Which outcome."""
        return self.comparisons[0].benchmark

    @property
    def family(self) -> Family | None:
        """One family, or None for the average."""
        return self.comparisons[0].family

    @property
    def margin(self) -> float | None:
        """What was named negligible."""
        return next((c.margin for c in self.comparisons if c.margin is not None), None)

    @property
    def is_at_chance(self) -> bool:
        """Whether no arm is shown to have learnt anything."""
        return self.num_above_chance == 0

    @property
    def all_detectable(self) -> list[float]:
        """The smallest difference that is found, of each variant."""
        return [x.detectable_difference for x in self.power if x.detectable_difference is not None]

    @property
    def detectable(self) -> float | None:
        """The median over variants of the smallest difference that is found."""
        return median(self.all_detectable) if self.all_detectable else None

    def seeds_for(self, share: float) -> int | None:
        """Return how many seeds in every arm give a verdict on this share of the estimable variants."""
        needed = sorted(power.seeds for power in self.power if power.seeds is not None)
        number = max(1, math.ceil(share * len(self.power)))
        return needed[number - 1] if number <= len(needed) else None


def _row(
    arms: ArmTable, comparisons: tuple[Comparison, ...], claims: list[Comparison], inference: Inference
) -> MetricPower:
    families = comparisons[0].families
    variants = [v for v in arms.variants() if all(len(arms.runs.get((f, v), ())) for f in families)]
    scores = [[arms.runs[f, v].to_numpy() for v in variants] for f in families]
    spreads = signal_noise(scores)
    estimable = [c for c in comparisons if c.p is not None]
    keys = [key for key, arm in arms.runs.items() if key[0] in families and len(arm)]
    return MetricPower(
        comparisons=comparisons,
        power=tuple(power_of(arms, c, inference, claims if c.is_primary else estimable) for c in estimable),
        spreads=spreads,
        num_arms=len(keys),
        num_above_chance=sum(key in arms.above_chance for key in keys),
    )


def compute(analysis: Analysis) -> tuple[MetricPower, ...] | None:
    """Describe every metric, averaged over families and in each; None where nothing is estimable."""
    comparisons = analysis.comparisons
    rows = tuple(
        _row(arms, tuple(analysis.of(name, family)), analysis.claims, analysis.inference)
        for name, arms in analysis.tables.items()
        for family in dict.fromkeys(c.family for c in comparisons if c.benchmark == name)
    )
    return rows if any(row.power for row in rows) else None


def section(analysis: Analysis, rows: tuple[MetricPower, ...], page: Page) -> Section:
    """One line a primary metric, and one a variant."""
    primary = _primary(analysis, rows)
    families = [row for row in rows if row not in primary]
    on = f" on {title(primary[0].benchmark)}"
    summary = f"a{_found(analysis, primary[0], on)}" if primary[0].detectable else ""
    rows_of_table = records_table(_cells(analysis, row) for row in (*primary, *families))
    return Section(title="What could this study see?", summary=summary, body=f"{rows_of_table}\n\n{_LEGEND}")


_LEGEND = (
    "*Between variants*: the largest difference between two means. *Between seeds*: standard deviation of a "
    "run's score. *Ratio*: of the two, beside what it would be if all variants were equal. *Detectable*: the "
    f"smallest true difference found with {POWER:.0%} power, the median over variants. *Seeds*: how many in "
    "every arm give half of the variants, or all, a verdict. Few runs tell a spread only roughly; "
    "tables/power.csv has every variant."
)


def _primary(analysis: Analysis, rows: Sequence[MetricPower]) -> list[MetricPower]:
    order = by_standing(analysis)
    whole = [row for row in rows if row.family == analysis.scopes(row.benchmark)[0]]
    primary = [row for row in rows if any(c.is_primary for c in row.comparisons)]
    return sorted(primary or whole, key=lambda row: order.index(row.benchmark))


def _found(analysis: Analysis, row: MetricPower, on: str = "") -> str:
    size = amount(row.detectable, row.comparisons[0])
    return f" difference of {size}{_median_of(analysis, row)}{on} is found in {POWER:.0%} of such studies"


def _median_of(analysis: Analysis, row: MetricPower) -> str:
    """Say whose difference that is, and between which the others lie."""
    ends = span(row.all_detectable, f".{row.comparisons[0].digits}f")
    return f" (median {analysis.noun}; {ends})" if " to " in ends else ""


def checks(analysis: Analysis, rows: tuple[MetricPower, ...]) -> Iterator[str]:
    """Say whether the leading metric could show a difference of the margin."""
    leading = _primary(analysis, rows)[0]
    if leading.detectable is None or leading.is_at_chance:
        return
    on = f" on {_label(analysis, leading.comparisons[0])}" if len(analysis.primary) > 1 else ""
    sentence = f"A{_found(analysis, leading, on)}"
    if leading.margin is not None:
        margin = amount(leading.margin, leading.comparisons[0])
        is_seen = leading.detectable <= leading.margin
        default = "default " * leading.comparisons[0].metric.is_default_margin
        sentence += f"; the {default}margin, {margin}, is " + (
            "larger, so what matters is found" if is_seen else "smaller, so what matters may be missed"
        )
    yield f"{sentence}."


def steps(analysis: Analysis, rows: tuple[MetricPower, ...]) -> Iterator[NextStep]:
    """Propose as many seeds as the undecided primary comparison needs that needs fewest."""
    undecided = [
        power
        for row in rows
        if not row.is_at_chance
        for opposite in [{c for c, x in uneven(analysis, row.benchmark).items() if are_opposite(x)}]
        for power in row.power
        if power.comparison.is_primary
        and power.comparison.verdict not in SHOWN
        and power.comparison.contrast not in opposite
    ]
    possible = [power for power in undecided if power.seeds]
    if not possible:
        return
    needed = min(possible, key=lambda p: p.seeds or 0)
    current = max(needed.comparison.fewest_runs, 1)
    seeds = max(needed.seeds or 0, current + 1)
    looks, before = analysis.inference.looks, ""
    scored = analysis.runs[analysis.runs.benchmark == needed.comparison.benchmark]
    done = scored.groupby(["family", "variant"]).run_id.nunique().to_dict()
    if isinstance(looks, PlannedLooks) and seeds > looks.plan[-1]:
        done, before = {}, f"No further look of the plan has {POWER:.0%} power; a new study, read once, with "
    elif isinstance(looks, PlannedLooks):
        following, seeds = next(n for n in looks.plan if n > current), looks.plan[-1]
        before = f"The plan's next look is at {following} runs in every arm; its last with "
    arms = itertools.product(analysis.families, analysis.variants)
    yield NextStep(
        text=f"{before}{seeds} seeds in every arm",
        compared=named(analysis, needed.comparison),
        is_equivalence=needed.seeds != needed.seeds_to_detect_estimate,
        command=f"--seeds {_seed_list(analysis, seeds)}" if done else "",
        power=POWER,
        num_runs=sum(max(0, seeds - done.get(arm, 0)) for arm in arms),
    )


def _seed_list(analysis: Analysis, number: int) -> str:
    """Write the seeds of the study and further ones, none of which a tuning run has: ``1-5,8``."""
    tuning_seeds = set(analysis.tuned.plan.plan.seeds) if analysis.tuned else set()
    seeds = sorted(set(analysis.runs.seed))
    free = (seed for seed in itertools.count(1) if seed not in tuning_seeds and seed not in seeds)
    seeds += itertools.islice(free, max(0, number - len(seeds)))
    ends = [
        (stretch[0], stretch[-1])
        for _, each in itertools.groupby(enumerate(sorted(seeds)), lambda x: x[1] - x[0])
        if (stretch := [seed for _, seed in each])
    ]
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ends)


def tables(analysis: Analysis, rows: tuple[MetricPower, ...]) -> Mapping[str, pd.DataFrame]:
    """Return metrics and comparisons."""
    return {
        "metrics": pd.DataFrame(map(_outcome, rows)),
        "power": pd.DataFrame(_power(power) for row in rows for power in row.power),
    }


def _cells(analysis: Analysis, row: MetricPower) -> dict[str, str]:
    return {
        "metric": _label(analysis, row.comparisons[0]),
        **spread_cells(row, row.comparisons[0]),
        "seeds for half / all" if analysis.others[1:] else "seeds": _seeds_of(row),
        "chance": _chance(row),
    }


def spread_cells(row: MetricPower, unit: Comparison) -> dict[str, str]:
    """Write what a metric could see in the unit, and with the digits, of a comparison."""
    spreads = row.spreads
    return {
        "between variants": amount(spreads.signal if spreads else None, unit),
        "between seeds": amount(spreads.noise if spreads else None, unit),
        "ratio (of equals)": spreads.written if spreads else "-",
        "detectable": amount(row.detectable, unit),
    }


def _seeds_of(row: MetricPower) -> str:
    if not row.power or row.is_at_chance:
        return "-"
    half, every = (seeds_text(row.seeds_for(share)) for share in (0.5, 1.0))
    return half if len(row.power) == 1 else f"{half} / {every}"


def _chance(row: MetricPower) -> str:
    chance = row.comparisons[0].metric.chance
    if chance is None:
        return "-"
    if row.is_at_chance:
        return f"{chance:.4g}: at chance"
    beyond = "all" if row.num_above_chance == row.num_arms else f"{row.num_above_chance} of {row.num_arms}"
    return f"{chance:.4g}: {beyond} {'above' if row.comparisons[0].metric.sign > 0 else 'below'}"


def _label(analysis: Analysis, comparison: Comparison) -> str:
    """Name a metric, with the family where it is one of several."""
    if comparison.family is None or len(analysis.families) == 1:
        return title(comparison.benchmark)
    return f"{title(comparison.benchmark)}, {family_label(comparison.family)}"


def seeds_text(seeds: float | None) -> str:
    """Write a number of seeds; None and NaN are more than are looked for."""
    return f"over {MAX_RUNS}" if pd.isna(seeds) else f"{seeds:.0f}"


def _outcome(row: MetricPower) -> dict[str, Any]:
    """Spreads, differences and margins are in ``unit``."""
    metric, spreads = row.comparisons[0].metric, row.spreads
    return {
        "benchmark": row.benchmark,
        "family": row.family,
        "unit": row.comparisons[0].unit,
        "better": metric.better,
        "margin": row.margin,
        "spread_between_variants": spreads and spreads.signal,
        "spread_between_seeds": spreads and spreads.noise,
        "signal_to_noise": spreads and spreads.ratio,
        "signal_to_noise_of_equals": spreads and spreads.ratio_of_equals,
        "detectable_difference": row.detectable,
        "seeds_for_half_of_the_verdicts": row.seeds_for(0.5),
        "seeds_for_every_verdict": row.seeds_for(1.0),
        "chance": metric.chance,
        "num_arms": row.num_arms,
        "num_arms_above_chance": None if metric.chance is None else row.num_above_chance,
        "is_at_chance": row.is_at_chance,
    }


def _power(power: Power) -> dict[str, Any]:
    """Standard deviation, differences and margin are in ``unit``."""
    names = ("benchmark", "contrast", "family", "unit")
    numbers = {name: value for name, value in vars(power).items() if name != "comparison"}
    identity = {name: getattr(power.comparison, name) for name in names}
    return {**identity, **numbers, "seeds_for_verdict": power.seeds}


PART = Part(name="power", compute=compute, section=section, tables=tables, checks=checks, steps=steps)
