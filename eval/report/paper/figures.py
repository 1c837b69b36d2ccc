"""Figures of a paper: PDF at the width of a column and of the text, with fonts that can be searched."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass

import matplotlib
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

from base.errors import UsageError
from eval.report.analysis import Analysis
from eval.report.document.names import figure_names, file_name
from eval.report.draws import draws, settled
from eval.report.figures.plots import find_panel
from eval.report.figures.style import STYLE, add_legend, new_figure
from eval.report.paper.labels import Labels
from eval.significance.axes import Benchmark

COLUMN_IN = 3.25
"""Width of a column, as in the styles of ICML and ACL; the text of NeurIPS is 5.5 inches wide."""
PDF = {"pdf.fonttype": 42, "pdf.compression": 9, "font.size": 8.0}
"""TrueType: type 3, matplotlib's default, is refused by some publishers."""
OF_SOME = ("forest", "seeds", "heat-map", "learning-curves")
"""How names of figures begin that show some of the variants where a user wants no others."""
COLUMN = {
    "axes.titlesize": 8.0, "axes.labelsize": 7.5, "xtick.labelsize": 7.0, "ytick.labelsize": 7.0,
    "legend.fontsize": 6.5, "lines.markersize": 4.0,
}  # fmt: skip


def paper_figures(analysis: Analysis, displayed: Analysis, labels: Labels) -> dict[str, tuple[bytes, str]]:
    """Draw every figure that there is.

    Args:
        analysis: With all variants, which figures of cost, sizes and tuning show.
        displayed: With those that the others show.
        labels: What they are called.

    Returns:
        By the name of its file, ``forest-column.pdf``, the PDF and its caption.
    """
    found: dict[str, tuple[bytes, str]] = {}
    of_some, of_all = draws(displayed), draws(analysis)
    for name in of_all:
        draw = of_some[name] if name.startswith(OF_SOME) else of_all[name]
        if drawn := settled(draw, relabel=lambda figure: relabel(figure, labels)):
            caption = _of_report(analysis, labels, name) or labels.replaced(drawn[1]).partition(":")[0] + "."
            found[f"{name}.pdf"] = to_pdf(drawn[0]), caption
    for column in _columns(displayed):
        try:
            panel = find_panel(displayed, column.kind, str(column.outcome), column.family, is_narrow=True)
        except UsageError:  # nothing to draw, as of a table without learning curves
            continue
        with matplotlib.rc_context({**STYLE, **PDF, **COLUMN}):
            figure = new_figure(panel.height, COLUMN_IN)
            panel.draw(figure.subplots())
            add_legend(figure, panel.handles, size=COLUMN["legend.fontsize"])
            relabel(figure, labels)
            found[f"{column.name}-column.pdf"] = to_pdf(figure), _caption(analysis, labels, column)
    return found


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A figure of a column's width."""

    name: str
    kind: str
    outcome: Benchmark
    family: str | None


def _of_report(analysis: Analysis, labels: Labels, name: str) -> str:
    """Caption a figure of the report by its name; empty for one that its alt text describes best."""
    baseline = labels.variant(analysis.baseline)
    return {
        "forest": f"Differences to {baseline}, with {analysis.confidence:.0%} intervals: thick alone, thin "
        "over all claims together. Filled: shown to differ. Shaded: negligible.",
        "seeds": f"Every run, means as bars, and that of {baseline} dashed.",
        "learning-curves": "Held-out loss in the course of training, means over seeds.",
        "gradient-norms": "Norm of the gradient before clipping, in the course of training.",
        "cost": "Scores against parameters and time.",
    }.get(name, "")


def _caption(analysis: Analysis, labels: Labels, column: _Column) -> str:
    outcome, baseline = labels.outcome(column.outcome), labels.variant(analysis.baseline)
    where = f" in {labels.family(column.family)}" if column.family and len(analysis.families) > 1 else ""
    if column.kind == "forest":
        return (
            f"Differences to {baseline} on {outcome}, with {analysis.confidence:.0%} intervals: thick alone, "
            "thin over all claims together. Filled: shown to differ. Shaded: negligible."
        )
    if column.kind == "seeds":
        return f"{outcome}{where}: every run, means as bars, and that of {baseline} dashed."
    return f"Held-out loss{where} in the course of training, means over seeds."


def _columns(analysis: Analysis) -> Iterable[_Column]:
    """List the figures of a column's width: what is claimed, its runs, and their training."""
    outcomes = analysis.primary or list(analysis.benchmarks)
    for kind in ("forest", "seeds", "learning-curves"):
        names = figure_names(kind, outcomes)
        for benchmark in outcomes[:1] if kind == "learning-curves" else outcomes:
            name = kind if kind == "learning-curves" else names[benchmark]
            if kind == "forest":
                yield _Column(name=name, kind=kind, outcome=benchmark, family=None)
                continue
            families = [str(scope) for scope in analysis.scopes(benchmark) if scope is not None]
            for family in families:
                own = name if len(families) == 1 else file_name(name, family)
                yield _Column(name=own, kind=kind, outcome=benchmark, family=family)


def relabel(figure: Figure, labels: Labels) -> None:
    """Write labels in place of names in every text of a figure; once, as labels may hold names."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_locator(), FixedLocator):
                # Ticks are written anew whenever a figure is drawn, from what was set.
                texts = [tick.get_text() for tick in axis.get_ticklabels()]
                if any(texts):  # axes that share theirs with others show none
                    axis.set_ticklabels([labels.replaced(text) for text in texts])
    ticks = {label for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())}
    for text in figure.findobj(Text):
        if text not in ticks:
            text.set_text(labels.replaced(text.get_text()))


def to_pdf(figure: Figure) -> bytes:
    """Draw a figure as PDF without a date or the software's name."""
    with matplotlib.rc_context({**STYLE, **PDF}):
        buffer = io.BytesIO()
        metadata = {"Creator": None, "Producer": None, "CreationDate": None}
        figure.savefig(buffer, format="pdf", metadata=metadata)
    return buffer.getvalue()
