"""Differences by phenomenon or task."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.report.markdown import bold, details, difference, p_value, table, unit_name
from eval.report.sections.context import Context, title
from eval.report.standing import by_standing


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
            cells = [bold(f"{difference(c)} ({p_value(c.p_bh)})", c.is_different) for c in found]
            rows.append([str(part), *cells])
        header = ["", *(f"`{contrast.compared}`" for contrast in contrasts)]
        unit = unit_name(analysis.outcome(benchmark).unit) or "its own unit"
        body = [context.figure_of("heat-map", analysis, benchmark), table(header, rows)]
        summary = f"{title(benchmark)}: differences in {unit} (corrected p)"
        bodies.append(details(summary, "\n\n".join(filter(None, body))))
    if not bodies:
        return ""
    text = (
        f"Differences to `{analysis.baseline}`, averaged over families. P-values are corrected over all "
        "differences of an outcome (Benjamini and Hochberg), so that of those shown (bold) no more than "
        f"{analysis.inference.level:.0%} are expected to be false."
    )
    return "\n\n".join(["## By phenomenon", text, *bodies])
