"""Comparing scores from Python; loads no torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from base.errors import UsageError
from base.files import write_text
from base.run.folders import REPORT_NAME
from base.sections import check
from ffn_ablations.errors import named, told
from ffn_ablations.runs import Run, Runs, as_runs
from report.analyse import analyse
from report.analysis import Analysis, Request
from report.command import ReportArgs, request_of
from report.document.html import to_fragment
from report.exports import draw_one, number_tables
from report.figures.style import SMALL, STYLE, add_legend
from report.inputs.run_facts import RunFacts
from report.inputs.sources import Source, read_source, source_of_frame
from report.leaderboard import leaderboard
from report.page import answer, make_card, summary, warnings
from report.plots import find_panel
from report.significance.axes import Settings
from report.significance.factor import Factor
from report.write import write_analysis
from scores.columns import to_csv
from scores.declarations import Scale
from scores.published import PublishedSource

VERDICT_COLUMNS = (
    "benchmark", "family", "contrast", "estimate", "low", "high", "unit", "p", "is_primary", "verdict",
)  # fmt: skip


@told()
def compare(
    scores: pd.DataFrame | Runs | str | os.PathLike[str],
    *,
    baseline: str | None = None,
    margins: Mapping[str, float] | float | None = None,
    primary: Iterable[str] = (),
    contrasts: Iterable[str] = (),
    lower_is_better: Iterable[str] = (),
    higher_is_better: Iterable[str] = (),
    chance: Mapping[str, float] | None = None,
    scale: Scale | None = None,
    axes: Iterable[str] = (),
    columns: Mapping[str, str] | None = None,
    score_columns: Iterable[str] = (),
    names: str | None = None,
    factor: Factor | None = None,
    head: str | None = None,
    paired: bool = False,
    looks: Iterable[int] | None = None,
    published: PublishedSource | None = None,
) -> Comparison:
    """Say which variants differ from the baseline, which equal it, and how sure one can be.

    All arguments behind the first are the flags of the command ``report``; None takes the study's choice,
    else the default.

    Args:
        scores: A data frame with family, variant, seed, benchmark and score, such as ``evaluate`` returns,
            the path of a CSV or of a rows.parquet, a study or its folder, or several runs: all their scores.
        baseline: What the others are compared with: ``gelu``, of heads ``linear``.
        margins: The largest differences that are negligible, by outcome and in its unit, named before the
            results are seen: ``{"held-out-loss": 0.02}``; a number alone is percentage points.
        primary: Outcomes that claims are made about, corrected together; none are all.
        contrasts: Further comparisons, ``"relu+silu - prelu+swish"``.
        lower_is_better: Outcomes of which lower scores are better.
        higher_is_better: Those of which higher ones are, where their name does not say it.
        chance: What guessing scores, by outcome.
        scale: Whether percentages are written as fractions.
        axes: Columns of a table that tell runs apart as family and seed do, such as ``size``.
        columns: What a table calls its columns: ``{"variant": "Activation"}``.
        score_columns: Columns of a table that are scores, one benchmark each.
        names: How names of runs or models are made up: ``"{variant}-seed{seed}"``.
        factor: What is compared: ``ffn``, ``head``, ``both``, or an axis.
        head: Of scores under several heads, keep those under this one.
        paired: Whether to compare runs of one family and seed with each other.
        looks: Numbers of runs in every arm at which the study was to be looked at.
        published: Set own effects beside those of a source.

    Raises:
        UsageError: For scores, a baseline or an outcome that cannot be used.
    """
    asked = {
        "axis": _listed(axes),
        "columns": _listed(columns),
        "scores": _listed(score_columns),
        "names": names,
        "factor": factor,
        "head": head,
        "baseline": baseline,
        "primary": _listed(primary),
        "contrast": _listed(contrasts),
        "margin": _listed(margins),
        "lower_is_better": _listed(lower_is_better),
        "higher_is_better": _listed(higher_is_better),
        "chance": _listed(chance),
        "scale": scale,
        "paired": paired,
        "looks": tuple(map(str, _listed(looks))),
        "published": published,
    }
    request = request_of(
        check(ReportArgs, {name: value for name, value in asked.items() if value is not None})
    )
    if isinstance(scores, list) and scores and all(isinstance(each, Run) for each in scores):
        scores = Runs(scores)  # a slice of runs, or those that somebody picked
    frame = scores if isinstance(scores, pd.DataFrame) else None
    if isinstance(scores, Runs):
        frame = pd.concat([run.scores for run in as_runs(scores)], ignore_index=True)
    analysis = analyse(_source(scores, frame, request), request)
    return Comparison(analysis, frame)


def _source(scores: object, frame: pd.DataFrame | None, request: Request) -> Source:
    axes = request.axes
    if frame is not None:
        if not isinstance(scores, Runs):
            return source_of_frame(frame, axes, request.reading)
        source = source_of_frame(frame, axes or scores.axes)
        settings = Settings({run.family for run in scores}, source.axes)
        return replace(source, facts=tuple(_placed(run, settings, source.axes) for run in scores))
    if isinstance(scores, str | os.PathLike):
        return read_source(Path(scores), axes, request.reading)
    if isinstance(folder := getattr(scores, "folder", None), Path):  # a study, or a run, which is told
        return read_source(folder, axes, request.reading)
    raise UsageError(
        f"{named(scores)} holds no scores: give a data frame, such as evaluate(...) returns, runs, the path "
        "of a CSV, or a study"
    )


def _placed(run: Run, settings: Settings, axes: Iterable[str]) -> RunFacts:
    """What is known of a run, its family being that of its rows."""
    family = settings.setting(run.family, tuple((axis, run.places[axis]) for axis in axes))
    return replace(run.facts, family=family)


def _listed(values: object) -> tuple[Any, ...]:
    """Return values as the words behind a flag: a mapping as NAME=VALUE, one text or number by itself."""
    if values is None:
        return ()
    if isinstance(values, Mapping):
        return tuple(f"{name}={value}" for name, value in values.items())
    return tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (str(values),)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything that a report says, computed; a notebook shows its claims and its verdicts.

    Args:
        analysis: All of it.
        frame: The scores, where they came as a data frame.
    """

    analysis: Analysis
    frame: pd.DataFrame | None = None

    @property
    def answer(self) -> str:
        """What is claimed, in sentences, as Markdown."""
        return " ".join(answer(self.analysis))

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table of the report, those of ``tables/*.csv``: scores, comparisons, power, ..."""
        return number_tables(self.analysis)

    @property
    def verdicts(self) -> pd.DataFrame:
        """One row for each variant, outcome and family, that of the average over families having none.

        ``estimate`` is variant minus baseline, ``low`` to ``high`` the interval that agrees with the verdict,
        both in ``unit``; ``p`` is corrected likewise. What is not ``is_primary`` is explored: it has an
        estimate, and no interval, p or verdict.
        """
        table = self.tables["comparisons"]
        table = table.assign(
            low=table["low_simultaneous"], high=table["high_simultaneous"], p=table["p_corrected"]
        )
        return table[list(VERDICT_COLUMNS)]

    @property
    def scores(self) -> pd.DataFrame:
        """Mean and standard deviation over seeds of each variant, by outcome and family."""
        return self.tables["scores"]

    @told()
    def plot(
        self,
        kind: str = "forest",
        *,
        outcome: str | None = None,
        family: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw one figure.

        Args:
            kind: ``forest``, ``seeds``, ``heat-map``, and of a study ``learning-curves``,
                ``learning-curve-differences``, ``gradient-norms``, ``cost-num-parameters``,
                ``cost-flops-per-token`` or ``cost-train-hours``.
            outcome: None takes the first of the report.
            family: Where a figure is of one; None takes the first.
            ax: Where to draw it; None makes a figure of pyplot's.

        Returns:
            The axes.

        Raises:
            UsageError: For an unknown name, or where there is nothing to draw.
        """
        panel = find_panel(self.analysis, kind, outcome, family)
        # pyplot finds its backend with its first figure, and then says whether it is interactive: outside of
        # what is put back.
        size = (panel.width, panel.height)
        own = pyplot.figure(figsize=size, layout="constrained") if ax is None else None
        axes: Any = ax
        with matplotlib.rc_context(STYLE):
            if own is not None:
                axes = own.subplots()
            panel.draw(axes)
            if panel.handles and own is not None:
                add_legend(own, panel.handles)
            elif panel.handles:
                axes.legend(handles=list(panel.handles), fontsize=SMALL)
        return axes

    @told()
    def figure(self, name: str) -> Figure:
        """Return a figure of the report with all its panels, none of pyplot's; a notebook shows it.

        Args:
            name: ``forest``, ``seeds``, ``heat-map-blimp``, ``learning-curves``, ...: those that the report
                has for these scores.

        Raises:
            UsageError: For a name that there is not.
        """
        return draw_one(self.analysis, name)

    @told()
    def save(self, out: str | os.PathLike[str]) -> Path:
        """Write the whole report, as the command ``report`` does.

        Args:
            out: Its folder. A data frame is written there too, as scores.csv, which the report's command
                names.

        Returns:
            The path of report.md.

        Raises:
            UsageError: If it cannot be written.
        """
        folder, analysis = Path(out), self.analysis
        if self.frame is not None:
            if folder.is_file():
                raise UsageError(f"{folder} is a file; give a folder")
            table = folder / "scores.csv"
            folder.mkdir(parents=True, exist_ok=True)
            write_text(table, to_csv(self.frame))
            analysis = replace(analysis, source=replace(analysis.source, path=table, kind="CSV"))
        write_analysis(analysis, folder)
        return folder / REPORT_NAME

    def __repr__(self) -> str:
        return summary(self.analysis)

    def _repr_html_(self) -> str:
        analysis = self.analysis
        parts = [make_card(analysis).markdown, leaderboard(analysis), warnings(analysis)]
        return to_fragment("\n\n".join(filter(None, parts)))
