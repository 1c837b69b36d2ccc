"""Numbers, names and Markdown as pages write them, and the order in which a reader expects names."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from base import families
from report.significance.axes import RECIPE, SIZE, TOKENS, Benchmark, Family, Setting
from report.significance.comparison import Comparison
from scores.metrics import Metric
from scores.suites import HELD_OUT, SUITES, Better

Name = TypeVar("Name")
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
    return f"{value:.{decimals(value, comparison.digits)}f} {unit_name(comparison.unit)}".strip()


def margin(comparison: Comparison) -> str:
    """Write what counts as negligible, in the scale of a comparison that has a margin."""
    unit = unit_name(comparison.unit)
    size = f"{comparison.margin:g} {unit.removesuffix('s') if comparison.margin == 1 else unit}".strip()
    return "the default margin, " * comparison.metric.is_default_margin + size


def arrow(outcome: Metric) -> str:
    """Point to the better scores: ↑ or ↓."""
    return ARROWS[outcome.better]


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
        digits = decimals(min(abs(low), abs(high)), digits)
    return f"[{signed(low, digits)}, {signed(high, digits)}]"


def decimals(size: float, fewest: int) -> int:
    """Return how many decimals it takes to tell a size from zero, or the fewest for zero."""
    return next((d for d in range(fewest, MOST_DIGITS) if round(size, d) or not size), MOST_DIGITS)


def p_value(value: float | None) -> str:
    """Write a p-value."""
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def spread(value: float, digits: int = 1) -> str:
    """Write a standard deviation behind its mean; a single run has none."""
    return "" if np.isnan(value) else f" ± {value:.{digits}f}"


def span(values: Iterable[float], form: str) -> str:
    """Write the least and the greatest of numbers as ``3 to 5``, or once where both are written alike."""
    numbers = list(values)
    low, high = f"{min(numbers):{form}}", f"{max(numbers):{form}}"
    return low if low == high else f"{low} to {high}"


def bold(text: str, is_bold: bool) -> str:
    """Set in bold, or leave as it is."""
    return f"**{text}**" if is_bold else text


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


def records_table(records: Iterable[Mapping[str, str]]) -> str:
    """Write a Markdown table of records with the same headings; nothing without a record."""
    rows = list(records)
    return table(list(rows[0]), [list(row.values()) for row in rows]) if rows else ""


def details(summary: str, body: str) -> str:
    """Fold a long part away under its summary."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def family_label(family: Family | None) -> str:
    """Name a family or a setting as a reader writes it; None is the average over all of them."""
    if family is None:
        return "averaged"
    if isinstance(family, Setting):
        return family.written("" if family.is_of_only_family else families.family_label(family.family))
    return families.family_label(family)


def counted(strata: Sequence[Family]) -> str:
    """Say over how many families, levels of axes and variants these settings go: ``2 families x 3 sizes``."""
    settings = [x for x in strata if isinstance(x, Setting)]
    kinds = {"families": {x.family for x in settings}, "variants": {x.variant for x in settings}}
    for setting in settings:
        for axis, level in setting.places:
            nouns = {SIZE: "sizes", RECIPE: "recipes", TOKENS: "numbers of tokens"}
            noun = nouns.get(axis, f"levels of {axis}")
            kinds.setdefault(noun, set()).add(level)
    several = {noun: len(levels) for noun, levels in kinds.items() if len(levels) > 1}
    if math.prod(several.values()) != len(strata):
        return f"{len(strata)} settings"
    return " x ".join(f"{number} {noun}" for noun, number in several.items())


def file_name(kind: str, name: str) -> str:
    """Name a file, whatever characters a table puts into a name."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}"


def figure_names(kind: str, benchmarks: Iterable[Benchmark]) -> Mapping[Benchmark, str]:
    """Name one kind of figure for each benchmark; of several that a file cannot tell apart, by number."""
    names, times = {}, Counter()
    for benchmark in benchmarks:
        name = file_name(kind, str(benchmark))
        times[name] += 1
        names[benchmark] = name if times[name] == 1 else f"{name}-{times[name]}"
    return names


def ordered(names: Iterable[Name], order: Sequence[Name]) -> list[Name]:
    """Sort names by their place in ``order``, the unlisted ones after them by name."""
    places = {name: place for place, name in enumerate(order)}
    return sorted(names, key=lambda name: (places.get(name, len(places)), str(name)))


def ordered_benchmarks(benchmarks: Iterable[Benchmark], listed: Sequence[Benchmark]) -> tuple[Benchmark, ...]:
    """Sort benchmarks: held-out loss, then as ``SUITES`` does, any other by name.

    Heads of one stand as the study lists them, graded metrics behind what they belong to.
    """
    places = {name: place for place, name in enumerate((HELD_OUT, *SUITES))}
    of_study = {benchmark: place for place, benchmark in enumerate(listed)}

    def key(benchmark: Benchmark) -> tuple[int, str, int, str, str]:
        place = of_study.get(replace(benchmark, metric=""), len(listed))
        name = benchmark.name
        return places.get(name, len(places)), name, place, benchmark.head, benchmark.metric

    return tuple(sorted(benchmarks, key=key))


def title(benchmark: Benchmark) -> str:
    """Name an outcome as a reader writes it."""
    return "held-out loss" if benchmark.name == HELD_OUT else str(benchmark)
