"""The one table of a report: every variant on the leading metric, the best first, and on the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from eval.report.analysis import Analysis, decimals_of
from eval.report.document.markdown import arrow, bold, difference, interval, p_value, table, unit_name
from eval.report.document.names import family_label
from eval.report.verdicts.findings import place
from eval.report.verdicts.ranking import by_standing, is_at_chance
from eval.significance.axes import Benchmark, Family, Level
from eval.significance.comparison import DIFFERENT, NOT_ESTIMABLE, SHOWN, Comparison

OTHER_METRICS = 3
"""Further metrics that have a column."""
Column = Callable[[Analysis, Benchmark, Family | None, Level], str]


def leaderboard(analysis: Analysis) -> str:
    """Write a table for each family of the leading metric, else one; sorted by the estimate."""
    order = by_standing(analysis)
    leading = order[0]
    others = [name for name in order[1:] if name in analysis.primary and not is_at_chance(analysis, name)]
    scope = analysis.scopes(leading)[0]
    columns = {**_columns(analysis, leading, scope), **_of_others(analysis, others[:OTHER_METRICS])}
    rows = [
        [f"`{level}`", *(cell(analysis, leading, scope, level) for cell in columns.values())]
        for level in sorted_variants(analysis)
    ]
    return table([analysis.noun, *columns], rows)


def sorted_variants(analysis: Analysis) -> list[Level]:
    """Return all variants, that with the best estimate on the leading metric first."""
    leading = by_standing(analysis)[0]
    scope = analysis.scopes(leading)[0]
    return sorted(analysis.variants, key=lambda level: _place(analysis, leading, scope, level))


def _columns(analysis: Analysis, leading: Benchmark, scope: Family | None) -> Mapping[str, Column]:
    """Return what stands in each column of the leading metric, by its heading.

    A column of one's own is one line here, and its function.
    """
    first = analysis.of(leading, scope)[0]
    unit = unit_name(first.unit)
    named = f"{place(analysis, leading)} {arrow(first.outcome)}"
    return {
        **({named: _mean} if scope is not None or len(analysis.families) == 1 else {}),
        f"difference{f' ({unit})' if unit else ''}": _difference,
        f"simultaneous {analysis.confidence:.0%} interval": _interval,
        "p": _p,
        "verdict": _verdict,
    }


def _of_others(analysis: Analysis, others: Sequence[Benchmark]) -> Mapping[str, Column]:
    return {f"{place(analysis, name)} {arrow(analysis.outcome(name))}": _verdict_on(name) for name in others}


def _place(
    analysis: Analysis, benchmark: Benchmark, scope: Family | None, level: Level
) -> tuple[bool, float, int]:
    """Sort by the estimate, the best first; the baseline has zero, and what has no estimate comes last."""
    order = analysis.variants.index(level)
    if level == analysis.baseline:
        return (False, 0.0, order)
    estimate = _comparison(analysis, benchmark, scope, level).estimate
    sign = analysis.outcome(benchmark).sign
    return (estimate is None, -sign * (estimate or 0.0), order)


def _comparison(analysis: Analysis, benchmark: Benchmark, scope: Family | None, level: Level) -> Comparison:
    return analysis.of(benchmark, scope)[analysis.others.index(level)]


def _mean(analysis: Analysis, benchmark: Benchmark, scope: Family | None, level: Level) -> str:
    family = scope if scope is not None else analysis.families[0]
    runs = analysis.tables[benchmark].runs.get((family, level))
    if runs is None or not len(runs):
        return "-"
    return f"{np.mean(runs):.{decimals_of(analysis, benchmark, family)}f}"


def _difference(analysis: Analysis, benchmark: Benchmark, scope: Family | None, level: Level) -> str:
    return (
        "baseline"
        if level == analysis.baseline
        else difference(_comparison(analysis, benchmark, scope, level))
    )


def _interval(analysis: Analysis, benchmark: Benchmark, scope: Family | None, level: Level) -> str:
    return "" if level == analysis.baseline else interval(_comparison(analysis, benchmark, scope, level))


def _p(analysis: Analysis, benchmark: Benchmark, scope: Family | None, level: Level) -> str:
    if level == analysis.baseline:
        return ""
    return p_value(_comparison(analysis, benchmark, scope, level).p_corrected)


def _verdict(analysis: Analysis, benchmark: Benchmark, scope: Family | None, level: Level) -> str:
    return "" if level == analysis.baseline else verdict(_comparison(analysis, benchmark, scope, level))


def _verdict_on(name: Benchmark) -> Column:
    def cell(analysis: Analysis, benchmark: Benchmark, scope: Family | None, level: Level) -> str:
        if level == analysis.baseline:
            return ""
        comparison = _comparison(analysis, name, analysis.scopes(name)[0], level)
        if comparison.estimate is None:
            return verdict(comparison)
        return f"{difference(comparison)} {interval(comparison)} {verdict(comparison)}"

    return cell


def verdict(comparison: Comparison) -> str:
    """Say a verdict in a word or two; bold where something is shown."""
    if comparison.verdict == NOT_ESTIMABLE:
        return "not run" if not comparison.num_runs_plus else f"{NOT_ESTIMABLE}: {comparison.reason}"
    word = "better" if comparison.is_better else "worse"
    text = word if comparison.verdict == DIFFERENT else comparison.verdict
    care = " (of surviving runs)" if comparison.num_failed else ""
    return bold(text, comparison.verdict in SHOWN) + care


def family_tables(analysis: Analysis, benchmark: Benchmark) -> str:
    """Write the same comparisons within each family, where there are several."""
    scopes = [scope for scope in analysis.scopes(benchmark) if scope is not None]
    rows = [
        [family_label(scope), f"`{level}`", *(cell(analysis, benchmark, scope, level) for cell in _SHORT)]
        for scope in scopes
        for level in analysis.others
    ]
    header = [analysis.stratum, analysis.noun, "difference", "interval", "p", "verdict"]
    return table(header, rows) if len(scopes) > 1 else ""


_SHORT: tuple[Column, ...] = (_difference, _interval, _p, _verdict)
