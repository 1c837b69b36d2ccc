"""The axes of a table of scores, and what stands where a comparison looks at two of them as one.

Rows have a column for each axis: family, variant, head and benchmark. In a comparison most names are those of
one axis, as plain text. Where two axes go together, as an FFN variant with a head, both are carried, and
written as one label for print only (``str``): nothing ever reads a label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pandas as pd

from base.families import PRETRAINED
from scores.rows import NO_HEAD, of_each_row
from scores.stages import Places

Axes = Mapping[str, Sequence[str]]
"""Those axes, and their levels in order."""


@dataclass(frozen=True, order=True)
class Benchmark:
    """A benchmark; with a head where the scores of each head count as a benchmark of their own.

    With a metric it is a graded one of a suite, a metric of its own beside that of the tasks' headlines.
    """

    name: str
    head: str = NO_HEAD
    metric: str = ""

    def __str__(self) -> str:
        name = f"{self.name} {self.metric.replace('_', ' ')}" if self.metric else self.name
        return f"{name} ({self.head})" if self.head else name


@dataclass(frozen=True)
class Setting:
    """What a difference is averaged over where families alone do not say it.

    Its family, its places on the axes of the study and, where another factor than the FFN is compared over
    several FFN variants, that variant. Of a study over pretrained models the variant is one of these, and its
    name says all.
    """

    family: str
    places: Places = ()
    variant: str = ""
    ranks: tuple[int, ...] = field(default=(), compare=False)
    """The place of each level among those of its axis, by which settings are sorted."""
    is_of_only_family: bool = field(default=False, compare=False)
    """Whether a reader need not be told the family."""

    def __lt__(self, other: Setting) -> bool:
        return self._key < other._key

    @property
    def _key(self) -> tuple[str, tuple[int, ...], Places, str]:
        return self.family, self.ranks, self.places, self.variant

    def __str__(self) -> str:
        return self.written(self.family)

    def written(self, family: str) -> str:
        """Write it with its family under another name; with none, where it says something without."""
        if self.variant and self.family == PRETRAINED:
            return self.variant
        where = ", ".join(self._levels())
        parts = " ".join(filter(None, (family, where))) or self.family
        return f"{parts} / {self.variant}" if self.variant else parts

    def _levels(self) -> Iterable[str]:
        """Write each level as a reader understands it without its axis."""
        short = {axis: axis.rpartition(".")[2] for axis, _ in self.places}
        times = Counter(short.values())
        for axis, level in self.places:
            name = short[axis] if times[short[axis]] == 1 else axis
            yield {SIZE: level, RECIPE: level, TOKENS: f"{level} tokens"}.get(axis, f"{name} {level}")


@dataclass(frozen=True, order=True)
class Combination:
    """An FFN variant with a classification head."""

    variant: str
    head: str

    def __str__(self) -> str:
        return f"{self.variant}/{self.head}"


Family = str | Setting
"""What a difference is averaged over: a family, or a setting of it."""
Level = str | Combination
"""What is compared: an FFN variant, a head, both, or the level of an axis."""
SIZE, RECIPE, TOKENS = "size", "recipe", "tokens"
"""Axes that are no field of a run's configuration; levels of the first two are names of several values."""


def plain(family: Family) -> str:
    """Return the name of the family itself."""
    return family.family if isinstance(family, Setting) else family


def places_of(family: Family | None) -> Places:
    """Return the places of a setting; none of a family."""
    return family.places if isinstance(family, Setting) else ()


def without_places(family: Family | None) -> Family | None:
    """Return a setting without its places, which stand elsewhere."""
    if not isinstance(family, Setting):
        return family
    return replace(family, places=(), ranks=()) if family.variant else family.family


class Settings:
    """Makes the settings of one study, so that they sort by its axes.

    Args:
        families: All of its families.
        axes: Its axes; without any a family stays a name.
    """

    def __init__(self, families: Iterable[str], axes: Axes) -> None:
        self._axes = axes
        self._is_only = len(set(families)) == 1

    def setting(self, family: str, places: Places, variant: str = "") -> Family:
        """Return what a difference is averaged over at these places."""
        if not places and not variant:
            return family
        ranks = tuple(_rank(self._axes.get(axis, ()), level) for axis, level in places)
        return Setting(family, places, variant, ranks, self._is_only and bool(places))

    def of_rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows whose family is a setting, without the columns of the axes."""
        if not self._axes:
            return rows
        names = list(self._axes)
        settings = of_each_row(
            rows[["family", *names]],
            lambda family, *values: self.setting(family, tuple(zip(names, values, strict=True))),
        )
        family = pd.Series(settings, rows.index, dtype="object")
        return rows.assign(family=family).drop(columns=names)


def with_settings(rows: pd.DataFrame, axes: Sequence[str]) -> tuple[pd.DataFrame, Axes]:
    """Make settings of the families and the axes of a table, whose levels nobody sorted; return both."""
    levels = {name: in_order(rows[name].unique()) for name in axes}
    return Settings(rows["family"].unique(), levels).of_rows(rows), levels


def in_order(levels: Iterable[str]) -> tuple[str, ...]:
    """Sort levels that nobody sorted: numbers, which may end in K, M or B, by size; else by name."""
    texts = sorted(levels)
    numbers = {text: number for text in texts if (number := level_number(text)) is not None}
    return tuple(sorted(texts, key=lambda text: numbers[text]) if len(numbers) == len(texts) else texts)


def level_number(text: str) -> float | None:
    """Return the number that a level is the name of, such as ``0.5M``; None where it is none."""
    unit = {"K": 1e3, "M": 1e6, "B": 1e9}.get(text[-1:].upper())
    with suppress(ValueError):
        return float(text[:-1]) * unit if unit else float(text)
    return None


def _rank(levels: Sequence[str], level: str) -> int:
    return levels.index(level) if level in levels else len(levels)
