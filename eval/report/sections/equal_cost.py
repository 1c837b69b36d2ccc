"""Equal what: every variant at equal width, parameters, FLOPs and time, and the frontier of loss and cost."""

from __future__ import annotations

from collections.abc import Sequence

from eval.report.analysis import Analysis
from eval.report.curves.equal_cost import COSTS, QUESTIONS, TOLERANCE, CostPoint, EqualTime, Question
from eval.report.document.markdown import anchor, details, listed, table
from eval.report.document.names import family_label, title
from eval.report.sections.context import Context
from eval.report.sections.verdicts import verdict_words
from eval.significance.axes import Family

TIME = "time"


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
    has_times = bool(found.times)
    header = [analysis.noun, *(f"at equal {question}" for question in QUESTIONS)]
    header += [f"at equal {TIME}"] if has_times else []
    rows = []
    for variant in variants:
        cells = [_answer_cell(analysis, variant, question, scope) for question in QUESTIONS]
        cells += [_time_cell(analysis, variant, scope)] if has_times else []
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


def _time_cell(analysis: Analysis, variant: str, scope: Family | None) -> str:
    own = [x for x in analysis.costs.times if x.variant == variant]
    if scope is None and len(analysis.families) > 1:
        return _time_in_families(own, len(analysis.families))
    family = analysis.families[0] if scope is None else scope
    return next(
        ("<br>".join([*_time_words(x), f"`{x.level}`"]) for x in own if x.speed.family == family), "-"
    )


def _time_in_families(own: Sequence[EqualTime], families: int) -> str:
    """Count verdicts where losses of several families have no common scale."""
    words = [_time_words(x)[0].strip("*") for x in own]
    counts = [f"{word} in {words.count(word)}" for word in dict.fromkeys(words)]
    return f"{', '.join(counts)} of {families}" if counts else "-"


def _time_words(found: EqualTime) -> list[str]:
    speed = found.speed
    low, high = speed.difference_low, speed.difference_high
    shown = f"{speed.difference:+.3f}"
    if low is None or high is None:
        return ["not tested", shown]
    word = "**worse**" if low > 0 else "**better**" if high < 0 else "inconclusive"
    return [word, shown, f"[{low:+.3f}, {high:+.3f}]"]


def _text(analysis: Analysis) -> str:
    found = analysis.costs
    assert found.benchmark is not None
    link = anchor(f"Differences to `{analysis.baseline}`")
    said = (
        f"Differences to `{analysis.baseline}` on {title(found.benchmark)}, with the verdicts and intervals "
        f"of [all differences](#{link}). Below each stands the level that is equal: its FFN was given its "
        f"width by that budget, or it lies within {TOLERANCE:.0%} of `{analysis.baseline}` as it is. A dash: "
        "no level of this study is."
    )
    if found.times:
        said += (
            " *At equal time*: the losses, in nats, of both learning curves after as many hours of training "
            "as the faster of the two took in all, by Welch's interval at "
            f"{analysis.confidence:.0%} without correction. The slower one is then read in mid-training, "
            "before its learning rate has come down, which counts against it. A width that takes as long as "
            "the baseline cannot be solved for beforehand, as hours depend on kernels and on the machine; "
            "these are those of the machines that it ran on."
        )
    return said


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
