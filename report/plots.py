"""Single figures of a report, for axes of the caller's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from base.errors import UsageError, unknown_name
from report.analysis import Analysis
from report.figures.cost import COSTS, Cost, cost_panel
from report.figures.forest import forest_panel
from report.figures.heat_map import heat_map_panel
from report.figures.seeds import seeds_panel
from report.figures.style import Panel
from report.figures.training import gradient_norms_panel
from report.parts import cost, phenomena
from report.parts.learning_curves import learning_curves_panel
from report.significance.axes import Benchmark, Family
from report.verdicts.ranking import shown_first

Name = TypeVar("Name")
Find = Callable[[Analysis, Benchmark, Family], Panel | None]


def _cost_panel(one: Cost, analysis: Analysis, outcome: Benchmark, family: Family) -> Panel | None:
    result = cost.PART.of(analysis)
    return None if result is None else cost_panel(analysis, result.arms, outcome, family, one)


PLOTS: Mapping[str, Find] = {
    "forest": lambda analysis, outcome, _: forest_panel(analysis, outcome),
    "seeds": seeds_panel,
    "heat-map": lambda analysis, outcome, _: _heat_map(analysis, outcome),
    "learning-curves": lambda analysis, _, family: learning_curves_panel(analysis, family),
    "learning-curve-differences": lambda analysis, _, family: learning_curves_panel(
        analysis, family, "difference"
    ),
    "gradient-norms": lambda analysis, _, family: gradient_norms_panel(analysis, family),
    **{f"cost-{one[0].replace('_', '-')}": partial(_cost_panel, one) for one in COSTS},
}
"""Every kind of figure that fits into one pair of axes, by its name."""


def _heat_map(analysis: Analysis, benchmark: Benchmark) -> Panel | None:
    result = phenomena.PART.of(analysis)
    return heat_map_panel(analysis, result.differences.get(benchmark, ())) if result else None


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
            f"there is nothing to draw as {kind}: it needs "
            + (
                "scores of two parts or more"
                if kind == "heat-map"
                else "the folders of the runs, as a study has"
            )
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
