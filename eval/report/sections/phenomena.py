"""Differences by phenomenon or task."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.report.document.markdown import bold, details, difference, p_value, signed, table, unit_name
from eval.report.document.names import title
from eval.report.sections.context import Context
from eval.report.verdicts.bayesian import Posterior
from eval.report.verdicts.standing import by_standing
from eval.significance.comparison import Comparison


def parts_section(analysis: Analysis, context: Context) -> str:
    """A heat map of every benchmark with parts and its numbers, folded away."""
    bodies = []
    for benchmark in by_standing(analysis):
        chosen = {(c.part, c.contrast): c for c in analysis.parts if c.benchmark == benchmark}
        if not chosen:
            continue
        shrunken = analysis.shrunken(benchmark)
        contrasts = list(dict.fromkeys(contrast for _, contrast in chosen))
        rows = []
        for part in dict.fromkeys(part for part, _ in chosen):
            found = [chosen[part, contrast] for contrast in contrasts]
            cells = [_cell(c, shrunken.get((str(part), c.contrast.plus[0]))) for c in found]
            rows.append([str(part), *cells])
        header = ["", *(f"`{contrast.compared}`" for contrast in contrasts)]
        unit = unit_name(analysis.outcome(benchmark).unit) or "its own unit"
        body = [context.figure_of("heat-map", analysis, benchmark), table(header, rows)]
        arrow = " → shrunken" if shrunken else ""
        summary = f"{title(benchmark)}: differences in {unit} (corrected p){arrow}"
        bodies.append(details(summary, "\n\n".join(filter(None, body))))
    if not bodies:
        return ""
    text = (
        f"Differences to `{analysis.baseline}`, averaged over {analysis.strata}. P-values are corrected over "
        "all differences of an outcome (Benjamini and Hochberg), so that of those shown (bold) no more than "
        f"{analysis.inference.level:.0%} are expected to be false."
    )
    if any(x.part is not None for x in analysis.bayesian):
        text += (
            " Of many differences the largest are largest partly by chance. So behind the arrow, and in the "
            "maps, each is shrunken towards the difference on the whole outcome "
            "([a Bayesian view](#a-bayesian-view))."
        )
    return "\n\n".join(["## By phenomenon", text, *bodies])


def _cell(found: Comparison, shrunken: Posterior | None) -> str:
    text = bold(f"{difference(found)} ({p_value(found.p_bh)})", found.is_different)
    return text if shrunken is None else f"{text} → {signed(shrunken.median, found.digits)}"
