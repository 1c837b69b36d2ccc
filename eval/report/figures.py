"""The report's figures: SVG files that come out byte for byte the same from the same numbers."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from eval.comparison import Comparison
from eval.report.analysis import PAIR_BENCHMARKS, Analysis

# Okabe and Ito (2008), told apart with any common colour vision; markers repeat what colours say.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
AVERAGE_COLOUR = "#000000"
GREY = "#6b6b6b"
STYLE = {
    "font.family": "DejaVu Sans",  # ships with matplotlib, so that every machine draws the same
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "svg.hashsalt": "ffn-ablations",  # fixed element ids
    "svg.fonttype": "path",
}
WIDTH_IN = 7.4
FAMILY_LABELS = {"gpt_neo": "GPT-Neo", "roberta": "RoBERTa", "t5": "T5"}


def family_label(family: str | None) -> str:
    """Name a family as a reader writes it; None is the average over families."""
    return "averaged" if family is None else FAMILY_LABELS.get(family, family)


def file_name(kind: str, benchmark: str) -> str:
    """Name a figure's file, whatever characters a table puts into a benchmark's name."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9._-]+', '-', benchmark)}"


def to_svg(figure: Figure) -> str:
    """Draw a figure as SVG without a date."""
    with matplotlib.rc_context(STYLE):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def draw_all(analysis: Analysis) -> dict[str, tuple[Figure, str]]:
    """Draw every figure of a report.

    Returns:
        File name without suffix, mapped to the figure and its alt text.
    """
    figures = {}
    with matplotlib.rc_context(STYLE):
        for benchmark in analysis.benchmarks:
            figures[file_name("forest", benchmark)] = _forest(analysis, benchmark)
            figures[file_name("seeds", benchmark)] = _seeds(analysis, benchmark)
        if any(len(facts.curve) > 1 for facts in analysis.facts):
            figures["held-out-loss"] = _curves(analysis)
    return figures


def _style(scopes: Sequence[str | None]) -> dict[str | None, tuple[str, str]]:
    """Colour and marker of each scope; the average is a black diamond."""
    families = [scope for scope in scopes if scope is not None]
    style: dict[str | None, tuple[str, str]] = {
        f: (PALETTE[i % (len(PALETTE) - 1)], MARKERS[i % 3]) for i, f in enumerate(families)
    }
    style[None] = (AVERAGE_COLOUR, "D")
    return style


def _forest(analysis: Analysis, benchmark: str) -> tuple[Figure, str]:
    """Differences to the baseline with intervals, per variant: the average first, then each family."""
    scopes = analysis.scopes(benchmark)
    style, row_height = _style(scopes), 0.21
    step = len(scopes) + 0.9  # rows per variant and the gap to the next
    height = 1.25 + row_height * step * len(analysis.others)
    figure = _figure(height)
    axes = figure.subplots()
    limit = _axis_limit(analysis, benchmark)
    for place in range(len(analysis.others)):
        if place % 2 == 0:
            axes.axhspan(place * step - 0.95, place * step + step - 0.95, color="#f3f3f3", lw=0, zorder=0)
        for offset, scope in enumerate(scopes):
            comparison = analysis.of(benchmark, scope)[place]
            y = place * step + offset
            _interval(axes, comparison, y, limit, *style[scope])
            axes.text(
                1.02, y, _interval_text(comparison), transform=axes.get_yaxis_transform(),
                va="center", ha="left", fontsize=8, color=style[scope][0],
                fontweight="bold" if offset == 0 else "normal",
            )  # fmt: skip
    if analysis.margin is not None:
        axes.axvspan(-analysis.margin, analysis.margin, color="#0072B2", alpha=0.09, lw=0, zorder=0.5)
    axes.axvline(0, color=GREY, lw=1, zorder=1)
    axes.set_xlim(-limit, limit)
    axes.set_ylim(step * len(analysis.others) - 0.95, -0.95)
    axes.set_yticks([place * step + (len(scopes) - 1) / 2 for place in range(len(analysis.others))])
    axes.set_yticklabels(analysis.others, fontweight="bold")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"difference to {analysis.baseline} on {benchmark} (percentage points; right is better)")
    handles: list[Any] = [
        Line2D([], [], color=style[s][0], marker=style[s][1], ms=5, lw=1.6, label=family_label(s))
        for s in scopes
    ]
    handles.append(Line2D([], [], color=GREY, marker="o", mfc="white", lw=0, ms=5, label="no interval"))
    if analysis.margin is not None:
        label = f"within {analysis.margin:g} (named negligible)"
        handles.append(Line2D([], [], color="#0072B2", alpha=0.2, lw=7, label=label))
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 5), fontsize=8)
    return figure, _forest_alt(analysis, benchmark)


def _axis_limit(analysis: Analysis, benchmark: str) -> float:
    """Reach of the axis on either side of zero; one very wide interval must not flatten all others."""
    chosen = [c for c in analysis.comparisons if c.benchmark == benchmark and c.estimate is not None]
    bounds = [c.largest_remaining for c in chosen if c.largest_remaining is not None]
    points = [abs(c.estimate) for c in chosen if c.estimate is not None]
    reach = min(max(bounds), 4 * float(np.median(bounds))) if bounds else 1.0
    return 1.06 * max([reach, *points, analysis.margin or 0.0, 0.1])


def _interval(axes: Axes, comparison: Comparison, y: float, limit: float, colour: str, marker: str) -> None:
    """Draw one estimate; an interval that leaves the axis ends in an arrow."""
    if comparison.estimate is None:
        return
    if comparison.low is None or comparison.high is None:
        axes.plot(comparison.estimate, y, marker, color=colour, mfc="white", ms=5, zorder=3)
        return
    low, high = max(comparison.low, -limit), min(comparison.high, limit)
    axes.plot([low, high], [y, y], color=colour, lw=1.6, solid_capstyle="butt", zorder=2)
    for bound, edge, arrow in ((comparison.low, -limit, "<"), (comparison.high, limit, ">")):
        if abs(bound) > limit and np.sign(bound) == np.sign(edge):
            axes.plot(edge, y, arrow, color=colour, ms=5, clip_on=False, zorder=3)
    axes.plot(comparison.estimate, y, marker, color=colour, ms=5, zorder=3)


def _interval_text(comparison: Comparison) -> str:
    if comparison.estimate is None:
        return "not estimable"
    if comparison.low is None:
        return f"{comparison.estimate:+.2f} (no interval)"
    return f"{comparison.estimate:+.2f} [{comparison.low:+.2f}, {comparison.high:+.2f}]"


def _forest_alt(analysis: Analysis, benchmark: str) -> str:
    said = [
        f"{variant} {_interval_text(comparison).replace('[', '(').replace(']', ')').replace(', ', ' to ')}"
        for variant, comparison in zip(analysis.others, analysis.primary(benchmark), strict=True)
    ]
    scope = family_label(analysis.scopes(benchmark)[0])
    return (
        f"Forest plot, {benchmark}: difference to {analysis.baseline} in percentage points with "
        f"{analysis.confidence:.0%} intervals, {scope}: {'; '.join(said)}"
    )


def _seeds(analysis: Analysis, benchmark: str) -> tuple[Figure, str]:
    """Every seed as a dot, one panel per family."""
    scores = analysis.runs[analysis.runs.benchmark == benchmark]
    families = [family for family in analysis.families if family in set(scores.family)]
    figure, panels = _panels(len(families), height=1.1 + 0.3 * len(analysis.variants), sharex=True)
    style = _style(families)
    for axes, family in zip(panels, families, strict=True):
        for place, variant in enumerate(analysis.variants):
            chosen = scores[(scores.family == family) & (scores.variant == variant)].sort_values("seed")
            values = np.asarray(chosen.score)
            if not len(values):
                axes.text(0.02, place, "no run", transform=axes.get_yaxis_transform(), fontsize=8,
                          color=GREY, ha="left", va="center")  # fmt: skip
                continue
            # Spread by seed order, so that equal scores stay visible; never at random, so that files repeat.
            spread = np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else np.zeros(1)
            axes.plot(
                values, place + spread, "o", color=style[family][0], ms=4.5, alpha=0.75, mew=0, zorder=3
            )
            axes.plot(
                [values.mean()] * 2, [place - 0.34, place + 0.34], color=AVERAGE_COLOUR, lw=1.8, zorder=4
            )
            if variant == analysis.baseline:
                axes.axvline(values.mean(), color=GREY, lw=0.9, ls="--", zorder=1)
        axes.set_title(family_label(family))
        axes.set_xlabel(f"{benchmark} score (percent)")
        axes.grid(axis="y", color="#e6e6e6", lw=0.6)
        axes.set_axisbelow(True)
    panels[0].set_yticks(range(len(analysis.variants)), analysis.variants)
    panels[0].set_ylim(len(analysis.variants) - 0.5, -0.5)
    if benchmark in PAIR_BENCHMARKS:
        for axes in panels:
            low, high = axes.get_xlim()
            if low <= 50 <= high:
                axes.axvline(50, color=GREY, lw=0.9, ls=":", zorder=1)
    alt = (
        f"Dot plot, {benchmark}: the score of every seed in percent, one row per variant, one panel per "
        f"family ({', '.join(map(family_label, families))}); bars are means, the dashed line is the mean of "
        f"{analysis.baseline}"
    )
    return figure, alt


def _curves(analysis: Analysis) -> tuple[Figure, str]:
    """Held-out loss during training: every seed thin, the mean over seeds thick."""
    families = [
        f for f in analysis.families if any(x.family == f and len(x.curve) > 1 for x in analysis.facts)
    ]
    figure, panels = _panels(len(families), height=3.4, sharey=False)
    for axes, family in zip(panels, families, strict=True):
        for place, variant in enumerate(analysis.variants):
            curves = [
                x.curve for x in analysis.facts if (x.family, x.variant) == (family, variant) and x.curve
            ]
            colour, dashes = PALETTE[place % len(PALETTE)], ("-", "--", ":")[place // len(PALETTE) % 3]
            for curve in curves:
                axes.plot(*zip(*curve, strict=True), color=colour, lw=0.6, alpha=0.4, ls=dashes)
            # A mean over other seeds at each step would jump where a run ends early: common steps only.
            steps = sorted(set.intersection(*(set(dict(curve)) for curve in curves))) if curves else []
            mean = [float(np.mean([dict(curve)[step] for curve in curves])) for step in steps]
            axes.plot(steps, mean, color=colour, lw=1.7, ls=dashes)
        axes.set_title(family_label(family))
        axes.set_xlabel("training step")
    panels[0].set_ylabel("held-out loss (nats per token)")
    handles = [
        Line2D(
            [], [], color=PALETTE[i % len(PALETTE)], ls=("-", "--", ":")[i // len(PALETTE) % 3], label=variant
        )
        for i, variant in enumerate(analysis.variants)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 6), fontsize=8)
    alt = (
        f"Learning curves: held-out loss in nats per token against training step, one panel per family "
        f"({', '.join(map(family_label, families))}), one colour per variant, thin lines single seeds"
    )
    return figure, alt


def _figure(height: float) -> Figure:
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06)  # inches
    return Figure(figsize=(WIDTH_IN, height), layout=layout)


def _panels(
    count: int, height: float, *, sharex: bool = False, sharey: bool = True
) -> tuple[Figure, list[Axes]]:
    figure = _figure(height)
    panels = figure.subplots(1, count, squeeze=False, sharex=sharex, sharey=sharey)
    return figure, list(panels[0])
