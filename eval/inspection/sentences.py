"""The three sentences that a reader can take away, each with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.inspection.findings import DIFFERS, EQUAL, EXCESSES, RESETS, STEADINESS
from eval.report.markdown import listed, signed
from eval.results.inspection import Finding, RunInspection

WANTED = 3


def three_sentences(runs: Sequence[RunInspection], findings: Sequence[Finding]) -> list[str]:
    """Answer the page's questions in their order, each that can be asked of these runs, three of them."""
    asked = (
        _of_activations(runs, findings),
        _of_edges(runs, findings),
        _of_pruning(runs, findings),
        _of_stability(findings),
    )
    return [sentence for sentence in asked if sentence][:WANTED]


def written(finding: Finding) -> str:
    """Write the interval of a finding; a dash without one."""
    if finding.low is None or finding.high is None:
        return "-"
    return f"[{signed(finding.low, 4)}, {signed(finding.high, 4)}]"


def _told(finding: Finding, digits: int = 3) -> str:
    """``+0.123 [+0.100, +0.146] nats``."""
    unit = f" {finding.unit}" if finding.unit else ""
    if finding.low is None or finding.high is None:
        return f"{signed(finding.estimate, digits)}{unit} (no interval: {_why_none(finding)})"
    ends = f"[{signed(finding.low, digits)}, {signed(finding.high, digits)}]"
    return f"{signed(finding.estimate, digits)} {ends}{unit}"


def _why_none(finding: Finding) -> str:
    return "one run" if finding.runs < 2 else "no spread over runs"


def _of_activations(runs: Sequence[RunInspection], findings: Sequence[Finding]) -> str:
    found = [x for x in findings if x.question == "activations" and x.name == RESETS["refitted"]]
    if not found:
        return ""
    used = [x for x in found if x.verdict == DIFFERS and x.estimate > 0]
    others = [x for x in found if x not in used]
    asked = "with their start given back, and the next layer fitted anew, the loss rises by"
    if not used:
        return f"No learned activation is shown to be needed: {asked} {_each(runs, others)}."
    names = listed([f"`{x.variant}`" for x in used])
    rest = f". Of others that is not shown: {_each(runs, others)}" if others else ""
    return (
        f"What {names} learned is used, and no linear layer replaces it: {asked} {_each(runs, used)}{rest}."
    )


def _each(runs: Sequence[RunInspection], findings: Sequence[Finding]) -> str:
    """What each activation loses without what it learned, and how far it had moved; most first."""
    ordered = sorted(findings, key=lambda x: -x.estimate)
    return "; ".join(
        f"{'nothing' if x.verdict == EQUAL else _told(x, 4)} in `{x.variant}`, whose outputs had moved by "
        f"{_moved(runs, x):.0f}%"
        for x in ordered
    )


def _moved(runs: Sequence[RunInspection], finding: Finding) -> float:
    own = [x for x in runs if (x.family, x.variant) == (finding.family, finding.variant)]
    return float(np.mean([run.summaries["activation moved"]["trained"] for run in own]))


def _of_edges(runs: Sequence[RunInspection], findings: Sequence[Finding]) -> str:
    found = [x for x in findings if x.question == "edges" and x.name == EXCESSES["dimension"][0]]
    if not found:
        return ""
    parts = []
    for finding in found:
        own = [x for x in runs if (x.family, x.variant) == (finding.family, finding.variant)]
        trained, chance, before = (
            float(np.mean([run.summaries["edges dimension"][kind] for run in own]))
            for kind in ("trained", "random", "untrained")
        )
        bound = max(layer.bound for run in own for layer in run.edges)
        parts.append(
            f"the edges of `{finding.variant}` have {trained:.2f} shapes of the {bound} that their basis "
            f"allows, random functions {chance:.2f}, untrained ones {before:.2f}; training added "
            f"{_told(finding, 2)} to what chance gives, which is {_judged(finding)}"
        )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _judged(finding: Finding) -> str:
    return "shown" if finding.verdict == DIFFERS else "not shown"


def _of_pruning(runs: Sequence[RunInspection], findings: Sequence[Finding]) -> str:
    found = [x for x in findings if x.question == "pruning" and x.control.endswith("of its edges")]
    if not found:
        return ""
    parts = []
    for x in found:
        other = x.control.partition(" ")[0]
        own = [run.ffn_parameters for run in runs if run.variant in (x.variant, other)]
        near = " (as many parameters)" if max(own) <= 1.05 * min(own) else ""
        word = "more" if x.estimate > 0 else "less"
        cost = f"without the less active half of its edges `{x.variant}` loses {x.mean:.3f} nats"
        verdict = f"{word} than `{other}`{near} by {_told(x)}" if x.verdict == DIFFERS else (
            f"which is not shown to differ from `{other}`{near}: {_told(x)}")  # fmt: skip
        parts.append(f"{cost}, {verdict}")
    special = [x for x in found if x.verdict == DIFFERS and x.estimate < 0]
    lead = (
        "Graceful pruning is special to" if special else "Graceful pruning is not shown to be special to KANs"
    )
    names = f" {listed([f'`{x.variant}`' for x in special])}" if special else ""
    return f"{lead}{names}: {'; '.join(parts)}."


def _of_stability(findings: Sequence[Finding]) -> str:
    name = STEADINESS["gradient_spread"][0]
    found = [x for x in findings if x.question == "stability" and x.name == name]
    if not found:
        return ""
    most = max(found, key=lambda x: x.estimate)
    shown = [x for x in found if x.verdict == DIFFERS]
    what = f"`{most.variant}` against `{most.control}`: {_told(most)}"
    if not shown:
        return f"No variant's gradient norms are shown to vary otherwise than the baseline's: most do {what}."
    names = listed([f"`{x.variant}`" for x in shown])
    return f"The gradient norms of {names} vary otherwise than the baseline's: {what}."
