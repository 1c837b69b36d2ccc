"""The course of training: gradient norms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.analysis import Analysis
from eval.report.figures.style import VariantStyle, add_legend, filled, label_log_axis, panels, variant_styles
from eval.report.names import family_label
from eval.significance.axes import Family, Level

MOST_POINTS = 60  # of one line; more is noise in the picture and megabytes in the file
PANEL_IN = 2.7

Curve = Sequence[tuple[int, float]]


def draw_gradient_norms(analysis: Analysis) -> tuple[Figure, str] | None:
    """Norm of the gradient before clipping: every seed thin, the mean over seeds thick."""
    curves: dict[tuple[Family, Level], list[Curve]] = {}
    for facts in analysis.facts:
        curve = [(step, value) for step, value in facts.grad_norms if value > 0]
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
        axes.set_yscale("log")
        label_log_axis(axes.yaxis)
        axes.set_title(filled(family_label(family), 30))
        axes.set_xlabel("training step")
        axes.locator_params(axis="x", nbins=5)
    figure.supylabel("gradient norm (L2, before clipping)", fontsize=9.5)
    shown = [name for name in analysis.variants if any(variant == name for _, variant in curves)]
    add_legend(figure, [_handle(str(name), styles[name]) for name in shown])
    return figure, (
        "Gradient norm (L2, before clipping) against training step, one panel per family "
        f"({', '.join(map(family_label, families))}), one colour per {analysis.noun}, thin lines single "
        "seeds, thick lines their means; logarithmic axis"
    )


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


def _handle(name: str, style: VariantStyle) -> Line2D:
    return Line2D([], [], color=style.colour, ls=style.dashes, lw=1.7, label=name)
