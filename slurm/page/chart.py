"""A line chart as inline SVG, drawn with the page's own colours, so that it follows dark and light."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 34
EDGE = 4
"""Around the axes, so that a dot at an edge is whole."""
NUM_TICKS = 4
NUM_COLOURS = 10
DASHES = ("", "6 3", "2 3", "8 3 2 3")
"""Told apart in grey as well; the next row of colours has the next dash."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a chart.

    Attributes:
        name: What a reader sees when pointing at it.
        place: Which colour and dash it has, the same for a variant in every chart.
        points: x and y, x growing.
        band: x, lower and upper y; empty for none.
        mark: A point to be marked.
    """

    name: str
    place: int
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()
    mark: tuple[float, float] | None = None


def style_of(place: int) -> str:
    """Return the class and the dash of a line as attributes: no two alike among the first 40."""
    dash = DASHES[(place + place // NUM_COLOURS) % len(DASHES)]
    return f'class="line c{place % NUM_COLOURS}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def draw(lines: Sequence[Line], x_label: str, is_log: bool = False) -> str:
    """Draw lines with axes around them.

    Args:
        lines: At least one, with at least one point.
        x_label: What x is; y is a loss in nats.
        is_log: Whether x is on a logarithmic axis; all x are above 0 then.

    Returns:
        An ``<svg>`` element.
    """
    xs = [math.log10(x) if is_log else x for line in lines for x, _ in line.points]
    ys = _shown(lines)
    across = _scale(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    up = _scale(min(ys), max(ys), HEIGHT - BOTTOM, TOP)

    def place(x: float, y: float) -> str:
        return f"{across(math.log10(x) if is_log else x):.1f},{up(y):.1f}"

    parts = []
    for line in lines:
        if line.band:
            edge = [place(x, low) for x, low, _ in line.band]
            edge += [place(x, high) for x, _, high in reversed(line.band)]
            parts.append(f'<polygon class="band c{line.place % NUM_COLOURS}" points="{" ".join(edge)}"/>')
    for line in lines:
        told = f"<title>{html.escape(line.name)}</title>"
        points = " ".join(place(*point) for point in line.points)
        parts.append(f'<polyline {style_of(line.place)} points="{points}">{told}</polyline>')
        if len(line.points) == 1 or line.mark:
            x, y = (line.mark or line.points[0])[:2]
            where = place(x, y).split(",")
            parts.append(
                f'<circle class="dot c{line.place % NUM_COLOURS}" cx="{where[0]}" cy="{where[1]}" r="4">'
                f"{told}</circle>"
            )
    axes = _axes(across, up, (min(xs), max(xs)), (min(ys), max(ys)), x_label, is_log)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{axes}{_clipped(parts)}</svg>'


def _clipped(parts: Sequence[str]) -> str:
    """Cut off what lies outside the axes: drawn along their edge it would look like a plateau."""
    x, y, width, height = (
        LEFT - EDGE,
        TOP - EDGE,
        WIDTH - LEFT - RIGHT + 2 * EDGE,
        HEIGHT - TOP - BOTTOM + 2 * EDGE,
    )
    box = f'x="{x}" y="{y}" width="{width}" height="{height}" viewBox="{x} {y} {width} {height}"'
    return f'<svg class="inside" {box}>{"".join(parts)}</svg>'


def _shown(lines: Sequence[Line]) -> list[float]:
    """Loss values that the axis spans: the start of training is cut where it would flatten the rest."""
    ys = sorted(y for line in lines for _, y in line.points)
    ends = [line.points[-1][1] for line in lines]
    top = max(*ends, ys[min(len(ys) - 1, int(0.75 * len(ys)))])
    return [ys[0], max(top, ys[0] + 1e-3)] if len(ys) > 12 else [ys[0], max(ys[-1], ys[0] + 1e-3)]


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    width = (high - low) or 1.0
    return lambda value: start + (end - start) * (value - low) / width


def _axes(
    across: Callable[[float], float],
    up: Callable[[float], float],
    xs: tuple[float, float],
    ys: tuple[float, float],
    x_label: str,
    is_log: bool,
) -> str:
    parts = []
    for value in _ticks(*ys):
        y = up(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    for value in _ticks(*xs) if not is_log else _log_ticks(*xs):
        x, text = across(value), f"{10**value:.0e}".replace("e-0", "e-") if is_log else f"{value:,.0f}"
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{text}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 3}" text-anchor="middle">{html.escape(x_label)}</text>')
    return "".join(parts)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two, a few of them."""
    if high <= low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / NUM_TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= NUM_TICKS + 0.5)
    first = math.ceil(low / step - 1e-9)
    return [place * step for place in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    tens = [float(power) for power in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)]
    return tens if len(tens) > 1 else [low, high] if high > low else [low]
