"""What the figures share: colours, sizes, legends and the files they are written to."""

from __future__ import annotations

import html
import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import matplotlib
import numpy as np
from matplotlib import rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.rcsetup import cycler
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from report.significance.axes import Family, Level

# Okabe and Ito (2008), told apart with any common colour vision; markers and dashes say it in grey, too.
BLUE, VERMILION = "#0072B2", "#D55E00"
PALETTE = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.")
AVERAGE_COLOUR = "#000000"
GREY = "#6b6b6b"
SMALL = 8.5  # points; the other sizes are in report.mplstyle
SHEET = files("report.figures") / "report.mplstyle"
STYLE = dict(rc_params_from_file(str(SHEET), use_default_template=False))
STYLE["axes.prop_cycle"] = cycler(color=PALETTE)
# Shown at its own size (595 px), two beside each other on a wide screen, and with text still legible at 390.
WIDTH_IN = 6.2
DPI = 200
POINTS_PER_INCH = 72
KEY_IN = 0.55  # a legend's line or marker with the space around it
MOST_POINTS = 60  # of one line; more is noise in the picture and megabytes in the file
Curve = Sequence[tuple[int, float]]
"""Step or tokens, and a value."""


class VariantStyle(NamedTuple):
    """How a variant looks in every figure that tells variants apart."""

    colour: str
    marker: str
    hollow: bool
    dashes: str

    @property
    def points(self) -> dict[str, Any]:
        """Return how matplotlib draws its points."""
        fill = "white" if self.hollow else self.colour
        return {"color": self.colour, "marker": self.marker, "mfc": fill, "ms": 5, "mew": 1.2, "zorder": 3}

    def line(self, label: str) -> Line2D:
        """Return its line in a legend."""
        return Line2D([], [], color=self.colour, ls=self.dashes, lw=1.7, label=label)

    def point(self, label: str, dashes: str = "") -> Line2D:
        """Return its point in a legend, on a line where that is drawn."""
        return Line2D([], [], ls=dashes, lw=1.4, label=label, **self.points)


class Panel(NamedTuple):
    """What stands in one pair of axes, for whoever has axes to put it in."""

    draw: Callable[[Axes], None]
    handles: Sequence[Any]
    """Of its legend."""
    height: float
    """Inches of a figure of its own, without the legend."""
    width: float = WIDTH_IN


def variant_styles(variants: Sequence[Level]) -> dict[Level, VariantStyle]:
    """Give each variant a look of its own, by its place; looks repeat after 49."""
    styles = {}
    for place, variant in enumerate(variants):
        turn, index = divmod(place, len(PALETTE))
        marker = MARKERS[(index + turn) % len(MARKERS)]
        styles[variant] = VariantStyle(PALETTE[index], marker, turn % 2 == 1, DASHES[place % len(DASHES)])
    return styles


def family_styles(families: Sequence[Family]) -> dict[Family | None, tuple[str, str]]:
    """Colour and marker of each family; the average (None) is a black diamond. Looks repeat after 18."""
    styles: dict[Family | None, tuple[str, str]] = {}
    for place, family in enumerate(families):
        turn, index = divmod(place, len(PALETTE) - 1)
        styles[family] = PALETTE[index], MARKERS[(index + turn) % 3]
    styles[None] = (AVERAGE_COLOUR, "D")
    return styles


class ReportFigure(Figure):
    """A figure that pyplot does not know, and that a notebook shows nevertheless."""

    def _repr_png_(self) -> bytes:
        return to_png(self)


def new_figure(height: float, width: float = WIDTH_IN) -> ReportFigure:
    """Make a figure (inches) that lays itself out without overlaps."""
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)  # inches
    return ReportFigure(figsize=(width, height), layout=layout)


def panels(
    count: int, height: float, *, columns: int, sharey: bool | Literal["col", "row"] = False
) -> tuple[Figure, list[Axes]]:
    """Make a figure of ``count`` panels, each line of panels ``height`` inches; spare places stay empty."""
    columns = min(columns, count)
    lines = math.ceil(count / columns)
    figure = new_figure(height * lines)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=sharey).ravel()
    for axes in grid[count:]:
        axes.remove()
    return figure, list(grid[:count])


def add_legend(figure: Figure, handles: Sequence[Any], is_below: bool = False) -> None:
    """Put a legend above (or below) everything in as many columns as fit; the figure grows taller by it."""
    widest = max(text_width(handle.get_label()) for handle in handles) + KEY_IN
    width, height = figure.get_size_inches()
    lines = math.ceil(len(handles) / max(1, int((width - 0.2) / widest)))
    columns = math.ceil(len(handles) / lines)
    figure.set_size_inches(width, height + 0.19 * lines + 0.1)
    place = "outside lower center" if is_below else "outside upper center"
    figure.legend(handles=list(handles), loc=place, ncols=columns, columnspacing=1.2)


def add_grid(axes: Axes) -> None:
    """Draw a pale grid behind everything."""
    axes.grid(color="#ececec", lw=0.6)
    axes.set_axisbelow(True)


def thin(curve: Curve, most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Average neighbouring points until at most ``most`` are left."""
    if len(curve) <= most:
        return list(curve)
    return [tuple(group.mean(0).tolist()) for group in np.array_split(np.asarray(curve, dtype=float), most)]


def use_log_scale(axes: Axes) -> None:
    """Make the axis of costs or sizes logarithmic."""
    axes.set_xscale("log")
    axes.margins(x=0.08)
    label_log_axis(axes.xaxis)


def label_log_axis(axis: Axis) -> None:
    """Write plain numbers at a logarithmic axis, several even where it spans less than a decade."""
    low, high = axis.get_view_interval()
    subs = (1, 2, 5) if high < 60 * low else (1,)  # of 0.3 to 80 three for each decade would touch
    axis.set_major_locator(LogLocator(subs=subs) if high > 6 * low else MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


@lru_cache(maxsize=10_000)
def text_width(text: str, size: float = SMALL) -> float:
    """Width of drawn text in inches, of its longest line."""
    lines = [TextPath((0, 0), line, size=size) for line in text.split("\n") if line.strip()]
    # Every curve of this font begins or ends where it reaches farthest; get_extents takes five times as long.
    points = [line.vertices[line.codes != Path.CLOSEPOLY, 0] for line in lines]
    return max((float(np.ptp(x)) for x in points if x.size), default=0.0) / POINTS_PER_INCH


def in_two_lines(name: str, width: int = 18) -> str:
    """Break a long name once, at a space, else at a sign that joins its parts, else in the middle."""
    if len(name) <= width:
        return name
    signs = " " if " " in name[1:-1] else "-_+/."
    breaks = [i + 1 for i, sign in enumerate(name[:-1]) if sign in signs and i > 0]
    middle = len(name) / 2
    place = min(breaks, key=lambda i: abs(i - middle), default=round(middle))
    return f"{name[:place].rstrip(' ')}\n{name[place:]}"


def filled(text: str, width: int) -> str:
    """Wrap a label at spaces; names stay whole."""
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def titled(name: str, finding: str, width: int) -> str:
    """Write a title: what is drawn, and below it what is found, where anything is."""
    return "\n".join(filled(text, width) for text in (name, finding) if text)


def extremes(what: str, values: Mapping[Any, float | None], form: str) -> str:
    """Say who has the least and who the greatest number: ``at the end +0.014 (swish) to +0.198 (kan)``."""
    known = {name: value for name, value in values.items() if value is not None and not np.isnan(value)}
    ends = dict.fromkeys(end(known, key=known.__getitem__) for end in (min, max) if known)
    return " ".join([what, " to ".join(f"{known[name]:{form}} ({name})" for name in ends)]) if known else ""


def settle(figure: Figure) -> None:
    """Lay a figure out once and for all, so that SVG, PDF and PNG show the same however often it is drawn."""
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)
        figure.set_layout_engine(None)  # not "none", whose place holder costs one drawing more for each file


def to_svg(figure: Figure, title: str = "", description: str = "") -> str:
    """Draw a figure as SVG without a date.

    Args:
        figure: What to draw.
        title: What a browser shows where the pointer rests, and a screen reader says first.
        description: What a screen reader says then: the alt text.
    """
    metadata = {"Date": None, "Creator": None, **({"Title": title} if title else {})}
    text = _saved(figure, format="svg", metadata=metadata).decode()
    element = f"\n <desc>{html.escape(description, quote=False)}</desc>" if description else ""
    return text.replace("</title>", f"</title>{element}", 1)


def to_pdf(figure: Figure) -> bytes:
    """Draw a figure as PDF without a date or the software's name, its fonts embedded as TrueType."""
    metadata = {"Creator": None, "Producer": None, "CreationDate": None}
    return _saved(figure, format="pdf", metadata=metadata)


def to_png(figure: Figure) -> bytes:
    """Draw a figure as PNG at 200 dots per inch, without a date or the software's name."""
    return _saved(figure, format="png", dpi=DPI, metadata={"Software": None})


def _saved(figure: Figure, **options: Any) -> bytes:
    # Type 3, matplotlib's default for fonts in PDF, is refused by some publishers.
    with matplotlib.rc_context({**STYLE, "pdf.fonttype": 42}):
        settle(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, **options)
    return buffer.getvalue()
