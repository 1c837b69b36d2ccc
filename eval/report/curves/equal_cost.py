"""Equal what? Variants at equal width, parameters and FLOPs, and the frontier of loss and cost.

Only of a study that holds several levels of a variant with different budgets (``kan``, ``kan
ffn_budget=params``, ``kan ffn_budget=flops``). What a level is matched in is read off its runs, not its name:
with an activation alone, one level may answer all three questions. Nothing is read off a learning curve in
mid-training, where a training that ends there would be lower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from eval.report.inputs.run_facts import RunFacts
from eval.report.inputs.sources import Source
from eval.report.verdicts.findings import Findings
from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark, Family, Level, plain
from eval.significance.comparison import Comparison
from eval.significance.statistics.tuning import NO_CHOICE, Selection
from eval.significance.statistics.welch import welch
from eval.suites.registry import HELD_OUT

SECONDS_AN_HOUR = 3600
COLUMNS = ["family", "variant", "n", "mean_s", "sd_s"]


def training_times(facts: Sequence[RunFacts]) -> pd.DataFrame:
    """Summarise the wall time of pretraining for each family and variant, and over all runs.

    Args:
        facts: Of a study's runs; those without a time are left out.

    Returns:
        Columns family, variant, n, mean_s, sd_s, in the order in which the arms come; seconds, sd with n - 1
        and nan for one run. The last row, of all runs, names no family and no variant; it is absent where
        there is one arm.
    """
    arms: dict[tuple[Family, Level], list[float]] = {}
    for run in facts:
        if run.train_hours is not None:
            arms.setdefault((run.family, run.variant), []).append(SECONDS_AN_HOUR * run.train_hours)
    rows: list[tuple[object, ...]] = [(*arm, *_summary(seconds)) for arm, seconds in arms.items()]
    if len(arms) > 1:
        rows.append(("", "", *_summary([second for seconds in arms.values() for second in seconds])))
    return pd.DataFrame(rows, columns=COLUMNS)


def fastest(source: Source, runs: Sequence[RunFacts]) -> float | None:
    """Tokens a second of an arm's fastest run: others had to share the machine with something else.

    Runs of a tuning count too, as they are many and were made at other times. Their places name the tuned
    value beside those of the main runs.

    Args:
        source: The study of the runs.
        runs: Those of one arm.

    Returns:
        None where no speed is known.
    """
    aside = [x for stage in source.stages.values() for x in stage]
    alike = [
        other
        for run in runs[:1]
        for other in aside
        if (plain(other.family), other.variant) == (plain(run.family), run.variant)
        and set(other.places) >= set(run.places)
    ]
    return max((x.tokens_per_s for x in (*runs, *alike) if x.tokens_per_s), default=None)


def _summary(seconds: Sequence[float]) -> tuple[int, float, float]:
    sd = float(np.std(seconds, ddof=1)) if len(seconds) > 1 else float("nan")
    return len(seconds), float(np.mean(seconds)), sd


def clock(seconds: float) -> str:
    """Write seconds as ``1h42m41s``, without what would be a leading zero; below a minute with a decimal."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m{rest:02d}s" if hours else f"{minutes}m{rest:02d}s"


Question = Literal["width", "parameters", "FLOPs"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
BUDGET_OF: Mapping[Question, str] = {"width": "width", "parameters": "params", "FLOPs": "flops"}
BUDGET = "ffn_budget="
TOLERANCE = 0.01
"""Costs this close count as equal: a matched width is a whole number."""
Standing = Literal["on the frontier", "not told from it", "behind"]
COSTS: Mapping[str, Callable[[RunFacts], float | None]] = {
    "parameters": lambda run: run.num_parameters,
    "training FLOPs": lambda run: run.train_flops,
    "hours": lambda run: run.train_hours,
}


@dataclass(frozen=True, kw_only=True)
class EqualAnswer:
    """What one variant does where it is made equal to the baseline in one thing."""

    variant: str
    """Without its budget."""
    question: Question
    level: Level
    """The level that is equal in it."""
    ratio: float
    """Of what is made equal, over the baseline's; the mean over families."""
    comparison: Comparison


@dataclass(frozen=True, kw_only=True)
class CostPoint:
    """A level's mean score and mean cost in one family."""

    family: Family
    variant: Level
    cost: str
    value: float
    score: float
    standard_error: float | None
    standing: Standing
    ahead: str | None
    """Of one that is behind: who costs no more and is shown to be better by most."""


@dataclass(frozen=True, kw_only=True)
class EqualCosts:
    """All of it; empty where no variant has levels of different budgets."""

    benchmark: Benchmark | None = None
    """The outcome: held-out loss, where there is one."""
    answers: tuple[EqualAnswer, ...] = ()
    points: tuple[CostPoint, ...] = ()

    def standing(self, family: Family, level: Level, cost: str) -> CostPoint | None:
        """Find a level's place; None where its cost is not known."""
        wanted = (family, level, cost)
        return next((x for x in self.points if (x.family, x.variant, x.cost) == wanted), None)


def without_budget(level: Level) -> str:
    """Name the variant that levels with different budgets are of."""
    return " ".join(word for word in str(level).split() if not word.startswith(BUDGET))


def analyse_costs(findings: Findings, facts: Sequence[RunFacts]) -> EqualCosts:
    """Compare every variant with the baseline at equal width, parameters and FLOPs.

    Args:
        findings: Every comparison with the baseline.
        facts: What run folders tell.
    """
    groups: dict[str, list[Level]] = {}
    for level in findings.others:
        groups.setdefault(without_budget(level), []).append(level)
    arms: dict[tuple[Family, Level], list[RunFacts]] = {}
    for run in facts:
        arms.setdefault((run.family, run.variant), []).append(run)
    if not arms or all(len(levels) < 2 for levels in groups.values()):
        return EqualCosts()
    held_out = Benchmark(HELD_OUT)
    benchmark = held_out if held_out in findings.benchmarks else findings.benchmarks[0]
    return EqualCosts(
        benchmark=benchmark,
        answers=tuple(_answers(findings, benchmark, groups, arms)),
        points=tuple(_points(findings, benchmark, arms)),
    )


Arms = Mapping[tuple[Family, Level], Sequence[RunFacts]]


def _answers(
    findings: Findings, benchmark: Benchmark, groups: Mapping[str, Sequence[Level]], arms: Arms
) -> Iterator[EqualAnswer]:
    for variant, levels in groups.items():
        for scope in findings.scopes(benchmark):
            of_scope = {c.contrast.plus[0]: c for c in findings.of(benchmark, scope)}
            for question in QUESTIONS:
                for level, ratio in _matched(question, levels, of_scope, findings.baseline, arms):
                    yield EqualAnswer(
                        variant=variant,
                        question=question,
                        level=level,
                        ratio=ratio,
                        comparison=of_scope[level],
                    )
                    break


def _matched(
    question: Question,
    levels: Sequence[Level],
    comparisons: Mapping[Level, Comparison],
    baseline: Level,
    arms: Arms,
) -> Iterator[tuple[Level, float]]:
    """Levels that are equal to the baseline in every family, those whose budget says so first."""
    found = []
    for level in levels:
        families = comparisons[level].families if level in comparisons else ()
        pairs = [(arms.get((f, level)), arms.get((f, baseline))) for f in families]
        ratios = [_ratio(question, own[0], base[0]) for own, base in pairs if own and base]
        known = [ratio for ratio in ratios if ratio is not None]
        budgets = {own[0].ffn_budget for own, _ in pairs if own}
        is_meant = budgets == {BUDGET_OF[question]} and question != "width"
        if known and len(known) == len(pairs) and (is_meant or max(abs(x - 1) for x in known) <= TOLERANCE):
            found.append((not is_meant, level, float(np.mean(known))))
    for _, level, ratio in sorted(found, key=lambda x: x[0]):
        yield level, ratio


def _ratio(question: Question, own: RunFacts, base: RunFacts) -> float | None:
    field = {"width": "intermediate_size", "parameters": "num_parameters", "FLOPs": "flops_per_token"}[
        question
    ]
    ours, theirs = getattr(own, field), getattr(base, field)
    return ours / theirs if ours and theirs else None


def _points(findings: Findings, benchmark: Benchmark, arms: Arms) -> Iterator[CostPoint]:
    table = findings.tables[benchmark]
    for family in findings.families:
        for cost, read in COSTS.items():
            values: dict[Level, float] = {}
            for level in findings.variants:
                known = [x for run in arms.get((family, level), ()) if (x := read(run)) is not None]
                if known and len(table.runs.get((family, level), ())):
                    values[level] = float(np.mean(known))
            if len(values) > 1:
                yield from _standings(table, family, cost, values, findings.inference.level)


def _standings(
    table: ArmTable, family: Family, cost: str, values: Mapping[Level, float], level: float
) -> Iterator[CostPoint]:
    """Place every level among those of its family."""
    runs = {name: table.runs[family, name].to_numpy(dtype=float) for name in values}
    choices = {name: table.choices.get((family, name), NO_CHOICE) for name in values}
    for name, value in values.items():
        no_dearer = [x for x in values if x != name and values[x] <= value * (1 + TOLERANCE)]
        gains = {x: (runs[x].mean() - runs[name].mean()) * table.outcome.sign for x in no_dearer}
        better = {x: gain for x, gain in gains.items() if gain > 0}
        ahead = [
            x
            for x in better
            if _p((runs[x], runs[name]), (choices[x], choices[name])) * len(no_dearer) < level
        ]
        standing: Standing = "behind" if ahead else "not told from it" if better else "on the frontier"
        yield CostPoint(
            family=family,
            variant=name,
            cost=cost,
            value=value,
            score=float(runs[name].mean()),
            standard_error=_standard_error(runs[name]),
            standing=standing,
            ahead=str(max(ahead, key=better.__getitem__)) if ahead else None,
        )


def _p(arms: tuple[np.ndarray, np.ndarray], choices: tuple[Selection, Selection]) -> float:
    """Welch's p; 1 where a single run leaves no test, or no run any spread."""
    if min(map(len, arms)) < 2:
        return 1.0
    means, variances, counts = np.array([(x.mean(), x.var(ddof=1), len(x)) for x in arms]).T
    added, added_df = np.array(choices).T
    found = welch(means, variances, counts, [1.0, -1.0], added=added, added_df=added_df)
    return float(np.nan_to_num(found.p, nan=1.0))


def _standard_error(runs: np.ndarray) -> float | None:
    return float(runs.std(ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else None
