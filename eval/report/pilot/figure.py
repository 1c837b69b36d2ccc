"""A pilot in one picture: hours to find the difference, and spread over seeds against loss."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.figures.style import (
    BLUE,
    GREY,
    SMALL,
    VERMILION,
    add_legend,
    label_log_axis,
    panels,
)
from eval.report.inputs.recipe import recipe_name
from eval.report.pilot.choice import Choice, Weighed

ROW_IN = 0.24


def draw_pilot(choice: Choice) -> tuple[Figure, str] | None:
    """Draw both panels; None where no recipe has a spread.

    Returns:
        The figure and its alt text.
    """
    if not any(seen.spread for one in choice.weighed for seen in one.seen):
        return None
    figure, (hours, spread) = panels(2, 1.2 + ROW_IN * len(choice.weighed), columns=2)
    _hours(hours, choice)
    _spread(spread, choice)
    marks = (("chosen", VERMILION, "full"), ("others", BLUE, "full"), ("not to be chosen", GREY, "none"))
    add_legend(
        figure,
        [
            Line2D([], [], color=colour, marker="o", lw=0, ms=5, fillstyle=style, label=label)
            for label, colour, style in marks
        ],
    )
    said = "none" if choice.chosen is None else recipe_name(choice.chosen.recipe)
    return figure, (
        f"Left: hours of training to find a difference of {choice.plan.detect:g} nats, one row for each "
        f"recipe; right: spread over seeds with its interval against the baseline's loss; chosen: {said}"
    )


def _look(choice: Choice, one: Weighed) -> tuple[str, str]:
    if one is choice.chosen:
        return VERMILION, "full"
    return (GREY, "none") if one.refused else (BLUE, "full")


def _hours(axes: Axes, choice: Choice) -> None:
    for place, one in enumerate(choice.weighed):
        colour, style = _look(choice, one)
        if one.hours is not None:
            shares = [((p.low / p.sd) ** 2, (p.high / p.sd) ** 2) for p in one.promises]  # of the variance
            ends = [one.hours * min(low for low, _ in shares), one.hours * max(high for _, high in shares)]
            axes.plot(ends, [place] * 2, color=colour, lw=0.9, alpha=0.6)
            axes.plot([one.hours], [place], "o", color=colour, ms=6, fillstyle=style)
        else:
            why = "cannot be chosen" if one.refused else "over 1,000 seeds"
            axes.text(0.03, place, why, transform=axes.get_yaxis_transform(), fontsize=SMALL,
                      color=GREY, va="center")  # fmt: skip
    names = [", ".join(level for _, level in one.recipe) for one in choice.weighed]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    if any(one.hours is not None for one in choice.weighed):
        axes.set_xscale("log")
        axes.margins(x=0.12)
        label_log_axis(axes.xaxis)
    axes.set_xlabel(f"hours to find {choice.plan.detect:g} nats")
    axes.set_title("tokens, rate, batch" if len(choice.plan.recipes[0]) == 3 else "recipe", loc="left")
    axes.grid(axis="y", color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)


def _spread(axes: Axes, choice: Choice) -> None:
    for one in choice.weighed:
        colour, style = _look(choice, one)
        for seen in one.seen:
            loss, spread = seen.losses[0], seen.spread
            if loss is None or spread is None:
                continue
            axes.plot([loss] * 2, [spread.low, spread.high], color=colour, lw=0.9, alpha=0.6, zorder=2)
            axes.plot([loss], [spread.sd], "o", color=colour, ms=6, fillstyle=style, zorder=3)
    axes.set_yscale("log")
    label_log_axis(axes.yaxis)
    axes.set_xlabel(f"loss of {choice.plan.variants[0]} (nats)")
    axes.set_title("spread over seeds (nats)", loc="left")
