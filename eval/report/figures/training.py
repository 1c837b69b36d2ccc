"""The course of training: gradient norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.analysis import Analysis
from eval.report.document.names import family_label
from eval.report.figures.crowd import ALONE, BEHIND, in_drawn_order, is_crowd, small_panels
from eval.report.figures.style import (
    Panel,
    VariantStyle,
    add_legend,
    filled,
    label_log_axis,
    panels,
    variant_styles,
)
from eval.significance.axes import Family, Level

MOST_POINTS = 60  # of one line; more is noise in the picture and megabytes in the file
PANEL_IN = 2.7

Curve = Sequence[tuple[int, float]]
Curves = Mapping[tuple[Family, Level], Sequence[Curve]]

NORM = "gradient norm (L2, before clipping)"


def draw_gradient_norms(analysis: Analysis) -> tuple[Figure, str] | None:
    """Norm of the gradient before clipping: every seed thin, the mean over seeds thick."""
    curves = _curves(analysis)
    families = [name for name in analysis.families if any(family == name for family, _ in curves)]
    if not families:
        return None
    if is_crowd(analysis):
        return _draw_crowd(analysis, families, curves)
    figure, drawn = panels(len(families), PANEL_IN, columns=2)
    for axes, family in zip(drawn, families, strict=True):
        _panel(axes, analysis, family, curves)
    figure.supylabel(NORM, fontsize=9.5)
    add_legend(figure, _handles(analysis, curves))
    return figure, (
        "Gradient norm (L2, before clipping) against training step, one panel per family "
        f"({', '.join(map(family_label, families))}), one colour per {analysis.noun}, thin lines single "
        "seeds, thick lines their means; logarithmic axis"
    )


def _draw_crowd(analysis: Analysis, families: Sequence[Family], curves: Curves) -> tuple[Figure, str]:
    """Draw many variants, a small panel for each with the mean of the baseline behind."""
    order = in_drawn_order(analysis)
    shown = {family: [name for name in order if (family, name) in curves] for family in families}
    figure, panels_of = small_panels(shown, "training step", NORM)
    for (family, name), axes in panels_of.items():
        base = mean_curve(curves.get((family, analysis.baseline), []))
        if base:
            axes.plot(*zip(*base, strict=True), **BEHIND)
        _lines(axes, curves[family, name], ALONE)
        axes.set_yscale("log")
        label_log_axis(axes.yaxis)
        axes.locator_params(axis="x", nbins=3)
    return figure, (
        f"{NORM[0].upper()}{NORM[1:]} against training step, a small panel for each {analysis.noun} of "
        f"{', '.join(map(family_label, families))}: thin lines are single seeds, the thick one their mean, "
        f"the grey one the mean of {analysis.baseline}; logarithmic axis"
    )


def gradient_norms_panel(analysis: Analysis, family: Family) -> Panel | None:
    """Return the gradient norms of one family; nothing where none were logged."""
    curves = {key: found for key, found in _curves(analysis).items() if key[0] == family}
    if not curves:
        return None

    def draw(axes: Axes) -> None:
        _panel(axes, analysis, family, curves)
        axes.set_ylabel(NORM)

    return Panel(draw, _handles(analysis, curves), PANEL_IN + 0.4)


def _curves(analysis: Analysis) -> dict[tuple[Family, Level], list[Curve]]:
    curves: dict[tuple[Family, Level], list[Curve]] = {}
    for facts in analysis.facts:
        curve = [(step, value) for step, value in facts.grad_norms if value > 0]
        if len(curve) > 1:
            curves.setdefault((facts.family, facts.variant), []).append(curve)
    return curves


def _panel(axes: Axes, analysis: Analysis, family: Family, curves: Curves) -> None:
    styles = variant_styles(analysis.variants)
    for variant in analysis.variants:
        _lines(axes, curves.get((family, variant), []), styles[variant])
    axes.set_yscale("log")
    label_log_axis(axes.yaxis)
    axes.set_title(filled(family_label(family), 30))
    axes.set_xlabel("training step")
    axes.locator_params(axis="x", nbins=5)


def _handles(analysis: Analysis, curves: Curves) -> list[Line2D]:
    styles = variant_styles(analysis.variants)
    shown = [name for name in analysis.variants if any(variant == name for _, variant in curves)]
    return [styles[name].line(str(name)) for name in shown]


def _lines(axes: Axes, curves: Sequence[Curve], style: VariantStyle) -> None:
    thinned = [thin(curve) for curve in curves]
    for curve in thinned:
        axes.plot(*zip(*curve, strict=True), color=style.colour, lw=0.5, alpha=0.3, ls=style.dashes)
    mean = mean_curve(curves)
    if mean:
        axes.plot(*zip(*mean, strict=True), color=style.colour, lw=1.7, ls=style.dashes)


def mean_curve(curves: Sequence[Curve]) -> list[tuple[float, float]]:
    """Average over seeds at common steps, thinned: over other seeds at each step it would jump."""
    values = [dict(curve) for curve in curves]
    steps = sorted(set.intersection(*map(set, values))) if values else []
    return thin([(step, float(np.mean([value[step] for value in values]))) for step in steps])


def thin(curve: Curve, most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Average neighbouring points until at most ``most`` are left."""
    if len(curve) <= most:
        return list(curve)
    return [tuple(group.mean(0).tolist()) for group in np.array_split(np.asarray(curve, dtype=float), most)]
