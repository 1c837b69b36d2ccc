"""Differences by phenomenon or task."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.report.markdown import bold, details, difference, p_value, table
from eval.report.names import figure_names
from eval.report.sections.context import Context


def parts_section(analysis: Analysis, context: Context) -> str:
    """A heat map of every benchmark with parts, and its numbers folded away."""
    bodies, figures = [], figure_names("heat-map", analysis.benchmarks)
    for benchmark in analysis.benchmarks:
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
        bodies.append(context.figure(figures[benchmark]))
        bodies.append(details(f"{benchmark}: differences in points (corrected p)", table(header, rows)))
    if not bodies:
        return ""
    text = (
        f"Differences to `{analysis.baseline}`, averaged over families. P-values are corrected over all "
        "cells of a benchmark (Benjamini and Hochberg), so that of the differences shown (bold) no more than "
        f"{analysis.inference.level:.0%} are expected to be false."
    )
    return "\n\n".join(["## By phenomenon", text, *(body for body in bodies if body)])
