"""Differences by phenomenon or task."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.report.document.markdown import bold, details, difference, p_value, table, unit_name
from eval.report.document.names import title
from eval.report.sections.context import Context
from eval.report.verdicts.standing import by_standing
from eval.significance.comparison import Comparison


def parts_section(analysis: Analysis, context: Context) -> str:
    """A heat map of every benchmark with parts and its numbers, folded away."""
    bodies = []
    for benchmark in by_standing(analysis):
        chosen = {(c.part, c.contrast): c for c in analysis.parts if c.benchmark == benchmark}
        if not chosen:
            continue
        contrasts = list(dict.fromkeys(contrast for _, contrast in chosen))
        rows = []
        for part in dict.fromkeys(part for part, _ in chosen):
            found = [chosen[part, contrast] for contrast in contrasts]
            rows.append([str(part), *map(_cell, found)])
        header = ["", *(f"`{contrast.compared}`" for contrast in contrasts)]
        unit = unit_name(analysis.outcome(benchmark).unit) or "its own unit"
        body = [context.figure_of("heat-map", analysis, benchmark), table(header, rows)]
        summary = f"{title(benchmark)}: differences in {unit} (corrected p)"
        bodies.append(details(summary, "\n\n".join(filter(None, body))))
    if not bodies:
        return ""
    text = (
        f"Differences to `{analysis.baseline}`, averaged over {analysis.strata}. P-values are corrected over "
        "all differences of an outcome (Benjamini and Hochberg), so that of those shown (bold) no more than "
        f"{analysis.inference.level:.0%} are expected to be false."
    )
    return "\n\n".join(["## By phenomenon", text, *bodies])


def _cell(found: Comparison) -> str:
    return bold(f"{difference(found)} ({p_value(found.p_bh)})", found.is_different)
