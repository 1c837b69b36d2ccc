"""The one table of a report: every variant on the leading metric, the best first, and on the others."""

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
from report.verdicts.findings import place, verdict_word
from report.verdicts.ranking import by_standing, is_at_chance

MOST_WORDS = 480
"""Of its rows: those below are folded, so that a page is read in minutes."""
OTHER_METRICS = 3
"""Further primary metrics that have a column."""
MOST_FAMILIES = 3
"""Families that have columns of their own, where their scores have no average."""
Cell = Callable[[Analysis, Level], str]


def leaderboard(analysis: Analysis) -> str:
    """Write the table, sorted by the estimate on the leading metric."""
    columns = _columns(analysis)
    header = [analysis.noun, *columns]
    rows = [
        [f"`{level}`", *(cell(analysis, level) for cell in columns.values())]
        for level in sorted_variants(analysis)
    ]
    words = np.cumsum([len(" | ".join(row).split()) for row in rows])
    top = max(2, int(np.searchsorted(words, MOST_WORDS, side="right")))
    rest = rows[top:]
    below = [details(f"The {len(rest)} below", table(header, rest))] if rest else []
    return "\n\n".join([table(header, rows[:top]), *below])


def sorted_variants(analysis: Analysis) -> list[Level]:
    """Return all variants, that with the best estimate on the leading metric first."""
    leading = by_standing(analysis)[0]
    scope, sign = analysis.scopes(leading)[0], analysis.metric(leading).sign
    estimates = {c.contrast.plus[0]: c.estimate for c in analysis.of(leading, scope)}
    estimates[analysis.baseline] = 0.0

    def place(level: Level) -> tuple[bool, float, int]:
        estimate = estimates[level]
        return estimate is None, -sign * (estimate or 0.0), analysis.variants.index(level)

    return sorted(analysis.variants, key=place)


def _columns(analysis: Analysis) -> Mapping[str, Cell]:
    """Return what stands in each column, by its heading; a column of one's own is one line here."""
    order = by_standing(analysis)
    leading, scopes = order[0], analysis.scopes(order[0])
    shown = scopes[:1] if scopes[0] is None else scopes[:MOST_FAMILIES]
    columns: dict[str, Cell] = {}
    for scope in shown:
        where = f"{family_label(scope)}: " if len(shown) > 1 else ""
        unit = unit_name(analysis.metric(leading).unit)
        named = f"{place(analysis, leading)} {arrow(analysis.metric(leading))}"
        if scope is not None:
            columns[f"{where}{named}"] = partial(_mean, leading, scope)
        columns[f"{where}difference{f' ({unit})' if unit else ''}"] = partial(_difference, leading, scope)
        columns[f"{where}simultaneous {analysis.confidence:.0%} interval"] = partial(
            _interval, leading, scope
        )
        columns[f"{where}p"] = partial(_p, leading, scope)
        columns[f"{where}verdict"] = partial(_verdict, leading, scope)
    others = [name for name in order[1:] if name in analysis.primary and not is_at_chance(analysis, name)]
    for name in others[:OTHER_METRICS]:
        scopes = analysis.scopes(name)
        for scope in scopes[:1] if scopes[0] is None else scopes[:MOST_FAMILIES]:
            where = f"{family_label(scope)}: " if len(scopes) > 1 and scope is not None else ""
            heading = f"{where}{place(analysis, name)} {arrow(analysis.metric(name))}"
            columns[f"{heading}, difference"] = partial(_whole, name, scope)
    return columns


def _comparison(
    analysis: Analysis, level: Level, benchmark: Benchmark, scope: Family | None
) -> Comparison | None:
    """Return the comparison of a variant; None of the baseline."""
    if level == analysis.baseline:
        return None
    return analysis.of(benchmark, scope)[analysis.others.index(level)]


def _mean(benchmark: Benchmark, family: Family, analysis: Analysis, level: Level) -> str:
    runs = analysis.tables[benchmark].runs.get((family, level))
    if runs is None or not len(runs):
        return "-"
    return f"{np.mean(runs):.{decimals_of(analysis, benchmark, family)}f}"


def _difference(benchmark: Benchmark, scope: Family | None, analysis: Analysis, level: Level) -> str:
    comparison = _comparison(analysis, level, benchmark, scope)
    return "baseline" if comparison is None else difference(comparison)


def _interval(benchmark: Benchmark, scope: Family | None, analysis: Analysis, level: Level) -> str:
    comparison = _comparison(analysis, level, benchmark, scope)
    return "" if comparison is None else interval(comparison)


def _p(benchmark: Benchmark, scope: Family | None, analysis: Analysis, level: Level) -> str:
    comparison = _comparison(analysis, level, benchmark, scope)
    return "" if comparison is None else p_value(comparison.p_corrected)


def _verdict(benchmark: Benchmark, scope: Family | None, analysis: Analysis, level: Level) -> str:
    comparison = _comparison(analysis, level, benchmark, scope)
    return "" if comparison is None else verdict(comparison)


def _whole(benchmark: Benchmark, scope: Family | None, analysis: Analysis, level: Level) -> str:
    """Write a difference with interval and verdict in one cell."""
    comparison = _comparison(analysis, level, benchmark, scope)
    if comparison is None:
        return ""
    if comparison.estimate is None:
        return verdict(comparison)
    return f"{difference(comparison)} {interval(comparison)} {verdict(comparison)}"


def verdict(comparison: Comparison) -> str:
    """Say a verdict in a word or two; bold where something is shown."""
    if comparison.verdict == NOT_ESTIMABLE:
        return "not run" if not comparison.num_runs_plus else f"{NOT_ESTIMABLE}: {comparison.reason}"
    care = " (of surviving runs)" if comparison.num_failed else ""
    return bold(verdict_word(comparison), comparison.verdict in SHOWN) + care
