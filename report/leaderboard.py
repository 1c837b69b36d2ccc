"""The one table of a report: every variant on the leading metric and on the others, the best first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from report.analysis import Analysis, decimals_of
from report.document.markdown import (
    arrow,
    bold,
    details,
    difference,
    family_label,
    interval,
    p_value,
    table,
    unit_name,
)
from report.significance.axes import Benchmark, Family, Level
from report.significance.comparison import NOT_ESTIMABLE, SHOWN, Comparison
from report.verdicts.findings import by_standing, is_at_chance, place

MOST_WORDS = 480
"""Of its rows: those below are folded, so that a page is read in minutes."""
OTHER_METRICS = 3
"""Further primary metrics that have a column."""
MOST_FAMILIES = 3
"""Families that have columns of their own, where their scores have no average."""
Cell = Callable[[Level], str]


def leaderboard(analysis: Analysis) -> str:
    """Write the table: the baseline, then the others in their order."""
    columns = _columns(analysis)
    header = [analysis.noun, *columns]
    rows = [[f"`{level}`", *(cell(level) for cell in columns.values())] for level in analysis.variants]
    words = np.cumsum([len(" | ".join(row).split()) for row in rows])
    top = max(2, int(np.searchsorted(words, MOST_WORDS, side="right")))
    below = [details(f"The {len(rows) - top} below", table(header, rows[top:]))] if rows[top:] else []
    return "\n\n".join([table(header, rows[:top]), *below])


def _columns(analysis: Analysis) -> Mapping[str, Cell]:
    """Return what stands in each column, by its heading; a column of one's own is one line here."""
    leading, *others = by_standing(analysis)
    scopes, metric = _shown_scopes(analysis, leading), analysis.metric(leading)
    heading, unit = f"{place(analysis, leading)} {arrow(metric)}", unit_name(metric.unit)
    names = {scope: f"{family_label(scope)}: " if len(scopes) > 1 else "" for scope in scopes}
    # Verdicts stand first, as a narrow screen shows the first columns alone.
    columns: dict[str, Cell] = {
        f"{where}verdict": partial(_cell, analysis, leading, scope, verdict, "baseline")
        for scope, where in names.items()
    }
    for scope, where in names.items():
        cell = partial(_cell, analysis, leading, scope)
        if scope is not None:
            columns[f"{where}{heading}"] = partial(_mean, analysis, leading, scope)
        columns[f"{where}difference{f' ({unit})' if unit else ''}"] = partial(cell, difference, "")
        columns[f"{where}simultaneous {analysis.confidence:.0%} interval"] = partial(cell, interval, "")
        columns[f"{where}p"] = partial(cell, lambda comparison: p_value(comparison.p_corrected), "")
    others = [name for name in others if name in analysis.primary and not is_at_chance(analysis, name)]
    for name in others[:OTHER_METRICS]:
        heading = f"{place(analysis, name)} {arrow(analysis.metric(name))}"
        is_of_several = len(analysis.scopes(name)) > 1
        for scope in _shown_scopes(analysis, name):
            where = f"{family_label(scope)}: " if is_of_several and scope is not None else ""
            columns[f"{where}{heading}, difference"] = partial(_cell, analysis, name, scope, _whole, "")
    return columns


def _shown_scopes(analysis: Analysis, benchmark: Benchmark) -> list[Family | None]:
    """The average over families; the first families where there is no average."""
    scopes = analysis.scopes(benchmark)
    return scopes[:1] if scopes[0] is None else scopes[:MOST_FAMILIES]


def _mean(analysis: Analysis, benchmark: Benchmark, family: Family, level: Level) -> str:
    runs = analysis.tables[benchmark].runs.get((family, level))
    if runs is None or not len(runs):
        return "-"
    return f"{np.mean(runs):.{decimals_of(analysis, benchmark, family)}f}"


def _cell(
    analysis: Analysis,
    benchmark: Benchmark,
    scope: Family | None,
    write: Callable[[Comparison], str],
    of_baseline: str,
    level: Level,
) -> str:
    """Write something of a variant's comparison with the baseline, which itself has none."""
    if level == analysis.baseline:
        return of_baseline
    return write(analysis.of(benchmark, scope)[analysis.others.index(level)])


def _whole(comparison: Comparison) -> str:
    """Write a difference with interval and verdict in one cell."""
    if comparison.estimate is None:
        return verdict(comparison)
    return f"{difference(comparison)} {interval(comparison)} {verdict(comparison)}"


def verdict(comparison: Comparison) -> str:
    """Say a verdict in a word or two; bold where something is shown."""
    if comparison.verdict == NOT_ESTIMABLE:
        return "not run" if not comparison.num_runs_plus else f"{NOT_ESTIMABLE}: {comparison.reason}"
    care = " (of surviving runs)" if comparison.num_failed else ""
    return bold(comparison.verdict, comparison.verdict in SHOWN) + care
