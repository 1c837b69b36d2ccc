"""The course of training: held-out loss and gradient norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.analysis import Analysis
from eval.report.figures.style import VariantStyle, add_legend, filled, label_log_axis, panels, variant_styles
from eval.report.names import family_label
from eval.report.run_facts import RunFacts
from eval.significance.axes import Family, Level

MOST_POINTS = 60  # of one line; more is noise in the picture and megabytes in the file
PANEL_IN = 2.7
START = 0.2  # share of the training whose high losses may leave the axis, so that its end can be read

Curve = Sequence[tuple[int, float]]


def draw_held_out_loss(analysis: Analysis) -> tuple[Figure, str] | None:
    """Held-out loss during training: every seed thin, the mean over seeds thick."""
    return _draw(analysis, lambda facts: facts.curve, "held-out loss (nats per token)", is_log=False)


def draw_gradient_norms(analysis: Analysis) -> tuple[Figure, str] | None:
    """Norm of the gradient before clipping: every seed thin, the mean over seeds thick."""
    return _draw(analysis, lambda facts: facts.grad_norms, "gradient norm (L2, before clipping)", is_log=True)


def _draw(
    analysis: Analysis, read: Callable[[RunFacts], Curve], label: str, is_log: bool
) -> tuple[Figure, str] | None:
    curves: dict[tuple[Family, Level], list[Curve]] = {}
    for facts in analysis.facts:
        curve = [(step, value) for step, value in read(facts) if value > 0 or not is_log]
        if len(curve) > 1:
            curves.setdefault((facts.family, facts.variant), []).append(curve)
    families = [name for name in analysis.families if any(family == name for family, _ in curves)]
    if not families:
        return None
    styles = variant_styles(analysis.variants)
    figure, drawn = panels(len(families), PANEL_IN, columns=2)
    for axes, family in zip(drawn, families, strict=True):
        for variant in analysis.variants:
            _lines(axes, curves.get((family, variant), []), styles[variant])
        if is_log:
            axes.set_yscale("log")
            label_log_axis(axes.yaxis)
        else:
            _cut_start(
                axes, [curve for (name, _), group in curves.items() if name == family for curve in group]
            )
        axes.set_title(filled(family_label(family), 30))
        axes.set_xlabel("training step")
        axes.locator_params(axis="x", nbins=5)
    figure.supylabel(label, fontsize=9.5)
    shown = [name for name in analysis.variants if any(variant == name for _, variant in curves)]
    add_legend(figure, [_handle(str(name), styles[name]) for name in shown])
    alt = (
        f"Learning curves: {label} against training step, one panel per family "
        f"({', '.join(map(family_label, families))}), one colour per variant, thin lines single seeds, "
        "thick lines their means"
    )
    return figure, alt + ("; logarithmic axis" if is_log else "; the axis leaves out the start")


def _lines(axes: Axes, curves: Sequence[Curve], style: VariantStyle) -> None:
    thinned = [thin(curve) for curve in curves]
    for curve in thinned:
        axes.plot(*zip(*curve, strict=True), color=style.colour, lw=0.5, alpha=0.3, ls=style.dashes)
    # A mean over other seeds at each step would jump where a run ends early: common steps only.
    values = [dict(curve) for curve in curves]
    steps = sorted(set.intersection(*map(set, values))) if values else []
    mean = thin([(step, float(np.mean([value[step] for value in values]))) for step in steps])
    if mean:
        axes.plot(*zip(*mean, strict=True), color=style.colour, lw=1.7, ls=style.dashes)


def thin(curve: Curve, most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Average neighbouring points until at most ``most`` are left."""
    if len(curve) <= most:
        return list(curve)
    return [tuple(group.mean(0).tolist()) for group in np.array_split(np.asarray(curve, dtype=float), most)]


def _cut_start(axes: Axes, curves: Sequence[Curve]) -> None:
    """End the axis at the highest value after the start of training."""
    later = [value for curve in curves for step, value in curve if step >= START * curve[-1][0]]
    low, high = min(later), max(later)
    axes.set_ylim(low - 0.06 * (high - low or 1), high + 0.06 * (high - low or 1))


def _handle(name: str, style: VariantStyle) -> Line2D:
    return Line2D([], [], color=style.colour, ls=style.dashes, lw=1.7, label=name)
