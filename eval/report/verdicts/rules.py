"""Judging scores by the rule of a public leaderboard, beside what the runs themselves support."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from base.config_input import read_config
from base.errors import UsageError
from base.shipped import find_config
from eval.report.verdicts.findings import Findings
from eval.significance.axes import Benchmark, Family, Level
from eval.significance.comparison import Comparison
from eval.significance.statistics.one_sided import OneSided, one_sample, passes_again, two_sample
from eval.suites.spec import Better, Unit


class Rule(BaseModel):
    """The content of a file of ``--rules``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    """Of the leaderboard."""
    source: str = ""
    """Where the rule stands."""
    outcome: str | None = None
    """What is judged; left out, the only outcome of its unit and direction."""
    threshold: float | None = Field(default=None, allow_inf_nan=False)
    """What the mean is to be better than."""
    by: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """In its place: by how much the mean is to be better than that of the baseline."""
    better: Better = "higher"
    """Which scores are."""
    unit: Unit | None = None
    """Of threshold, ``by`` and scores."""
    level: float = Field(default=0.05, gt=0, lt=1)
    """Of the one-sided test: Student's of the runs against the threshold, Welch's against the baseline."""
    min_runs: int = Field(default=2, ge=2)
    """Runs that a submission must have."""

    @model_validator(mode="after")
    def _check(self) -> Rule:
        if (self.threshold is None) == (self.by is None):
            raise ValueError("a rule has either threshold (what the mean beats) or by (how far the baseline)")
        return self


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One variant judged by a rule.

    Attributes:
        family: In which it was trained.
        variant: Which one.
        num_runs: How many there are.
        mean: Of their scores.
        sd: Over them; nan of one.
        test: That the mean is better than what is asked for, signs such that above zero is better.
        passes: Whether the rule is met.
        again: How often as many new runs would meet it, if what was seen were the truth.
        supported: What the report says of the variant against the baseline; None of the baseline itself.
    """

    family: Family
    variant: Level
    num_runs: int
    mean: float
    sd: float
    test: OneSided
    passes: bool
    again: float
    supported: Comparison | None


@dataclass(frozen=True, kw_only=True)
class ByRule:
    """What a rule makes of a report's scores."""

    rule: Rule
    benchmark: Benchmark
    judged: tuple[Judged, ...]

    @property
    def false_passes(self) -> float:
        """How often one or more pass, if each is exactly at what is asked for; too few runs never do."""
        return 1 - (1 - self.rule.level) ** sum(x.num_runs >= self.rule.min_runs for x in self.judged)


def read_rule(path: Path) -> Rule:
    """Read a rule: a file, or the name of a shipped one.

    Raises:
        UsageError: If there is none, or a value in it does not fit.
    """
    return read_config(find_config(path, "rule"), Rule)


def judge(findings: Findings, runs: Any, rule: Rule) -> ByRule:
    """Judge every variant by a rule.

    Args:
        findings: What the report finds, which stands beside it.
        runs: One row a run: family, variant, benchmark, score.
        rule: The rule.

    Raises:
        UsageError: If no outcome, or more than one, is of the rule's kind.
    """
    benchmark = _outcome(findings, rule)
    sign = 1.0 if rule.better == "higher" else -1.0
    judged = []
    for family in findings.families:
        scores = {
            variant: runs.score[
                (runs.benchmark == benchmark) & (runs.family == family) & (runs.variant == variant)
            ].to_numpy(float)
            for variant in findings.variants
        }
        base = scores[findings.baseline]
        for variant, values in scores.items():
            if not len(values) or (rule.by is not None and variant == findings.baseline):
                continue
            test = (
                one_sample(sign * values, sign * rule.threshold)
                if rule.threshold is not None
                else two_sample(sign * values, sign * base, rule.by or 0.0)
            )
            judged.append(
                Judged(
                    family=family,
                    variant=variant,
                    num_runs=len(values),
                    mean=float(values.mean()),
                    sd=float(np.std(values, ddof=1)) if len(values) > 1 else float("nan"),
                    test=test,
                    passes=len(values) >= rule.min_runs and test.p < rule.level,
                    again=passes_again(test, rule.level),
                    supported=_supported(findings, benchmark, family, variant),
                )
            )
    return ByRule(rule=rule, benchmark=benchmark, judged=tuple(judged))


def _supported(findings: Findings, benchmark: Benchmark, family: Family, variant: Level) -> Comparison | None:
    found = findings.of(benchmark, family)
    return next((c for c in found if c.contrast.compared == variant), None)


def _outcome(findings: Findings, rule: Rule) -> Benchmark:
    """Find what the rule is about."""
    named = {str(name): name for name in findings.benchmarks}
    if rule.outcome is not None:
        if rule.outcome not in named:
            raise UsageError(
                f"the rule of {rule.name} is about {rule.outcome}, which is no outcome here; there are: "
                f"{', '.join(named)}"
            )
        fitting = [named[rule.outcome]]
    else:
        fitting = [
            name
            for name, table in findings.tables.items()
            if table.outcome.better == rule.better and table.outcome.unit in (rule.unit, None)
        ]
    if len(fitting) != 1:
        kind = f"{rule.better} is better" + (f", in {rule.unit}" if rule.unit else "")
        found = ", ".join(map(str, fitting)) or ", ".join(named)
        what = "none of these is" if not fitting else "more than one outcome is"
        raise UsageError(
            f"the rule of {rule.name} is about one outcome ({kind}), and {what}: {found}; name it in the "
            "file (outcome: NAME)"
        )
    unit = findings.tables[fitting[0]].outcome.unit
    if rule.unit is not None and unit not in (rule.unit, None):
        raise UsageError(f"the rule of {rule.name} is in {rule.unit}, and {fitting[0]} is in {unit}")
    return fitting[0]
