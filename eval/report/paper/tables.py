"""The tables of a paper: differences with their intervals, scores, and what models cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.report.analysis import Analysis, decimals_of
from eval.report.document.markdown import arrow, difference, interval, millions, p_value, unit_name
from eval.report.paper.labels import Labels
from eval.report.paper.latex import booktabs, escape, number
from eval.significance.axes import Benchmark, Family
from eval.significance.comparison import Comparison

HEADER = ("", "difference", "interval", "$p$")
WIDE = 4
"""Columns of numbers from which a table spans both columns."""


def tables(analysis: Analysis, labels: Labels, num_claims: int) -> dict[str, str]:
    """Return every table as LaTeX, by its name.

    Args:
        analysis: What is shown.
        labels: What it is called.
        num_claims: How many were corrected together, shown or not.
    """
    found = {"differences": _claims(analysis, labels, num_claims), "scores": _scores(analysis, labels)}
    if len(analysis.families) > 1:
        found["families"] = _families(analysis, labels)
    if any(facts.num_parameters for facts in analysis.facts):
        found["models"] = _models(analysis, labels)
    return found


def _claims(analysis: Analysis, labels: Labels, num_claims: int) -> str:
    """Every variant's difference on every outcome that is claimed about, over all families."""
    scopes = [(benchmark, analysis.scopes(benchmark)[0]) for benchmark in analysis.primary]
    is_part = len(analysis.claims) < num_claims
    claims = f"{num_claims} claims" + (f" ({len(analysis.claims)} of them shown)" if is_part else "")
    caption = (
        f"Differences to {escape(labels.variant(analysis.baseline))}: {_percent(analysis.confidence)} "
        f"intervals hold together over all {claims}, and $p$ is corrected over them "
        rf"({escape(_correction(analysis))}). {_words(analysis)}"
    )
    return booktabs(HEADER, _blocks(analysis, labels, scopes), caption, "differences", is_wide=False)


def _families(analysis: Analysis, labels: Labels) -> str:
    """The same within each family."""
    scopes = [
        (benchmark, scope) for benchmark in analysis.primary for scope in analysis.scopes(benchmark)[1:]
    ]
    caption = (
        f"Differences to {escape(labels.variant(analysis.baseline))} within each {analysis.stratum}. "
        "Exploratory: intervals hold together, and $p$ is corrected, over the "
        rf"{analysis.noun}s of one outcome and {analysis.stratum}. {_words(analysis)}"
    )
    return booktabs(HEADER, _blocks(analysis, labels, scopes), caption, "families", is_wide=False)


def _blocks(
    analysis: Analysis, labels: Labels, scopes: Sequence[tuple[Benchmark, Family | None]]
) -> list[list[str]]:
    rows: list[list[str]] = []
    for benchmark, scope in scopes:
        if found := analysis.of(benchmark, scope):
            rows += [[]] if rows else []
            rows += [
                [rf"\multicolumn{{{len(HEADER)}}}{{@{{}}l}}{{{_block(analysis, labels, benchmark, scope)}}}"]
            ]
            rows += [_difference(x, labels) for x in found]
    return rows


def _block(analysis: Analysis, labels: Labels, benchmark: Benchmark, scope: Family | None) -> str:
    outcome = analysis.outcome(benchmark)
    first = next(iter(analysis.of(benchmark, scope)))
    unit = r"\%" if first.is_relative else escape(unit_name(outcome.unit))
    where = "" if len(analysis.families) == 1 else f", {escape(labels.family(scope))}"
    name = escape(f"{labels.outcome(benchmark)} {arrow(outcome)}")
    return rf"\textit{{{name}{where}}}" + (f" ({unit})" if unit else "")


def _difference(x: Comparison, labels: Labels) -> list[str]:
    value = number(difference(x).removesuffix("%"))
    name = escape(labels.variant(x.contrast.compared))
    shown = rf"\textbf{{{value}}}" if x.is_different else value
    mark = r"$^{=}$" if x.verdict == "equivalent" else ""
    cells = [shown + mark, number(interval(x)), number(p_value(x.p_corrected))]
    return [rf"\quad {name}", *("--" if cell == "-" else cell for cell in cells)]


def _words(analysis: Analysis) -> str:
    words = "Bold: shown to differ."
    if any(c.verdict == "equivalent" for c in analysis.comparisons):
        words += r" $^{=}$: equivalent, within the margin that was named before."
    return words


def _correction(analysis: Analysis) -> str:
    return "max-t" if analysis.is_drawn else "Holm"


def _scores(analysis: Analysis, labels: Labels) -> str:
    """Mean and standard deviation over seeds of every variant, a column for each outcome and family."""
    places = [
        (benchmark, family)
        for benchmark in analysis.benchmarks
        for family in analysis.families
        if family in analysis.scopes(benchmark)
    ]
    header = ["", *(_place(analysis, labels, *found) for found in places)]
    rows = [
        [escape(labels.variant(variant)), *(_score(analysis, variant, *found) for found in places)]
        for variant in analysis.variants
    ]
    counts = sorted(set(analysis.arms["n"]))
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    caption = f"Mean and standard deviation over {seeds} seeds."
    return booktabs(header, rows, caption, "scores", is_wide=len(places) >= WIDE)


def _place(analysis: Analysis, labels: Labels, benchmark: Benchmark, family: Family) -> str:
    name = escape(f"{labels.outcome(benchmark)} {arrow(analysis.outcome(benchmark))}")
    if len(analysis.families) == 1:
        return name
    return rf"\shortstack{{{name}\\{{}}{escape(labels.family(family))}}}"


def _score(analysis: Analysis, variant: object, benchmark: Benchmark, family: Family) -> str:
    arms = analysis.arms
    found = arms[(arms.benchmark == benchmark) & (arms.family == family) & (arms.variant == variant)]
    if found.empty:
        return "--"
    digits, arm = decimals_of(analysis, benchmark, family), found.iloc[0]
    spread = "" if np.isnan(arm["sd"]) else rf"\,{{\scriptsize$\pm${arm['sd']:.{digits}f}}}"
    return number(f"{arm['mean']:.{digits}f}") + spread


def _models(analysis: Analysis, labels: Labels) -> str:
    """Parameters and FLOPs of every variant in every family."""
    known = {(x.family, x.variant): x for x in analysis.facts}
    rows: list[list[str]] = []
    for family in analysis.families:
        found = [known[family, variant] for variant in analysis.variants if (family, variant) in known]
        rows += [[]] if rows and found else []
        rows += [
            [
                escape(f"{labels.family(family)} {labels.variant(x.variant)}"),
                millions(x.num_parameters),
                millions(x.num_ffn_parameters),
                "--" if x.flops_per_token is None else f"{x.flops_per_token / 1e6:.2f}",
            ]
            for x in found
        ]
    header = ["", "all (M)", "FFN (M)", "MFLOPs"]
    caption = "Parameters, in all and in FFNs, and the cost of a forward pass for a token."
    return booktabs(header, rows, caption, "models", is_wide=False)


def _percent(share: float) -> str:
    return rf"{100 * share:g}\%"
