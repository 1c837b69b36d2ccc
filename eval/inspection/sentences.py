"""The three sentences that a reader can take away, each with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.inspection.findings import DIFFERS, EQUAL, EXCESSES, RESETS, STEADINESS
from eval.report.document.markdown import listed, signed
from eval.report.document.names import family_label
from eval.results.inspection import Finding, RunInspection

OF_ITS_EDGES = " without the less active half of its edges"
WANTED = 3
MOST_DIGITS = 7
NAMED = 3
"""Variants in a sentence; of more, those where most is to be seen."""


def three_sentences(runs: Sequence[RunInspection], findings: Sequence[Finding]) -> list[str]:
    """Answer the page's questions in their order, each that can be asked of these runs, three of them."""
    asked = (
        _of_activations(findings),
        _of_edges(runs, findings),
        _of_pruning(runs, findings),
        _of_stability(findings),
    )
    return [sentence for sentence in asked if sentence][:WANTED]


def name_of(finding: Finding, findings: Sequence[Finding]) -> str:
    """What a finding is of: the variant, with its family where these findings are of several."""
    several = len({x.family for x in findings}) > 1
    return f"`{finding.variant}`" + (f" ({family_label(finding.family)})" if several else "")


def _first(findings: Sequence[Finding]) -> tuple[list[Finding], str]:
    """Those that a sentence names, the largest differences first, and how many more there are."""
    ordered = sorted(findings, key=lambda x: -abs(x.estimate))
    more = len(ordered) - NAMED
    return ordered[:NAMED], f"; and {more} more below" if more > 0 else ""


def written(finding: Finding) -> str:
    """Write the interval of a finding; a dash without one."""
    if finding.low is None or finding.high is None:
        return "-"
    digits = enough_digits(finding, 4)
    return f"[{signed(finding.low, digits)}, {signed(finding.high, digits)}]"


def enough_digits(finding: Finding, digits: int) -> int:
    """So many decimals, or more where an interval beside zero would seem to reach it by rounding."""
    ends = [abs(end) for end in (finding.low, finding.high) if end]
    if finding.verdict != DIFFERS or not ends:
        return digits
    while digits < MOST_DIGITS and round(min(ends), digits) == 0:
        digits += 1
    return digits


def _told(finding: Finding, digits: int = 3) -> str:
    """``+0.123 [+0.100, +0.146] nats``."""
    unit = f" {finding.unit}" if finding.unit else ""
    if finding.low is None or finding.high is None:
        return f"{signed(finding.estimate, digits)}{unit} (no interval: {_why_none(finding)})"
    digits = enough_digits(finding, digits)
    ends = f"[{signed(finding.low, digits)}, {signed(finding.high, digits)}]"
    return f"{signed(finding.estimate, digits)} {ends}{unit}"


def _why_none(finding: Finding) -> str:
    return "one run" if finding.runs < 2 else "no spread over runs"


def _of_activations(findings: Sequence[Finding]) -> str:
    found = [x for x in findings if x.question == "activations" and x.name == RESETS["refitted"]]
    if not found:
        return ""
    used = [x for x in found if x.verdict == DIFFERS and x.estimate > 0]
    others = [x for x in found if x not in used]
    asked = "giving its start back, with the next layer refitted, costs"
    if not used:
        return f"No learned activation is shown to be needed: {asked} {_costs(others, found)}."
    names = listed([name_of(x, found) for x in used])
    rest = f"; of {listed([name_of(x, found) for x in others])} that is not shown" if others else ""
    return (
        f"What {names} learned is used, and refitting the next layer does not replace it: {asked} "
        f"{_costs(used, found)}{rest}."
    )


def _costs(findings: Sequence[Finding], found: Sequence[Finding]) -> str:
    """What each activation loses without what it learned, most first."""
    named, more = _first(findings)
    told = [f"{'nothing' if x.verdict == EQUAL else _told(x, 4)} in {name_of(x, found)}" for x in named]
    return listed(told) + more


def _of_edges(runs: Sequence[RunInspection], findings: Sequence[Finding]) -> str:
    found = [x for x in findings if x.question == "edges" and x.name == EXCESSES["dimension"][0]]
    if not found:
        return ""
    shown = [x for x in found if x.verdict == DIFFERS]
    others = [x for x in found if x not in shown]
    what = "how many shapes the edges have"
    if not shown:
        lead = f"Training is not shown to have changed {what} beyond what random functions show"
        return f"{lead}: the difference is {_shapes(runs, others, found)}."
    rest = f"; of {listed([name_of(x, found) for x in others])} that is not shown" if others else ""
    return (
        f"Beyond what random functions show, training changed {what} by {_shapes(runs, shown, found)}{rest}."
    )


def _shapes(runs: Sequence[RunInspection], findings: Sequence[Finding], found: Sequence[Finding]) -> str:
    """What training changed the number of shapes by, with that number and its algebraic bound."""
    named, more = _first(findings)
    parts = []
    for finding in named:
        own = [x for x in runs if (x.family, x.variant) == (finding.family, finding.variant)]
        trained = float(np.mean([run.summaries["edges dimension"]["trained"] for run in own]))
        bound = max(layer.bound for run in own for layer in run.edges)
        parts.append(
            f"{_told(finding, 2)} in {name_of(finding, found)} ({trained:.2f} of the {bound} that its basis "
            "allows)"
        )
    return f"{listed(parts)}{more}"


def _of_pruning(runs: Sequence[RunInspection], findings: Sequence[Finding]) -> str:
    found = [x for x in findings if x.question == "pruning" and x.control.endswith(OF_ITS_EDGES)]
    if not found:
        return ""
    special = [x for x in found if x.verdict == DIFFERS and x.estimate < 0 and _is_graceful(runs, x)]
    named, more = _first(found)
    lead = "Graceful pruning is not shown to be special to KANs"
    if special:
        lead = f"Graceful pruning is special to {listed([name_of(x, found) for x in special])}"
    parts = "; ".join(_pruned(runs, x, found) for x in named)
    return f"{lead}: the less active half of its edges costs {parts}{more}."


def _worth(runs: Sequence[RunInspection], family: str, variant: str) -> float:
    """Nats that all edges of a variant's FFNs are worth, the mean over its runs."""
    curves = [
        curve
        for run in runs
        if (run.family, run.variant) == (family, variant)
        for curve in run.pruning
        if (curve.what, curve.order) == ("edges", "activity")
    ]
    return float(np.mean([curve.loss[-1] - curve.loss[0] for curve in curves]))


def _is_graceful(runs: Sequence[RunInspection], x: Finding) -> bool:
    """Whether it loses less of what its edges are worth, too: an FFN that does nothing costs nothing."""
    own, other = (
        _worth(runs, x.family, variant) for variant in (x.variant, x.control.removesuffix(OF_ITS_EDGES))
    )
    return own > 0 and other > 0 and x.mean / own < x.control_mean / other


def _pruned(runs: Sequence[RunInspection], x: Finding, found: Sequence[Finding]) -> str:
    other = x.control.removesuffix(OF_ITS_EDGES)
    own = [run.ffn_parameters for run in runs if run.family == x.family and run.variant in (x.variant, other)]
    worth = _worth(runs, x.family, x.variant)
    near = " of as many parameters" if max(own) <= 1.05 * min(own) else ""
    cost = (
        f"{name_of(x, found)} {x.mean:.3f} of the {worth:.2f} nats that all are worth, a difference to "
        f"`{other}`{near} of {_told(x)}"
    )
    return cost if x.verdict == DIFFERS else f"{cost}, which is not shown"


def _of_stability(findings: Sequence[Finding]) -> str:
    name = STEADINESS["gradient_spread"][0]
    found = [x for x in findings if x.question == "stability" and x.name == name]
    if not found:
        return ""
    most = max(found, key=lambda x: x.estimate)
    shown = [x for x in found if x.verdict == DIFFERS]
    what = f"the largest difference is that of {name_of(most, found)} to `{most.control}`: {_told(most)}"
    if not shown:
        return f"No variant's gradient norms are shown to vary otherwise than the baseline's; {what}."
    names = listed([name_of(x, found) for x in shown])
    return f"The gradient norms of {names} vary otherwise than the baseline's; {what}."
