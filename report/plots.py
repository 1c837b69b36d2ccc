"""Single figures of a report, for axes of the caller's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from base.errors import UsageError, unknown_name
from report.analysis import Analysis
from report.figures.forest import forest_panel
from report.figures.style import Panel
from report.parts.learning_curves import learning_curves_panel
from report.parts.scores import seeds_panel
from report.significance.axes import Benchmark, Family
from report.verdicts.ranking import shown_first

Name = TypeVar("Name")
Find = Callable[[Analysis, Benchmark, Family], Panel | None]


PLOTS: Mapping[str, Find] = {
    "forest": lambda analysis, outcome, _: forest_panel(analysis, outcome),
    "seeds": seeds_panel,
    "learning-curves": lambda analysis, _, family: learning_curves_panel(analysis, family),
    "learning-curve-differences": lambda analysis, _, family: learning_curves_panel(
        analysis, family, "difference"
    ),
}
"""Every kind of figure that fits into one pair of axes, by its name."""


def find_panel(analysis: Analysis, kind: str, outcome: str | None, family: str | None) -> Panel:
    """Return one figure of an analysis, ready to be drawn into axes.

    Args:
        analysis: What was computed.
        kind: One of ``PLOTS``.
        outcome: Its name; None takes the first of the report.
        family: Its name; None takes the first in which the outcome was scored.

    Raises:
        UsageError: For a name that there is not, or where nothing is known that could be drawn.
    """
    if kind not in PLOTS:
        raise unknown_name("kind of figure", kind, PLOTS)
    benchmark = _named(outcome, analysis.benchmarks, "outcome") or shown_first(analysis)[0]
    scored = [name for name in analysis.scopes(benchmark) if name is not None]
    panel = PLOTS[kind](analysis, benchmark, _named(family, scored, "family") or scored[0])
    if panel is None:
        raise UsageError(
            f"there is nothing to draw as {kind}: it needs the folders of the runs, as a study has"
        )
    return panel


def _named(text: str | None, names: Iterable[Name], what: str) -> Name | None:
    """Return what has that name; None where none is given."""
    by_name = {str(name): name for name in names}
    if text is None:
        return None
    if text not in by_name:
        raise unknown_name(what, text, by_name)
    return by_name[text]
