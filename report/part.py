"""A part of a report: what it computes, what it says, its figures and its tables, in one file.

Files under ``report.parts`` have one each, and ``PARTS`` there is the one list of them: from it come the
page, the JSON file, the tables and the figures.
"""

from __future__ import annotations

import html
import re
import runpy
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from base.errors import UsageError
from report.analysis import Analysis
from report.document.document import Drawing
from report.document.markdown import details, figure

Result = TypeVar("Result")
LEAST_POWER = 0.5
"""Of a step that is proposed."""
Draw = Callable[[], Drawing | None]
"""Draws a figure, or None where there is nothing to draw."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a section may refer to: figures that were drawn."""

    alternative_texts: Mapping[str, str]
    """Of each figure, by its file name without suffix."""

    def figure(self, name: str) -> str:
        """Link a figure, or return nothing if it was not drawn."""
        return figure(name, self.alternative_texts[name]) if name in self.alternative_texts else ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """What a part says: one line that stands on the page, and details that are folded away."""

    title: str
    summary: str
    """One line; empty where the title says enough."""
    body: str
    """Markdown."""

    @property
    def markdown(self) -> str:
        """A fold whose line is the title and the summary."""
        joint = " " if self.title.endswith("?") else ": "
        line = f"{self.title}{joint}{self.summary}" if self.summary else self.title
        # Within HTML, Markdown is not read.
        return details(
            re.sub(r"`([^`]*)`", lambda code: f"<code>{html.escape(code[1])}</code>", line), self.body
        )


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """Further runs that may decide a primary comparison."""

    text: str
    """``9 seeds in every arm``."""
    compared: str
    """Whose difference, or equivalence, they are to show, in words."""
    command: str
    """What runs them, but for the name of the study; empty where a user must decide more than that."""
    power: float
    """How often they show it, if the difference seen is the true one, or of equals, if there is none."""
    num_runs: int
    is_equivalence: bool = False

    @property
    def is_decisive(self) -> bool:
        """Whether a verdict is to be expected; what decides nothing is not proposed."""
        return self.power >= LEAST_POWER

    @property
    def worth(self) -> float:
        """Verdicts to be expected for each run."""
        return self.power / max(1, self.num_runs)


def _in_every_report(analysis: Analysis) -> Any:
    return True


def _no_items(analysis: Analysis, result: Any) -> dict[str, Any]:
    return {}


def _no_lines(analysis: Analysis, result: Any) -> tuple[()]:
    return ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Part(Generic[Result]):
    """One question that a report answers.

    Args:
        name: Of its result, in lower case with hyphens.
        compute: Returns the result, or None where there is nothing to say. It reads the analysis with the
            results of the parts before it in ``PARTS``. Without one the part is in every report.
        section: Says it.
        figures: Return what draws each figure, by its file name without suffix.
        tables: Return its numbers by name, one record a row; written as tables/NAME.csv and in report.json.
        checks: Return sentences for the answer card on whether the answer can be believed.
        steps: Return what the card proposes to run next.
    """

    name: str
    section: Callable[[Analysis, Result, Page], Section | None]
    compute: Callable[[Analysis], Result | None] = _in_every_report
    figures: Callable[[Analysis, Result], Mapping[str, Draw]] = _no_items
    tables: Callable[[Analysis, Result], Mapping[str, pd.DataFrame]] = _no_items
    checks: Callable[[Analysis, Result], Iterable[str]] = _no_lines
    steps: Callable[[Analysis, Result], Iterable[NextStep]] = _no_lines

    def of(self, analysis: Analysis) -> Result | None:
        """Return the part's result in an analysis."""
        return analysis.results.get(self.name)


def load_part(place: str, other_names: Collection[str]) -> Part[Any]:
    """Run a file of the user, and return the part in it.

    Args:
        place: ``path/to/mine.py:PART``: a Python file, and the name in it of a ``Part``.
        other_names: Names of other parts.

    Raises:
        UsageError: If there is no such file, no such name in it, or the file fails; one line each.
    """
    file, _, attribute = place.rpartition(":")
    if not file.endswith(".py") or not Path(file).is_file():
        raise UsageError(f"--part {place}: no such file; write the path of a Python file and a name in it, "
                         "mine.py:PART (docs/adding-a-part.md)")  # fmt: skip
    try:
        names = runpy.run_path(file)
    except Exception as error:  # whatever the user's file raises
        raise UsageError(f"--part {place}: the file fails: {type(error).__name__}: {error}") from error
    part = names.get(attribute)
    if not isinstance(part, Part):
        parts = ", ".join(name for name, value in names.items() if isinstance(value, Part))
        raise UsageError(f"--part {place}: {attribute} is no Part; Available: {parts or 'none'}")
    if part.name in other_names:
        raise UsageError(f"--part {place}: its name {part.name!r} is that of another part; choose another")
    return part
