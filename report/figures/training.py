"""Gradient norms in the course of training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from report.analysis import Analysis
from report.document.names import family_label
from report.figures.crowd import ALONE, in_drawn_order, small_panels
from report.figures.style import Panel, VariantStyle, filled, label_log_axis, variant_styles
from report.significance.axes import Family, Level

MOST_POINTS = 60  # of one line; more is noise in the picture and megabytes in the file
PANEL_IN = 3.1
NORM = "gradient norm (L2, before clipping)"
Curve = Sequence[tuple[int, float]]


def has_gradient_norms(analysis: Analysis) -> bool:
    """Whether any run logged them."""
    return bool(_curves(analysis))


def draw_gradient_norms(analysis: Analysis) -> tuple[Figure, str] | None:
    """Draw a small panel for each variant of each family, one line a run; None where none were logged."""
    curves = _curves(analysis)
    shown = {f: [v for v in in_drawn_order(analysis) if (f, v) in curves] for f in analysis.families}
    shown = {family: variants for family, variants in shown.items() if variants}
    if not shown:
        return None
    figure, drawn = small_panels(shown, "training step", filled(NORM, 20))
    for arm, axes in drawn.items():
        _lines(axes, curves[arm], ALONE)
        axes.locator_params(axis="x", nbins=3)
    return figure, (
        f"{NORM[0].upper()}{NORM[1:]} against training step, one line a run: a small panel for each "
        f"{analysis.noun} of {', '.join(map(family_label, shown))}; logarithmic axis"
    )


def gradient_norms_panel(analysis: Analysis, family: Family) -> Panel | None:
    """Return the gradient norms of one family; None where none were logged."""
    curves, styles = _curves(analysis), variant_styles(analysis.variants)
    present = [name for name in analysis.variants if (family, name) in curves]
    if not present:
        return None

    def draw(axes: Axes) -> None:
        for name in present:
            _lines(axes, curves[family, name], styles[name])
        axes.set_title(filled(family_label(family), 30))
        axes.set_xlabel("training step")
        axes.set_ylabel(NORM)

    return Panel(draw, [styles[name].line(str(name)) for name in present], PANEL_IN)


def _curves(analysis: Analysis) -> dict[tuple[Family, Level], list[Curve]]:
    curves: dict[tuple[Family, Level], list[Curve]] = {}
    for facts in analysis.facts:
        curve = [(step, value) for step, value in facts.grad_norms if value > 0]
        if len(curve) > 1:
            curves.setdefault((facts.family, facts.variant), []).append(curve)
    return curves


def _lines(axes: Axes, curves: Sequence[Curve], style: VariantStyle) -> None:
    for curve in curves:
        axes.plot(*zip(*thin(curve), strict=True), color=style.colour, lw=0.7, alpha=0.6, ls=style.dashes)
    axes.set_yscale("log")
    label_log_axis(axes.yaxis)


def thin(curve: Curve, most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Average neighbouring points until at most ``most`` are left."""
    if len(curve) <= most:
        return list(curve)
    return [tuple(group.mean(0).tolist()) for group in np.array_split(np.asarray(curve, dtype=float), most)]
