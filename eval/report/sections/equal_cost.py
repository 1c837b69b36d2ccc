"""Equal what: every variant at equal width, parameters and FLOPs, and the frontier of loss and cost."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.report.curves.equal_cost import COSTS, QUESTIONS, TOLERANCE, CostPoint, Question
from eval.report.document.markdown import anchor, details, listed, table
from eval.report.document.names import family_label, title
from eval.report.sections.context import Context
from eval.report.sections.verdicts import verdict_words
from eval.significance.axes import Family


def equal_cost_section(analysis: Analysis, context: Context) -> str:
    """Table, figure and frontier; empty where no variant has levels of different budgets."""
    found = analysis.costs
    if found.benchmark is None:
        return ""
    scopes = analysis.scopes(found.benchmark)
    parts = ["## Equal what?", _table(analysis, scopes[0]), _text(analysis), context.figure("cost")]
    parts += [_frontier(analysis)]
    parts += [details(f"In {family_label(family)}", _table(analysis, family)) for family in scopes[1:]]
    return "\n\n".join(part for part in parts if part)


def _table(analysis: Analysis, scope: Family | None) -> str:
    """One line a variant, one column a question."""
    found = analysis.costs
    variants = list(dict.fromkeys(x.variant for x in found.answers))
    header = [analysis.noun, *(f"at equal {question}" for question in QUESTIONS)]
    rows = []
    for variant in variants:
        cells = [_answer_cell(analysis, variant, question, scope) for question in QUESTIONS]
        rows.append([f"`{variant}`", *cells])
    return table(header, rows)


def _answer_cell(analysis: Analysis, variant: str, question: Question, scope: Family | None) -> str:
    wanted = (variant, question, scope)
    for x in analysis.costs.answers:
        if (x.variant, x.question, x.comparison.family) == wanted:
            lines = [*verdict_words(x.comparison), f"`{x.level}`"]
            if abs(x.ratio - 1) > TOLERANCE:  # a width is a whole number, so that a match may be rough
                lines.append(f"*{100 * (x.ratio - 1):+.1f}%*")
            return "<br>".join(lines)
    return "-"


def _text(analysis: Analysis) -> str:
    found = analysis.costs
    assert found.benchmark is not None
    link = anchor(f"Differences to `{analysis.baseline}`")
    return (
        f"Differences to `{analysis.baseline}` on {title(found.benchmark)}, with the verdicts and intervals "
        f"of [all differences](#{link}). Below each stands the level that is equal: its FFN was given its "
        f"width by that budget, or it lies within {TOLERANCE:.0%} of `{analysis.baseline}` as it is. A dash: "
        "no level of this study is."
    )


def _frontier(analysis: Analysis) -> str:
    """Who is on the frontier of each cost, and who is shown to be behind it."""
    points = analysis.costs.points
    costs = [cost for cost in COSTS if any(x.cost == cost for x in points)]
    if not costs:
        return ""
    rows = [
        [*([family_label(family)] if len(analysis.families) > 1 else []), f"`{level}`", *map(_standing, own)]
        for family in analysis.families
        for level in analysis.variants
        if any(own := [analysis.costs.standing(family, level, cost) for cost in costs])
    ]
    header = [*(["family"] if len(analysis.families) > 1 else []), analysis.noun, *costs]
    text = (
        f"On the frontier: no other level costs as little, within {TOLERANCE:.0%}, and has a better mean. "
        "*Not told from it*: one has, but is not shown to be better. *Behind*: one that costs no more is "
        "shown to be better (Welch, corrected over all that cost no more); the best of those is named. "
        "Training FLOPs are three times those of the forward passes over all tokens."
    )
    return details(f"The frontier of {listed(costs)}", f"{table(header, rows)}\n\n{text}")


def _standing(point: CostPoint | None) -> str:
    if point is None:
        return "-"
    if point.ahead is not None:
        return f"behind `{point.ahead}`"
    return f"**{point.standing}**" if point.standing == "on the frontier" else point.standing
