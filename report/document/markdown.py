"""Numbers and Markdown as pages write them, with the decimals that their spread over seeds allows."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from report.significance.comparison import Comparison
from scores.metrics import Metric
from scores.suites import Better

Name = TypeVar("Name", bound=Hashable)
MOST_DIGITS = 8
MANY_DIGITS = 1e5
"""From here on a number is written with its power of ten: few runs at an early look leave that wide."""
ARROWS: dict[Better, str] = {"higher": "↑", "lower": "↓"}
UNITS = {"percent": "points", "correlation": "points", "ratio": ""}
"""What a difference is said to be in, where that is not the name of the unit."""
_MARKUP = re.compile(r"[\\`*\[\]<>#~&]|(?<![^\W_])_|_(?![^\W_])")
_LIST = re.compile(r"^(\s*\d*)([-+.)=])")


def listed(names: Iterable[str], word: str = "and") -> str:
    """Join names as a sentence does."""
    names = list(names)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


def signed(value: float | None, digits: int = 2) -> str:
    """Write a difference with its sign, which one that rounds to zero has not."""
    if value is None:
        return "-"
    if math.isinf(value):
        return "+∞" if value > 0 else "-∞"
    if abs(value) >= MANY_DIGITS:
        return f"{value:+.0e}"
    rounded = round(value, digits)
    return f"{rounded:+.{digits}f}" if rounded else f"{0:.{digits}f}"


def difference(comparison: Comparison) -> str:
    """Write an estimate with the decimals of its metric."""
    return signed(comparison.estimate, comparison.digits)


def amount(value: float | None, comparison: Comparison) -> str:
    """Write a number in the unit of a comparison, and the unit; percentages differ by 100 at most."""
    if value is None:
        return "-"
    if math.isinf(value):
        return "any size"
    if comparison.unit == "percent" and value >= 100:
        return "any size"
    return f"{value:.{comparison.digits}f} {unit_name(comparison.unit)}".strip()


def margin(comparison: Comparison) -> str:
    """Write what counts as negligible, in the scale of a comparison."""
    if comparison.margin is None:
        return "none named"
    unit = unit_name(comparison.unit)
    return f"{comparison.margin:g} {unit.removesuffix('s') if comparison.margin == 1 else unit}".strip()


def arrow(metric: Metric) -> str:
    """Point to the better scores: ↑ or ↓."""
    return ARROWS[metric.better]


def anchor(heading: str) -> str:
    """Return the id that GitHub gives a heading: lower case, hyphens for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def unit_name(unit: str | None) -> str:
    """Name the unit of a difference; empty where there is none."""
    return UNITS.get(unit, unit) if unit else ""


def interval(comparison: Comparison) -> str:
    """Write the interval that agrees with the verdict; one that ends at zero leaves zero out."""
    if comparison.interval is None:
        return "-"
    low, high = comparison.interval
    text = _ends(low, high, comparison.digits)
    if not comparison.is_different:
        return text
    return f"({text[1:]}" if low == 0 else f"{text[:-1]})" if high == 0 else text


def _ends(low: float, high: float, digits: int) -> str:
    """Write both ends, with as many decimals as it takes to see whether they hold zero."""
    if low * high > 0:
        nearest = min(abs(low), abs(high))
        digits = next((d for d in range(digits, MOST_DIGITS) if round(nearest, d)), MOST_DIGITS)
    return f"[{signed(low, digits)}, {signed(high, digits)}]"


def p_value(value: float | None) -> str:
    """Write a p-value."""
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def spread(value: float, digits: int = 1) -> str:
    """Write a standard deviation behind its mean; a single run has none."""
    return "" if np.isnan(value) else f" ± {value:.{digits}f}"


def count(value: int | None) -> str:
    """Write a whole number."""
    return "-" if value is None else f"{value:,}"


def millions(value: int | None) -> str:
    """Write a whole number in millions."""
    return "-" if value is None else f"{value / 1e6:,.3f}"


def share(value: int | None, base: int | None) -> str:
    """Write how much larger a number is than its base, in percent."""
    return "-" if not value or not base else f"{100 * (value / base - 1):+.1f}%"


def bold(text: str, wanted: bool) -> str:
    """Set in bold if wanted."""
    return f"**{text}**" if wanted else text


def escape(text: str) -> str:
    """Keep text inside its table cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def plain(text: str) -> str:
    """Escape text that Markdown shall show as it stands, on one line."""
    return _LIST.sub(r"\1\\\2", _MARKUP.sub(r"\\\g<0>", text)).replace("\n", " ")


def figure(name: str, alt: str) -> str:
    """Link a figure of a document by its file name without suffix."""
    return f"![{escape(alt)}](figures/{name}.svg)"


def shaded(text: str, share: float, title: str = "") -> str:
    """Shade text, blue for and orange against.

    Args:
        text: Markdown.
        share: Of the strongest shade, from -1 (against) to 1 (for).
        title: What is shown where the pointer rests, without markup.
    """
    kind, tooltip = "favour" if share > 0 else "against", f' title="{title}"' if title else ""
    return f'<mark class="{kind}" style="--strength:{min(1.0, abs(share)):.3f}"{tooltip}>{text}</mark>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [list(header), ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(escape(cell) for cell in line) + " |" for line in lines)


def details(summary: str, body: str) -> str:
    """Fold a long part away under its summary."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"
