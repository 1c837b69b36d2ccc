"""The folder ``paper/`` of a report: comparisons as a LaTeX table, figures as PDF, how they were tested."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

import pandas as pd
from matplotlib.figure import Figure

from report.analysis import Analysis
from report.document.markdown import (
    difference,
    family_label,
    interval,
    listed,
    margin,
    p_value,
    title,
    unit_name,
)
from report.figures.style import to_pdf
from report.significance.axes import plain
from report.significance.comparison import Comparison
from report.statistics.looks import PlannedLooks

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
        _compared(analysis),
        _tested(analysis),
        _corrected(analysis),
        _equivalent(analysis),
        _interim(analysis),
        _tuned(analysis),
        rf"All numbers were computed with \texttt{{ffn-ablations}} {escape(version)}.",
    )
    return "\\paragraph{Statistics.}\n" + "\n".join(filter(None, sentences)) + "\n"


def _compared(analysis: Analysis) -> str:
    runs = analysis.runs.drop_duplicates(["family", "variant", "seed"])
    families = [escape(family_label(family)) for family in analysis.families if plain(family) != "model"]
    where = f" in {listed(families)}" if families else ""
    metrics = listed([escape(title(benchmark)) for benchmark in analysis.benchmarks])
    fewest, most = analysis.arms["n"].min(), analysis.arms["n"].max()
    seeds = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return (
        f"We compare {len(analysis.variants)} {analysis.noun}s{where} by {metrics}, with {seeds} seeds each "
        f"({len(runs)} runs)."
    )


def _tested(analysis: Analysis) -> str:
    is_paired = analysis.inference.paired
    pairs = " on differences within seeds" if is_paired else ""
    variances = r", variances moderated where six groups or more are there \citep{smyth2004}"
    average = ", averaged over families with equal weights" if len(analysis.families) > 1 else ""
    return (
        "The unit of replication is the run: tasks, items and fine-tunings of one run are averaged first. "
        rf"Each is compared with {escape(str(analysis.baseline))} by Welch's test \citep{{welch1947}} with "
        rf"Satterthwaite's degrees of freedom \citep{{satterthwaite1946}}{pairs}"
        f"{'' if is_paired else variances}{average}."
    )


def _corrected(analysis: Analysis) -> str:
    if not analysis.primary:
        return "No metric was declared primary; all comparisons are exploratory."
    inference = analysis.inference
    correction = (
        rf"A bootstrap of {inference.num_draws:,} whole studies by the step-down min-$p$ procedure "
        r"\citep{westfall1993,romano2005}"
        if analysis.is_drawn
        else r"Holm's correction \citep{holm1979}"
    )
    metrics = listed([escape(title(benchmark)) for benchmark in analysis.primary])
    return (
        f"The {len(analysis.claims)} comparisons on {metrics} are primary. {correction} over all of them "
        rf"aims at a family-wise error rate of {100 * inference.level:g}\%; intervals are simultaneous at "
        rf"{100 * inference.confidence:g}\%. All other comparisons are exploratory."
    )


def _equivalent(analysis: Analysis) -> str:
    margins = [
        f"{margin(analysis.overall(benchmark)[0])} on {title(benchmark)}"
        for benchmark in analysis.primary
        if analysis.metric(benchmark).margin is not None and analysis.overall(benchmark)
    ]
    if not margins:
        return ""
    everywhere = rf" in every {analysis.stratum} \citep{{berger1982}}" if len(analysis.families) > 1 else ""
    return (
        r"Variants are equivalent if two one-sided tests \citep{schuirmann1987} place their difference "
        f"within {escape(listed(margins))}{everywhere}, after the same correction."
    )


def _interim(analysis: Analysis) -> str:
    looks = analysis.inference.looks
    if not isinstance(looks, PlannedLooks):
        return ""
    planned = listed([str(number) for number in looks.plan])
    return (
        f"Interim analyses were planned at {planned} runs in every group; the error rate is spent over them "
        r"\citep{lan1983}."
    )


def _tuned(analysis: Analysis) -> str:
    if not analysis.is_tuned:
        return ""
    return (
        "Every variant was tuned with as many runs as any other, on seeds and held-out text of its own; "
        "standard errors of the held-out loss include the uncertainty of that choice."
    )
