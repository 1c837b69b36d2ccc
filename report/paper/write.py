"""The folder ``paper/`` of a report: its comparisons as a LaTeX table, its figures as PDF, its methods."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from report.analysis import Analysis
from report.document.markdown import difference, interval, p_value, unit_name
from report.document.names import title
from report.figures.style import to_pdf
from report.paper.methods import escape, methods, read_references
from report.significance.comparison import DIFFERENT, Comparison

FOLDER = "paper"
ROWS_ON_A_PAGE = 45
"""A longer table becomes a ``longtable``, which goes on over pages."""


def paper_files(analysis: Analysis, figures: Mapping[str, Figure], version: str) -> dict[str, str | bytes]:
    """Return every file of the folder by its name in it.

    Args:
        analysis: The report's numbers.
        figures: The report's figures, by the name of their file without its suffix.
        version: Of this software, for the paragraph on methods.
    """
    return {
        "comparisons.tex": comparison_table(analysis),
        "methods.tex": methods(analysis, version),
        "references.bib": read_references(),
        **{f"figures/{name}.pdf": to_pdf(figure) for name, figure in figures.items()},
    }


def comparison_table(analysis: Analysis) -> str:
    """Return the primary comparisons as a booktabs table, the best of each metric first.

    Where no metric is primary, the table has those of all metrics.
    """
    comparisons = [
        comparison
        for benchmark in analysis.primary or analysis.benchmarks
        for comparison in sorted(analysis.overall(benchmark), key=_rank)
    ]
    index = [(_metric(analysis, c), str(c.contrast.compared)) for c in comparisons]
    table = pd.DataFrame(map(_cells, comparisons), index=pd.MultiIndex.from_tuples(index))
    style = table.style.format(escape)
    style = style.format_index(_label, axis="index").format_index(escape, axis="columns")
    is_long = len(table) > ROWS_ON_A_PAGE
    return style.to_latex(
        hrules=True,
        column_format="ll" + "c" * len(table.columns),
        multirow_align="naive",
        environment="longtable" if is_long else "table",
        position_float=None if is_long else "centering",
        caption=_caption(analysis),
        label="tab:comparisons",
    )


def _label(text: object) -> str:
    """Escape the label of a row; LaTeX takes a bracket or star behind a line break for its argument."""
    return re.sub(r"^[\[*]", r"{\g<0>}", escape(text))


def _rank(comparison: Comparison) -> tuple[bool, float]:
    """Sort the best first, and what cannot be estimated last."""
    estimate = comparison.estimate
    return estimate is None, -comparison.metric.sign * (estimate or 0.0)


def _metric(analysis: Analysis, comparison: Comparison) -> str:
    notes = ", ".join(filter(None, (unit_name(comparison.unit), f"{comparison.metric.better} is better")))
    return f"{title(comparison.benchmark)} ({notes})"


def _cells(comparison: Comparison) -> dict[str, str]:
    is_better = "better" if comparison.is_better else "worse"
    return {
        "difference": _with_minus(difference(comparison)),
        "interval": _with_minus(interval(comparison)),
        "p": _with_minus(p_value(comparison.p_corrected)),
        "verdict": is_better if comparison.verdict == DIFFERENT else comparison.verdict,
    }


def _with_minus(number: str) -> str:
    """Write hyphens as minus signs; a missing number stays empty."""
    return number.replace("-", "\N{MINUS SIGN}") if number != "-" else ""


def _caption(analysis: Analysis) -> str:
    correction = "min-p" if analysis.is_drawn else "Holm"
    average = f", averaged over {analysis.strata}" if len(analysis.families) > 1 else ""
    corrected = (
        f"simultaneous over all {len(analysis.claims)} primary comparisons ({correction}), as is p"
        if analysis.primary
        else "exploratory, corrected within each metric only"
    )
    return escape(
        f"Differences to {analysis.baseline}{average}. Intervals: {analysis.confidence:.0%}, {corrected}."
    )
