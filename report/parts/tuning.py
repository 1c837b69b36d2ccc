"""What each variant was tuned to, and what the choice is worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from base.printing import first_few
from report.analysis import Analysis
from report.document.markdown import difference, family_label, file_name, listed, records_table, span
from report.figures.crowd import BEHIND, small_panels
from report.figures.style import BLUE, GREY, VERMILION, add_legend
from report.inputs.chosen_rates import Line, Tuned
from report.part import Draw, Page, Part, Section
from report.verdicts.findings import AtSharedRate
from scores.tuning_grid import Value
from scores.tuning_trials import Choice

WORTH = {
    "optimum": ("optimum", ".2g"),
    "a third of it costs": ("cost_of_a_third", ".3f"),
    "three times it costs": ("cost_of_threefold", ".3f"),
    "√ expected squared regret": ("choice_error", ".4f"),
}
"""Headings of what a choice is worth, to the name and form of the number."""
NAMED = 3
"""Variants named in a sentence."""
BAND_ALPHA = 0.15
OPTIMA_NAMED = 8
ABOVE = 4.0
"""Height of a panel, in median heights of the losses beside the chosen values."""


def compute(analysis: Analysis) -> Tuned | None:
    """Return what was read before the comparisons, whose standard errors hold the choices."""
    return analysis.tuned


def section(analysis: Analysis, tuned: Tuned, page: Page) -> Section:
    """Budget, every chosen value with what it is worth, and the differences at the shared value."""
    parts = [_budget(analysis, tuned), *(page.figure(name) for name in figures(analysis, tuned))]
    parts += [_values(analysis, tuned), _side_by_side(analysis, tuned)]
    return Section(
        title="Tuning",
        summary=f"{span(tuned.num_runs.values(), 'd')} runs each",
        body="\n\n".join(filter(None, parts)),
    )


def checks(analysis: Analysis, tuned: Tuned) -> Iterator[str]:
    """Say who was chosen at the boundary of the grid, unless the curve turns before it."""
    names = list(dict.fromkeys(f"`{line.variant}`" for line in tuned.lines if line.may_lie_beyond))
    if names:
        yield (
            f"{first_few(names, NAMED)} {'was' if len(names) == 1 else 'were'} chosen at the boundary of the "
            "tuning grid, so a better value may lie beyond."
        )


def _budget(analysis: Analysis, tuned: Tuned) -> str:
    """Say what each variant was given, and which numbers hold the choice."""
    plan = tuned.plan.plan
    fields = listed([f"`{name}` over {listed(map(_text, values))}" for name, values in plan.fields.items()])
    is_widened = any(each.grid != plan.fields for each in tuned.plan.rounds)
    widened = ", the grid widened where a best was at its end" if is_widened else ""
    moved = list(dict.fromkeys(f"`{x.variant}`" for x in tuned.chosen.values() if not _is_lowest(x, tuned)))
    rule = "The value with the lowest mean held-out loss was chosen"
    if moved:
        rule = (
            "Of the values whose mean is not clearly above the lowest, the nearest to the lowest point of a "
            f"curve through the losses was chosen (for {first_few(moved, NAMED)} not that of the lowest mean)"
        )
    return (
        f"Each {analysis.noun} was tuned in each {analysis.stratum} with {fields}, seeds "
        f"{listed(map(str, plan.seeds))}: {span(tuned.num_runs.values(), 'd')} runs{widened}. {rule}, "
        "on seeds and held-out text that no main run has. The standard errors of the held-out loss hold what "
        "the choice adds. Learning curves and other metrics take the chosen values as given."
    )


def _is_lowest(choice: Choice, tuned: Tuned) -> bool:
    """Whether no point that was tried has a lower mean over the planned seeds."""
    return choice.loss is None or choice.loss <= min(x.mean for x in tuned.plan.tried_of(choice))


def _values(analysis: Analysis, tuned: Tuned) -> str:
    """Each choice with its optimum, and what missing it costs."""
    rows = records_table(
        {
            analysis.stratum: family_label(line.family),
            analysis.noun: f"`{line.variant}`",
            "field": f"`{line.field}`",
            "chosen": _text(line.values[line.chosen]) + (" (boundary)" if line.is_at_edge else ""),
            **{heading: _number(_numbers(line)[name], form) for heading, (name, form) in WORTH.items()},
        }
        for line in tuned.lines
    )
    return (
        f"{rows}\n\n*Optimum* and costs (nats): of a curve through the chosen value and its "
        "nearest neighbours; - where the grid does not reach. *Regret*: the loss at the chosen value minus "
        "the lowest of the curve. More tuning seeds and a finer grid lessen it; more seeds of the main runs "
        "do not."
    )


def _side_by_side(analysis: Analysis, tuned: Tuned) -> str:
    """The difference of every comparison at the shared value, and at each one's own."""
    if not analysis.at_shared_rate:
        return ""
    shared = listed(dict.fromkeys(_point(point) for point in tuned.shared_points.values()))
    rows = records_table(_both(analysis, tuned, both) for both in analysis.at_shared_rate)
    return (
        f"**At one value for all**, the best of `{tuned.plan.plan.baseline}` ({shared}), and at each one's "
        "own. Verdicts are of the second alone; intervals of the first are in tables/shared_rate.csv."
        f"\n\n{rows}"
    )


def _both(analysis: Analysis, tuned: Tuned, both: AtSharedRate) -> dict[str, str]:
    compared, num_runs = both.own.contrast.compared, both.own.num_runs_plus
    missing = num_runs - both.shared.num_runs_plus
    chosen = [x for (f, v), x in tuned.chosen.items() if v == compared and f in both.own.families]
    return {
        analysis.stratum: family_label(both.own.family),
        analysis.noun: f"`{compared}`",
        "at the shared value": difference(both.shared)
        + (f" ({missing} of {num_runs} runs missing)" if missing > 0 else ""),
        "own value": ", ".join(dict.fromkeys(_point(choice.point) for choice in chosen)) or "-",
        "at its own": difference(both.own),
    }


def _point(point: Mapping[str, Value]) -> str:
    return ", ".join(map(_text, point.values()))


def _text(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def _numbers(line: Line) -> dict[str, float | None]:
    """Losses and costs in nats per target token, the optimum in the unit of the field."""
    curve, selection = line.curve, line.selection
    return {
        "choice_error": None if selection is None else math.sqrt(selection.variance),
        "optimum": None if curve is None else curve.optimum,
        "loss_at_optimum": None if curve is None else curve.loss,
        "cost_of_a_third": None if curve is None else curve.lower,
        "cost_of_threefold": None if curve is None else curve.higher,
    }


def tables(analysis: Analysis, tuned: Tuned) -> Mapping[str, pd.DataFrame]:
    """Return every choice with what it is worth; every loss is in the study's ``tuning.json``."""
    return {"tuning": pd.DataFrame(_record(line, tuned) for line in tuned.lines)}


def _record(line: Line, tuned: Tuned) -> dict[str, object]:
    return {
        **{name: getattr(line, name) for name in ("family", "variant", "field")},
        "chosen": str(line.values[line.chosen]),
        "is_at_edge": line.is_at_edge,
        "num_runs": tuned.num_runs[line.family, line.variant],
        **_numbers(line),
    }


def figures(analysis: Analysis, tuned: Tuned) -> Mapping[str, Draw]:
    """Draw a figure for each field with positive numbers; the first is called ``tuning``."""
    fields = dict.fromkeys(line.field for line in tuned.lines if line.rates is not None)
    return {
        file_name("tuning", field) if place else "tuning": partial(draw_tuning, analysis, tuned, field)
        for place, field in enumerate(fields)
    }


def draw_tuning(analysis: Analysis, tuned: Tuned, field: str) -> tuple[Figure, str]:
    """Draw one field, each variant above its own lowest mean, those of a family on one scale."""
    lines = {(x.family, x.variant): x for x in tuned.lines if x.field == field and x.rates is not None}
    chosen = {arm: float(line.values[line.chosen]) for arm, line in lines.items()}
    label = "held-out loss above the variant's lowest (nats)"
    figure, panels = small_panels(analysis, chosen, ("chosen:", ".2g"), field, label)
    for family in dict.fromkeys(family for family, _ in lines):
        of_family = [line for line in lines.values() if line.family == family]
        heights = [float(np.ptp(line.means[max(0, line.chosen - 1) : line.chosen + 2])) for line in of_family]
        reach = ABOVE * float(np.median(heights)) or 1.0
        shared = tuned.shared_points.get(family)
        for line in of_family:
            axes = panels[family, line.variant]
            _panel(axes, line, lines.get((family, analysis.baseline)))
            axes.set_ylim(-0.2 * reach, reach)
            if shared is not None:
                axes.axvline(float(shared[field]), color=GREY, lw=0.8, ls=":", zorder=0)
    add_legend(figure, _handles(analysis, tuned))
    optima = [f"{x.variant} {x.curve.optimum:.2g}" for x in lines.values() if x.curve]
    return figure, (
        f"Held-out loss against {field}, a panel for each {analysis.noun}, above its lowest mean, with the "
        f"range over tuning seeds and a star at the optimum; {first_few(optima, OPTIMA_NAMED)}"
    )


def _panel(axes: Axes, line: Line, baseline: Line | None) -> None:
    lowest, rates = float(line.means.min()), [float(value) for value in line.values]
    if baseline is not None and baseline is not line:
        axes.plot([float(x) for x in baseline.values], baseline.means - baseline.means.min(), **BEHIND)
    bottom, top = np.nanmin(line.losses, axis=-1) - lowest, np.nanmax(line.losses, axis=-1) - lowest
    axes.fill_between(rates, bottom, top, color=BLUE, alpha=BAND_ALPHA, lw=0)
    axes.plot(rates, line.means - lowest, color=BLUE, lw=1.2, marker="o", ms=2.5)
    axes.plot(rates[line.chosen], line.means[line.chosen] - lowest, "o", color=BLUE, ms=5, mfc="white")
    if line.curve is not None:
        optimum, loss = line.curve.optimum, line.curve.loss - lowest
        axes.plot(optimum, loss, "*", color=VERMILION, ms=7, mec="white", mew=0.5, zorder=4)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([rates[0], rates[-1]], [f"{rates[0]:g}", f"{rates[-1]:g}"])
    axes.locator_params(axis="y", nbins=3)


def _handles(analysis: Analysis, tuned: Tuned) -> list[Line2D]:
    shared = Line2D([], [], color=GREY, lw=0.8, ls=":", label="shared value")
    return [
        Line2D([], [], color=BLUE, lw=1.2, marker="o", ms=2.5, label="mean and range over seeds"),
        Line2D([], [], color=BLUE, lw=0, marker="o", ms=5, mfc="white", label="chosen"),
        Line2D([], [], color=VERMILION, lw=0, marker="*", ms=7, label="optimum"),
        Line2D([], [], color=GREY, lw=0.8, label=str(analysis.baseline)),
        *[shared] * bool(tuned.shared_points),
    ]


PART = Part(name="tuning", compute=compute, section=section, figures=figures, tables=tables, checks=checks)
