"""What the rule of a public leaderboard makes of the scores, and what the runs themselves support."""

from __future__ import annotations

import math

from eval.report.analysis import Analysis
from eval.report.document.markdown import difference, interval, spread, table
from eval.report.document.names import family_label, title
from eval.report.verdicts.rules import ByRule, Judged, Rule


def rules_section(analysis: Analysis) -> str:
    """A row for each variant: passed or not, how surely again, and its verdict in this report."""
    if (found := analysis.by_rule) is None:
        return ""
    header = [analysis.stratum, analysis.noun, "runs", "mean", "p by the rule", "passes", "would again",
              f"this report, against `{analysis.baseline}`"]  # fmt: skip
    digits = _digits(found)
    rows = [_row(x, digits) for x in found.judged]
    return "\n\n".join(
        [
            f"## By the rule of {found.rule.name}",
            f"{_asked(found.rule, analysis)} {_multiplicity(found)}",
            table(header, rows),
            "A rule asks whether a bar is passed. It does not ask whether one variant is better than "
            "another, nor how many were tried. *Would again*: how often as many new runs would pass, if the "
            "mean and spread seen were the true ones; of a result that just passes about half. The last "
            "column is what these runs support, corrected as everything in this report.",
        ]
    )


def _asked(rule: Rule, analysis: Analysis) -> str:
    name = title(analysis.by_rule.benchmark) if analysis.by_rule else ""
    unit = f" {rule.unit}" if rule.unit else ""
    side = "at most" if rule.better == "lower" else "at least"
    if rule.threshold is not None:
        what = f"a mean {name} of {side} {rule.threshold:g}{unit}, by Student's t of its runs"
    else:
        word = "below" if rule.better == "lower" else "above"
        what = f"a mean {name} {rule.by:g}{unit} {word} that of `{analysis.baseline}`, by Welch's t"
    source = f" ([source]({rule.source}))" if rule.source else ""
    return f"Asked for{source}: {what}, one-sided, p < {rule.level:g}, with {rule.min_runs} runs or more."


def _multiplicity(found: ByRule) -> str:
    passed, tried = sum(x.passes for x in found.judged), len(found.judged)
    said = f"{passed} of {tried} pass."
    if tried > 1:
        said += (
            f" If all of them were exactly at what is asked for, one or more would pass in "
            f"{100 * found.false_passes:.0f}% of studies like this."
        )
    return said


def _row(x: Judged, digits: int) -> list[str]:
    p = "-" if math.isnan(x.test.p) else f"{x.test.p:.4f}" if x.test.p >= 1e-4 else f"{x.test.p:.1e}"
    again = "-" if math.isnan(x.again) else f"{100 * x.again:.0f}%"
    supported = "-" if x.supported is None else f"{x.supported.verdict}: {difference(x.supported)}"
    if x.supported is not None and x.supported.interval is not None:
        supported += f" {interval(x.supported)}"
    return [
        family_label(x.family),
        f"`{x.variant}`",
        str(x.num_runs),
        f"{x.mean:.{digits}f}{spread(x.sd, digits)}",
        p,
        "yes" if x.passes else "no",
        again,
        supported,
    ]


def _digits(found: ByRule) -> int:
    """As many decimals as the spread over runs allows, two of it."""
    spreads = [x.sd for x in found.judged if x.sd > 0]
    return max(1, 1 - math.floor(math.log10(min(spreads)))) if spreads else 2
