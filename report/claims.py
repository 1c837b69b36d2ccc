"""Claims of published sources beside what own runs say of them, each with its verdict.

A claim is about the sign of a difference, or that there is none. Own runs reproduce it if they show the same,
contradict it if they show the opposite (of "no difference": a difference that is not negligible; of a
difference: equivalence), and else cannot tell. Nothing rests on how near two numbers are, as levels and
effects depend on size, data and recipe.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from scipy import special

from report.analysis import Analysis
from report.document.markdown import signed
from report.request import Request
from report.significance.comparison import AT_CHANCE, DIFFERENT, EQUIVALENT, NEGLIGIBLE
from scores.published import Claim, Verdict, read_published, read_source_file, read_table

Record = dict[str, Any]
_TURNED = {"better": "worse", "worse": "better"}


class Effect(NamedTuple):
    """A difference, in the unit of the scores."""

    estimate: float
    low: float | None
    high: float | None
    verdict: str
    """By this project's rule; empty where no single runs are known."""
    basis: str
    """How many runs or pairs it is of."""
    unit: str = "points"
    digits: int = 2

    def __str__(self) -> str:
        middle, low, high = (signed(x, self.digits) for x in self[:3])
        ends = "" if self.low is None else f" [{low}, {high}]"
        return f"{middle}{ends} {self.unit}{', ' * bool(self.verdict)}{self.verdict}"


def judge(claim: Claim, effect: Effect | None) -> Verdict:
    """Say whether an effect reproduces a claim."""
    if effect is None:
        return "not run here"
    as_said = (EQUIVALENT, *NEGLIGIBLE) if claim.says == "equal" else (claim.says,)
    if effect.verdict in as_said:
        return "reproduces"
    if claim.says == AT_CHANCE or effect.verdict not in (EQUIVALENT, *DIFFERENT, *NEGLIGIBLE):
        return "cannot tell"
    return "reproduces" if effect.verdict.startswith(str(claim.says)) else "contradicts"


def find_effect(analysis: Analysis, contrast: str, outcome: str, family: str | None = None) -> Effect | None:
    """Return what an analysis says of a contrast on an outcome; None if it says nothing.

    Args:
        analysis: Of one study or table.
        contrast: Its levels, ``a+b - c+d``; it may have been asked the other way round.
        outcome: As the report names it.
        family: One of several; None takes the average over them.
    """
    groups = [frozenset(side.split("+")) for side in contrast.split(" - ")]
    for c in (*analysis.contrasts, *analysis.comparisons):
        is_there = (str(c.benchmark), c.family) == (outcome, family or analysis.scopes(c.benchmark)[0])
        sides = [frozenset(map(str, side)) for side in (c.contrast.plus, c.contrast.minus)]
        if is_there and c.estimate is not None and sides in (groups, groups[::-1]):
            sign = 1 if sides == groups else -1
            low, high = sorted(sign * x for x in c.interval or ()) or (None, None)
            verdict = c.verdict if sign > 0 else re.sub("better|worse", lambda x: _TURNED[x[0]], c.verdict)
            unit = "points" if c.metric.is_percentage else str(c.unit)
            counts = f"{c.num_runs_plus} and {c.num_runs_minus} runs"
            return Effect(sign * c.estimate, low, high, verdict, counts, unit, c.digits)
    return None


@lru_cache
def analysis_of_published(source: str, table: str) -> Analysis:
    """Judge the single runs that a source published by this project's rule, all of its claims together."""
    # Not at the top: computing a report loads every part of it, and one imports this.
    compute, sources = map(importlib.import_module, ("report.compute", "report.inputs.sources"))
    variants = set(read_table(source, table)["variant"])
    contrasts = dict.fromkeys(claim.contrast for claim in read_source_file(source).claims if claim.contrast)
    present = tuple(each for each in contrasts if variants >= set(re.split(r" - |\+", each)))
    return compute.analyse(sources.read_source(Path(f"{source}:{table}")), Request(contrast=present))


def published_effect(source: str, claim: Claim) -> Effect | None:
    """Return the difference that a source's shipped scores come to; None where it has none.

    Where single runs are published it is by this project's rule; else the mean over pairs of a model and a
    data set, with an interval over the pairs: what the source printed of each is one number.
    """
    if not claim.rows:
        return None
    table = claim.rows.get("table", "")
    if table in read_source_file(source).runs:
        analysis, outcome = analysis_of_published(source, table), claim.rows["benchmark"]
        return find_effect(analysis, claim.contrast, outcome, claim.rows.get("family"))
    rows = read_table(source, table).assign(table=table) if table else read_published(source)
    for column, value in claim.rows.items():
        rows = rows[rows[column] == value]
    # The widths that FR-KAN's Table 4 prints are those of as many parameters.
    heads = rows["head"].str.replace(r"^mlp width=\d+", "mlp match=fourier-kan", regex=True)
    levels = heads.where(heads != "", rows["variant"])
    pairs = rows.assign(level=levels).pivot_table("score", ["family", "task", "metric"], "level")
    plus, minus = (pairs[side.split("+")].mean(axis=1, skipna=False) for side in claim.contrast.split(" - "))
    differences = (plus - minus).dropna()
    mean, num = float(differences.mean()), len(differences)
    # An interval over two pairs says nothing.
    half = float(special.stdtrit(num - 1, 0.975) * differences.sem())
    interval = (mean - half, mean + half) if num > 2 else (None, None)
    unit = "nats" if set(rows["metric"]) == {"held_out_loss"} else "points"
    return Effect(mean, *interval, "", f"{num} pair{'s' * (num > 1)}", unit)


def records(source: str, analyses: Mapping[str, Analysis]) -> list[Record]:
    """Return every claim of a source, once for each study and outcome that answers it.

    Args:
        source: Its name.
        analyses: Of own runs, by study.

    Returns:
        Fields claim, where, printed, published and rule (whether its own runs show it, by this project's
        rule), study, outcome, own, verdict and command. Published and own are told in words.
    """
    rows = []
    for claim in read_source_file(source).claims:
        effect = published_effect(source, claim)
        fields = {
            **claim.model_dump(include={"claim", "where", "printed"}),
            "published": f"{effect} ({effect.basis})" if effect else "",
            "rule": judge(claim, effect) if effect and effect.verdict else "",
        }
        for answer in claim.answers:
            for outcome in answer.outcomes or ("",):
                analysis, contrast = analyses.get(answer.study), answer.contrast or claim.contrast
                own = find_effect(analysis, contrast, outcome) if analysis else None
                command = answer.command or f"ffn-ablations study run {answer.study}"
                place = {"study": answer.study, "outcome": outcome, "command": command}
                words = {"own": answer.text or str(own or ""), "verdict": answer.verdict or judge(claim, own)}
                rows.append({**fields, **place, **words})
    return rows


def claims_of(source: str, analysis: Analysis) -> list[Record]:
    """Return the claims that one analysis answers, whatever its study is called, each once for an outcome."""
    studies = (answer.study for claim in read_source_file(source).claims for answer in claim.answers)
    every = records(source, dict.fromkeys(filter(None, studies), analysis))
    return list({(x["claim"], x["outcome"]): x for x in every if x["study"] and x["own"]}.values())
