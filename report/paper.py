"""The folder ``paper/`` of a report: comparisons as a LaTeX table, figures as PDF, how they were tested."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

import pandas as pd
from matplotlib.figure import Figure

from report.analysis import Analysis
from report.document.markdown import difference, family_label, interval, listed, p_value, title, unit_name
from report.figures.style import to_pdf
from report.parts.methods import judgement
from report.significance.axes import plain
from report.significance.comparison import Comparison
from report.verdicts.findings import rank

FOLDER = "paper"
ROWS_ON_A_PAGE = 45
"""A longer table becomes a ``longtable``, which goes on over pages."""
_ESCAPED = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$",
    '"': "''", "\N{MINUS SIGN}": "$-$", "\N{INFINITY}": r"$\infty$",
    "\n": " ", "\t": " ",
})  # fmt: skip


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


def comparison_table(analysis: Analysis, caption: str = "", label: str = "tab:comparisons") -> str:
    """Return the primary comparisons as a booktabs table, the best of each metric first.

    Where no metric is primary, the table has those of all metrics.
    """
    comparisons = [
        comparison
        for benchmark in analysis.primary or analysis.benchmarks
        for comparison in sorted(analysis.overall(benchmark), key=lambda c: rank(c.estimate, c.metric.sign))
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
        caption=caption or _caption(analysis),
        label=label,
    )


def _label(text: object) -> str:
    """Escape the label of a row; LaTeX takes a bracket or star behind a line break for its argument."""
    return re.sub(r"^[\[*]", r"{\g<0>}", escape(text))


def _metric(analysis: Analysis, comparison: Comparison) -> str:
    notes = ", ".join(filter(None, (unit_name(comparison.unit), f"{comparison.metric.better} is better")))
    return f"{title(comparison.benchmark)} ({notes})"


def _cells(comparison: Comparison) -> dict[str, str]:
    return {
        "difference": _with_minus(difference(comparison)),
        "interval": _with_minus(interval(comparison)),
        "p": _with_minus(p_value(comparison.p_corrected)),
        "verdict": comparison.verdict,
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


def escape(text: object) -> str:
    """Write a text so that LaTeX prints it; letters beyond T1, such as Greek ones, need LuaLaTeX."""
    return str(text).translate(_ESCAPED)


def read_references() -> str:
    """Return the shipped bibliography: BibTeX entries of all that the paragraph cites."""
    return (files("report") / "references.bib").read_text(encoding="utf-8")


def methods(analysis: Analysis, version: str) -> str:
    r"""Return the paragraph as LaTeX; citations are natbib's ``\citep``.

    Args:
        analysis: The report's numbers.
        version: Of this software.
    """
    sentences = (
        escape(_compared(analysis)),
        *(re.sub(r"\(([A-Z][^()]* \d{4})\)", _cite, escape(sentence)) for sentence in judgement(analysis)),
        rf"All numbers were computed with \texttt{{ffn-ablations}} {escape(version)}.",
    )
    return "\\paragraph{Statistics.}\n" + "\n".join(sentences) + "\n"


def _cite(works: re.Match) -> str:
    """Cite by key what words cite: first author and year."""
    keys = [re.sub(r" .*", "", work) + work[-4:] for work in works[1].split("; ")]
    return rf"\citep{{{','.join(keys).lower()}}}"


def _compared(analysis: Analysis) -> str:
    runs = analysis.runs.drop_duplicates(["family", "variant", "seed"])
    families = [family_label(family) for family in analysis.families if plain(family) != "model"]
    where = f" in {listed(families)}" if families else ""
    metrics = listed(map(title, analysis.benchmarks))
    fewest, most = analysis.arms["n"].min(), analysis.arms["n"].max()
    seeds = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return (
        f"We compare {len(analysis.variants)} {analysis.noun}s{where} by {metrics}, with {seeds} seeds each "
        f"({len(runs)} runs); the baseline is {analysis.baseline}."
    )
