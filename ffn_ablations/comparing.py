"""Comparing scores from Python; loads no torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from base.errors import UsageError, unknown_name
from base.files import write_text
from base.run.folder_names import REPORT_NAME
from ffn_ablations.drawing import savable
from ffn_ablations.flags_as_keywords import KeywordError, meant, one_line_errors, read_keywords, shown_briefly
from ffn_ablations.runs import Run, Runs, as_runs, of_one_source
from report.analysis import Analysis
from report.compute import analyse
from report.document import markdown
from report.document.html import to_fragment
from report.figures.style import SMALL, STYLE, add_legend
from report.inputs.sources import Source, read_source, source_of_frame
from report.leaderboard import leaderboard
from report.page import answer, card, summary, warnings
from report.paper import comparison_table
from report.request import Request
from report.significance.axes import Settings
from report.write import draw_one, find_panel, number_tables, write_analysis
from scores.rows import to_csv

VERDICT_COLUMNS = (
    "benchmark", "family", "contrast", "estimate", "low", "high", "unit", "p", "is_primary", "verdict",
)  # fmt: skip


_FLAGS = {"axes": "axis", "contrasts": "contrast", "margins": "margin"}
"""What the command calls keywords of another name."""
_KEYWORDS = {flag: keyword for keyword, flag in _FLAGS.items()}
_ELSEWHERE = {
    "to_html": ".save(folder)", "report": ".save(folder)", "savefig": ".plot().savefig(path)",
    "summary": ".answer", "filter": '["swiglu"] for a variant, or .verdicts.query("is_primary")',
    "baseline": "compare(scores, baseline=NAME) for another",
    **dict.fromkeys(("to_frame", "to_pandas", "df", "table", "results", "intervals"), ".verdicts"),
    **dict.fromkeys(("p_values", "pvalues", "pvalue"), '.verdicts["p"]'),
    **dict.fromkeys(("best", "rank", "ranking"), ".answer, which says what is better, or .scores"),
}  # fmt: skip
"""What has what is looked for on a comparison."""
_OF_THE_COMMAND = ("source", "out", "plan", "sd", "variants", "families")
"""Its flags that are no keywords: they say where the report is written, or plan a study."""


@one_line_errors(_KEYWORDS)
def compare(
    data: pd.DataFrame | Runs | Sequence[Run | Runs] | str | os.PathLike[str],
    /,
    *further: object,
    scores: Any = None,
    baseline: str | None = None,
    primary: str | Sequence[str] | None = None,
    margins: float | Mapping[str, float] | None = None,
    contrasts: str | Sequence[str] | None = None,
    lower_is_better: str | Sequence[str] | None = None,
    higher_is_better: str | Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    axes: str | Sequence[str] | None = None,
    paired: bool | None = None,
    **settings: Any,
) -> Comparison:
    """Say which variants differ from the baseline, which equal it, and how sure one can be.

    None takes the study's choice, else the default of the command ``report``.

    Args:
        data: A data frame with family, variant, seed, benchmark and score, such as ``evaluate`` returns, or
            with a row for each run and a column for each score; the path of a CSV or of a rows.parquet, a
            study or its folder, or several runs: all their scores.
        *further: Refused, as one source is compared.
        scores: Columns that are scores, where each has one; None takes those with a known name.
        baseline: What the others are compared with, gelu if there is nothing else.
        primary: Outcomes that claims are made about, corrected together; the others are explored.
        margins: What is negligible: ``{"held-out-loss": 0.02}``; a number alone is percentage points.
        contrasts: Further comparisons, ``"relu+silu - prelu+swish"``.
        lower_is_better: Outcomes of which lower scores are better.
        higher_is_better: Outcomes of which higher ones are, where their name does not say it.
        columns: What a table calls its columns: ``{"variant": "Activation"}``.
        axes: Columns that tell runs apart as family and seed do, such as ``"size"``.
        paired: Compare runs of one family and seed with each other.
        **settings: The other flags of the command, with underscores: ``chance={"ewok": 50}``, ``scale``,
            ``factor``, ``head``, ``looks=[3, 6, 10]``, ``published``, ``names="{variant}-seed{seed}"``.

    Raises:
        UsageError: For scores, a baseline or an outcome that cannot be used.
    """
    if further:
        raise UsageError(
            "compare takes one source; give several runs as a list, compare([a, b]), and several data frames "
            "as one, compare(pd.concat([a, b]))"
        )
    given = {
        "baseline": baseline, "primary": primary, "margins": margins, "contrasts": contrasts,
        "lower_is_better": lower_is_better, "higher_is_better": higher_is_better, "columns": columns,
        "axes": axes, "paired": paired, "scores": scores,
    }  # fmt: skip
    return _compare(data, read_keywords(Request, _flags(settings | given)))


def _compare(data: Any, request: Request) -> Comparison:
    if isinstance(data, list | tuple) and data and all(isinstance(each, Run | Runs) for each in data):
        runs, left_out = of_one_source(as_runs(data))
        source = _source_of_runs(runs, left_out, request)
        return Comparison(analyse(source, request), runs.scores)
    if isinstance(data, pd.DataFrame):
        if {None, *data.columns} & {*data.index.names}:
            return Comparison(analyse(source_of_frame(data, request), request), data)
        try:
            return _compare(data.reset_index(), request)
        except UsageError as error:
            raise UsageError(str(error).replace("table.melt", "table.reset_index().melt")) from None
    path = getattr(data, "folder", data)  # of a study, or of a run, which is told
    if not isinstance(path, str | os.PathLike):
        raise UsageError(
            f"{shown_briefly(data)} is no data frame: give one with columns variant, seed and a score, such "
            "as evaluate(...) returns, runs, the path of a CSV, or a study"
        )
    return Comparison(analyse(read_source(Path(path), request), request))


def _flags(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords as the command's flags, with words as they are typed behind these."""
    flags = {}
    for name, value in settings.items():
        flag = _FLAGS.get(name, name)
        field = Request.model_fields.get(flag)
        if field is None or flag in _OF_THE_COMMAND:
            allowed = [each for each in Request.model_fields if each not in _OF_THE_COMMAND]
            told = f"unknown keyword {name!r}, {told}" if (told := meant(name, allowed)) else ""
            raise KeywordError(told or unknown_name("keyword", name, [*allowed, *_FLAGS]))
        if value is not None:
            flags[flag] = _words(value) if field.annotation == tuple[str, ...] else value
    if "looks" in flags:
        flags["looks"] = tuple(map(str, flags["looks"]))
    return flags


def _words(value: object) -> tuple[Any, ...]:
    """Return values as the words behind a flag: a mapping as NAME=VALUE, one text or number by itself."""
    if isinstance(value, Mapping):
        return tuple(f"{name}={each}" for name, each in value.items())
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (str(value),)


def _source_of_runs(runs: Runs, notes: Sequence[str], request: Request) -> Source:
    """The scores of runs, with what is known of each; a run's family is that of its rows."""
    source = source_of_frame(runs.scores, Request(axis=request.axis or runs.axes))
    settings = Settings({run.family for run in runs}, source.axes)
    families = [
        settings.setting(run.family, tuple((axis, run.places[axis]) for axis in source.axes)) for run in runs
    ]
    facts = (replace(run.facts, family=family) for run, family in zip(runs, families, strict=True))
    return replace(
        source, facts=tuple(facts), notes=(*notes, *_other_training(runs, source.axes), *source.notes)
    )


def _other_training(runs: Runs, axes: Iterable[str]) -> list[str]:
    """Say in which fields of text and training runs of one family differ, beside their study's axes."""
    values: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        config = run.config
        fields = {
            f"{part}.{name}": value for part in ("data", "optim") for name, value in config[part].items()
        }
        for name, value in (fields | {"train.batch_size": config["train"]["batch_size"]}).items():
            values.setdefault((run.family, name), set()).add(shown_briefly(value))
    return [
        f"the runs of {family} differ in {name} ({', '.join(sorted(some)[:4])}), which may be the difference"
        for (family, name), some in values.items()
        if len(some) > 1 and name not in axes
    ]


def _cell(value: Any) -> str:
    """Write a value as a table of a text has it."""
    return "" if pd.isna(value) else f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything that a report says, computed; a notebook shows its claims and its verdicts.

    Args:
        analysis: All of it.
        frame: The scores, where they came as a data frame.
    """

    analysis: Analysis
    frame: pd.DataFrame | None = None

    def __getattr__(self, name: str) -> Any:
        instead = _ELSEWHERE.get(name) or (f".verdicts.{name}" if hasattr(pd.DataFrame, name) else "")
        offered = ", ".join(each for each in dir(self) if each[0] != "_")
        told = f"write {instead}" if instead else f"it has {offered}"
        raise AttributeError(f"a comparison has no {name}; {told}")

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

    def to_markdown(self) -> str:
        """Return ``verdicts`` as a table in Markdown, numbers to four digits."""
        return markdown.table(VERDICT_COLUMNS, [list(map(_cell, row)) for row in self])

    def to_latex(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the primary comparisons as a LaTeX table, which needs the package booktabs.

        Args:
            path: A file to write it into, too.
        """
        table = comparison_table(self.analysis)
        if path is not None:
            write_text(Path(path), table)
        return table

    def __len__(self) -> int:
        return len(self.verdicts)

    def __iter__(self) -> Iterator[Any]:
        """Yield each row of ``verdicts`` as a named tuple."""
        return self.verdicts.itertuples(index=False, name="Verdict")

    def __getitem__(self, key: int | slice | str) -> Any:
        """Return rows of ``verdicts``: by place, or those of a variant, a contrast or an outcome."""
        table = self.verdicts
        if isinstance(key, str):
            compared = table["contrast"].str.partition(" - ")[0]
            if (found := (compared == key) | (table["contrast"] == key) | (table["benchmark"] == key)).any():
                return table[found]
            names = dict.fromkeys([*compared, *table["benchmark"], *table["contrast"]])
            raise KeyError(str(unknown_name("variant, outcome or contrast", key, names)))
        return table.iloc[key]

    @property
    def scores(self) -> pd.DataFrame:
        """Mean and standard deviation over seeds of each variant, by outcome and family."""
        return self.tables["scores"]

    @one_line_errors()
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
            kind: ``forest``, ``seeds``, and of a study ``learning-curves`` or
                ``learning-curve-differences``.
            outcome: None takes the first of the report.
            family: Where a figure is of one; None takes the first.
            ax: Where to draw it; None makes a figure of pyplot's.

        Returns:
            The axes, which have the ``savefig`` of their figure.

        Raises:
            UsageError: For an unknown name, or where there is nothing to draw.
        """
        panel = find_panel(self.analysis, kind, outcome, family)
        # pyplot finds its backend with its first figure, and then says whether it is interactive: outside of
        # what is put back.
        size = (panel.width, panel.height)
        figure = pyplot.figure(figsize=size, layout="constrained") if ax is None else None
        with matplotlib.rc_context(STYLE):
            axes: Any = ax if figure is None else figure.subplots()
            panel.draw(axes)
            if panel.handles and figure is not None:
                add_legend(figure, panel.handles)
            elif panel.handles:
                axes.legend(handles=list(panel.handles), fontsize=SMALL)
        return savable(axes)

    @one_line_errors()
    def figure(self, name: str) -> Figure:
        """Return a figure of the report with all its panels, none of pyplot's; a notebook shows it.

        Args:
            name: ``forest``, ``seeds``, ``learning-curves``, ...: those that the report has for these scores.

        Raises:
            UsageError: For a name that there is not.
        """
        return draw_one(self.analysis, name)

    @one_line_errors()
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
        parts = [card(analysis), leaderboard(analysis), warnings(analysis)]
        return to_fragment("\n\n".join(filter(None, parts)))
