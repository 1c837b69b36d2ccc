"""Claims of published sources beside what own runs say of them, each with its verdict.

A claim is about the sign of a difference, or that there is none. Own runs reproduce it if they show the same,
contradict it if they show the opposite (of "no difference": a difference that is not negligible; of a
difference: equivalence), and else cannot tell. Nothing rests on how near two numbers are, as levels and
effects depend on size, data and recipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from scipy import stats

from report.analysis import Analysis
from report.document.markdown import signed
from report.request import Request
from report.significance.comparison import AT_CHANCE, DIFFERENT, EQUIVALENT, NEGLIGIBLE, Comparison
from scores.published import Answer, Claim, Verdict, read_published, read_source_file, read_table

FEWEST_PAIRS = 3
"""Of models and data sets, that an interval over them is made of."""


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
        ends = "" if self.low is None else f" [{signed(self.low, self.digits)}, {signed(self.high, self.digits)}]"
        return ", ".join(filter(None, (f"{signed(self.estimate, self.digits)}{ends} {self.unit}", self.verdict)))


def judge(claim: Claim, effect: Effect | None) -> Verdict:
    """Say whether an effect reproduces a claim."""
    if effect is None or claim.says is None:
        return "not run here" if effect is None else "cannot tell"
    if claim.says == "at chance":
        return "reproduces" if effect.verdict == AT_CHANCE else "cannot tell"
    if effect.verdict in (EQUIVALENT, *NEGLIGIBLE) and claim.says == "equal":
        return "reproduces"
    if effect.verdict in (EQUIVALENT, *DIFFERENT, *NEGLIGIBLE):
        return "reproduces" if effect.verdict.startswith(claim.says) else "contradicts"
    return "cannot tell"


def find_effect(analysis: Analysis, contrast: str, outcome: str, family: str | None = None) -> Effect | None:
    """Return what an analysis says of a contrast on an outcome; None if it says nothing.

    Args:
        analysis: Of one study or table.
        contrast: Its levels, ``a+b - c+d``.
        outcome: As the report names it.
        family: One of several; None takes the average over them.
    """
    asked = [frozenset(side.split("+")) for side in contrast.split(" - ")]
    for comparison in (*analysis.contrasts, *analysis.comparisons):
        benchmark = comparison.benchmark
        if str(benchmark) != outcome or comparison.family != (family or analysis.scopes(benchmark)[0]):
            continue
        sides = [frozenset(map(str, side)) for side in (comparison.contrast.plus, comparison.contrast.minus)]
        if comparison.estimate is not None and sides in (asked, asked[::-1]):
            return _effect(comparison, 1 if sides == asked else -1)
    return None


def _effect(comparison: Comparison, sign: int) -> Effect:
    ends = sorted(sign * x for x in comparison.interval or ()) or [None, None]
    turned = {"better": "worse", "worse": "better"}
    words = comparison.verdict.split()
    if sign < 0:
        words = [turned.get(word, word) for word in words]
    counts = f"{comparison.num_runs_plus} and {comparison.num_runs_minus} runs"
    unit = "points" if comparison.metric.is_percentage else str(comparison.unit)
    return Effect(sign * comparison.estimate, *ends, " ".join(words), counts, unit, comparison.digits)


@lru_cache
def analysis_of_published(source: str, table: str) -> Analysis:
    """Judge the single runs that a source published by this project's rule, all of its claims together."""
    from report.compute import analyse  # which imports every part of a report, this one too
    from report.inputs.sources import read_source

    names = set(read_table(source, table)["variant"])
    contrasts = (claim.contrast for claim in read_source_file(source).claims)
    known = [each for each in contrasts if each and names >= set(each.replace(" - ", "+").split("+"))]
    request = Request(contrast=tuple(dict.fromkeys(known)))
    return analyse(read_source(Path(f"{source}:{table}")), request)


def published_effect(source: str, claim: Claim) -> Effect | None:
    """Return the difference that a source's shipped scores come to.

    Where single runs are published it is by this project's rule; else the mean over pairs of a model and a
    data set, with an interval over the pairs: what the source printed of each is one number.
    """
    if not claim.contrast or not claim.rows:
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
    interval = (None, None)
    if len(differences) >= FEWEST_PAIRS:
        interval = stats.t.interval(0.95, len(differences) - 1, differences.mean(), stats.sem(differences))
    unit = "nats" if set(rows["metric"]) == {"held_out_loss"} else "points"
    return Effect(float(differences.mean()), *interval, "", f"{len(differences)} pair{'s' * (len(differences) > 1)}", unit)


Record = dict[str, Any]


def records(source: str, analyses: Mapping[str, Analysis]) -> list[Record]:
    """Return every claim of a source, once for each study and outcome that answers it.

    Args:
        source: Its name.
        analyses: Of own runs, by study.

    Returns:
        Fields claim, where, printed, published and rule (what its own runs come to by this project's rule),
        study, outcome, own, verdict and command. What stands in own and published is told in words.
    """
    return [record for claim in read_source_file(source).claims for record in _records(source, claim, analyses)]


def _records(source: str, claim: Claim, analyses: Mapping[str, Analysis]) -> Iterable[Record]:
    published = published_effect(source, claim)
    told: Record = {"claim": claim.claim, "where": claim.where, "printed": claim.printed}
    told |= {"published": f"{published} ({published.basis})" if published else ""}
    told |= {"rule": judge(claim, published) if published and published.verdict else ""}
    for answer in claim.answers:
        for outcome in answer.outcomes:
            effect = _asked(answer, claim, outcome, analyses)
            yield told | {
                "study": answer.study,
                "outcome": outcome,
                "own": str(effect or ""),
                "verdict": judge(claim, effect),
                "command": answer.command or f"ffn-ablations study run {answer.study}",
            }
    if recorded := claim.recorded:
        place = {"study": "", "outcome": "", "own": recorded.text}
        yield told | place | {"verdict": recorded.verdict, "command": recorded.command}


def claims_of(source: str, analysis: Analysis) -> list[Record]:
    """Return the claims that one analysis answers, whatever its study is called, each once for an outcome."""
    answers = (answer for claim in read_source_file(source).claims for answer in claim.answers)
    every = records(source, dict.fromkeys((answer.study for answer in answers), analysis))
    return list({(x["claim"], x["outcome"]): x for x in every if x["study"] and x["own"]}.values())


def _asked(answer: Answer, claim: Claim, outcome: str, analyses: Mapping[str, Analysis]) -> Effect | None:
    if answer.study not in analyses:
        return None
    return find_effect(analyses[answer.study], answer.contrast or claim.contrast, outcome)
