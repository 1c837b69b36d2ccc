"""A Bayesian view of every outcome, folded away: it is in no verdict."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.report.document.markdown import details, margin, signed, table
from eval.report.verdicts.bayesian import Posterior
from eval.report.verdicts.findings import place
from eval.report.verdicts.standing import by_standing
from eval.significance.comparison import AT_CHANCE, Comparison


def bayesian_section(analysis: Analysis) -> str:
    """Median, interval and three probabilities for every variant on every outcome."""
    whole = [x for x in analysis.bayesian if x.part is None]
    if not whole:
        return ""
    order, others = by_standing(analysis), analysis.others
    whole = sorted(whole, key=lambda x: (order.index(x.benchmark), others.index(x.variant)))
    confidence = f"{analysis.confidence:.0%}"
    header = ["outcome", analysis.noun, "difference", f"{confidence} interval", "margin"]
    header += ["within the margin", "better by more", "worse by more"]
    beside = {(c.benchmark, c.contrast.plus[0]): c for name in order for c in analysis.overall(name)}
    rows = [[place(analysis, x.benchmark), *_cells(x, beside[x.benchmark, x.variant])] for x in whole]
    body = f"{_text(analysis, whole)}\n\n{table(header, rows)}"
    return f"## A Bayesian view\n\n{details('How probable it is that a difference matters', body)}"


def _text(analysis: Analysis, whole: list[Posterior]) -> str:
    noun, family = analysis.noun, analysis.strata if len(analysis.families) > 1 else "runs"
    parts = ", phenomena" if any(x.part is not None for x in analysis.bayesian) else ""
    said = [
        f"*In no verdict.* A hierarchical model of {noun}s, {family}{parts} and seeds, which pulls each "
        f"{noun} towards the others as far as the spread over seeds leaves room, says how probable it is "
        f"that the difference to `{analysis.baseline}` lies within the margin, or beyond it on either side.",
        f"Its prior takes {noun}s for alike: their effects have t's heavy tails; how large they are is "
        "half-t with 3 degrees of freedom and a scale of twice the standard deviation within arms.",
    ]
    if analysis.is_tuned:
        said.append("It is given the values that were tuned: what their choice leaves open is not in it.")
    if any(x.within is None for x in whole):
        said.append("Where no margin is named, *better* and *worse* are by anything at all.")
    if any(x.is_predicted for x in whole):
        said.append(
            f"*: a {analysis.stratum} has no run of this {noun} or of `{analysis.baseline}`; the others "
            "predict it."
        )
    return " ".join(said)


def _cells(x: Posterior, beside: Comparison) -> list[str]:
    low, high = signed(x.low, x.digits), signed(x.high, x.digits)
    # Two variants that guess are alike, too; that is not the likeness that is asked for.
    is_guessing = beside.verdict == AT_CHANCE
    return [
        f"`{x.variant}`{'*' if x.is_predicted else ''}",
        f"{signed(x.median, x.digits)}{'%' * beside.is_relative}",
        f"[{low}, {high}]",
        margin(beside),
        AT_CHANCE if is_guessing else "-" if x.within is None else probability(x.within),
        "-" if is_guessing else probability(x.better),
        "-" if is_guessing else probability(x.worse),
    ]


def probability(value: float) -> str:
    """Write a probability that was counted over some thousand draws."""
    if value < 0.005:
        return "<1%"
    return ">99%" if value > 0.995 else f"{value:.0%}"
