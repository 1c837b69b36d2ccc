"""Comparing scores from Python, and planning how many are needed; loads no torch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import matplotlib
import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from base.errors import UsageError, unknown_name
from base.files import write_text
from base.other_names import OtherNames
from base.run.folder_names import REPORT_NAME
from ffn_ablations.drawing import savable
from ffn_ablations.flags_as_keywords import KeywordError, meant, one_line_errors, read_keywords
from ffn_ablations.runs import (
    Framed,
    Run,
    Runs,
    as_runs,
    differing_settings,
    of_one_source,
    setting_of,
    settings_of,
)
from ffn_ablations.tables import OTHER_NAMES, Table, letters
from ffn_ablations.wording import as_keywords, shown_briefly
from report.analysis import Analysis
from report.compute import analyse
from report.document import markdown
from report.document.html import to_fragment
from report.figures.style import SMALL, STYLE, add_legend
from report.inputs.sources import FRAME, Source, read_source, source_of_frame
from report.leaderboard import leaderboard
from report.page import answer, card, summary, warnings
from report.paper import comparison_table
from report.plan import MULTIPLES, Spread, seeds_to_detect
from report.request import Request
from report.significance.axes import Settings
from report.significance.comparison import Inference
from report.verdicts.findings import shown_first
from report.write import draw_one, find_panel, number_tables, write_analysis
from scores.declarations import OnlyFractionsError
from scores.rows import NO_METRIC, ROW_COLUMNS, to_csv
from scores.suites import HELD_OUT

_IS_SEED = re.compile(r"(?i)(seed|run|s)?[\W_]*\d+")
"""A column that holds the scores of one seed."""
NARROW_IN = 3
"""Axes less wide have no place for a legend."""
VERDICT_COLUMNS = (
    *("variant", "benchmark", "family", "contrast", "estimate", "low", "high", "unit", "p", "is_primary"),
    "verdict",
)  # fmt: skip


_FLAGS = {"axes": "axis", "contrasts": "contrast", "margins": "margin"}
"""What the command calls keywords of another name."""
_KEYWORDS = {flag: keyword for keyword, flag in _FLAGS.items()}
_OF_COLUMNS = {"variant": "variant", "ffn": "variant", "seed": "seed", "task": "task", "value": "score"}
"""Keywords that say which column it is."""
_OF_THE_COMMAND = ("source", "out", "plan", "sd", "variants", "families")
"""Its flags that are no keywords: they say where the report is written, or plan a study."""


@one_line_errors(_KEYWORDS)
def compare(
    data: Any,
    /,
    *further: Any,
    scores: Any = None,
    metric: str = "",
    baseline: str | type | None = None,
    primary: str | Sequence[str] | None = None,
    margins: float | Mapping[str, float] | None = None,
    contrasts: str | Sequence[str] | None = None,
    lower_is_better: bool | str | Sequence[str] | None = None,
    higher_is_better: bool | str | Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    axes: str | Sequence[str] | None = None,
    paired: bool | None = None,
    **settings: Any,
) -> Comparison:
    """Say which variants differ from the baseline, which equal it, and how sure one can be.

    None takes the study's choice, else the default of the command ``report``.

    Args:
        data: A data frame with family, variant, seed, benchmark and score, such as ``evaluate`` returns,
            with a row for each run and a column for each score, or with a column for each variant, the
            baseline among them, and a row for each seed; what pandas makes a frame of, such as
            ``{variant: scores}``; the path of a CSV or of a rows.parquet, a study or its folder; several
            runs, ``{variant: runs}`` too: all their scores. Percentages of which none is above 1 are
            fractions, unless ``scale`` says otherwise.
        *further: More runs, frames or paths of CSV files, as if in a list.
        scores: Columns that are scores, where each has one; None takes those with a known name.
        metric: The benchmark or column that alone is compared, ``benchmark`` too; where the data name none,
            what the scores are, ``"loss"``, which says their direction.
        baseline: What the others are compared with, gelu if there is nothing else, or the first of a mapping
            without it.
        primary: Outcomes that claims are made about, corrected together; the others are explored.
        margins: What is negligible: ``{"held-out-loss": 0.02}``; a number alone is percentage
            points, or, below 0.1, of the one outcome in its unit.
        contrasts: Further comparisons, ``"relu+silu - prelu+swish"``.
        lower_is_better: Outcomes of which lower scores are better; True for all.
        higher_is_better: Outcomes of which higher ones are, where their name does not say it.
        columns: What a table calls its columns: ``{"variant": "Activation"}``.
        axes: Columns that tell runs apart as family and seed do, such as ``"size"``.
        paired: Compare runs of one family and seed with each other.
        **settings: The other flags of the command, with underscores: ``chance={"ewok": 50}``, ``scale``,
            ``factor``, ``head``, ``looks=[3, 6, 10]``, ``published``, ``names="{variant}-seed{seed}"``.

    Raises:
        UsageError: For scores, a baseline or an outcome that cannot be used.
    """
    baseline = getattr(baseline, "__name__", baseline)
    if higher_is_better is False:
        lower_is_better, higher_is_better = True, None
    given = {
        "baseline": baseline, "primary": primary, "margins": margins, "contrasts": contrasts,
        "lower_is_better": lower_is_better, "higher_is_better": higher_is_better, "columns": columns,
        "axes": axes, "paired": paired, "scores": scores,
    }  # fmt: skip
    metric = settings.pop("benchmark", metric)
    if named := {ours: settings.pop(name) for name, ours in _OF_COLUMNS.items() if name in settings}:
        given["columns"] = {**named, **(columns or {})}
    if not isinstance(metric, str):
        raise UsageError(f"metric is {shown_briefly(metric)}; it is one name, and primary takes several")
    request = read_keywords(Request, _flags(settings | given))
    return _compare([data, *further] if further else data, request, metric)


def report(
    data: Any, out: str | os.PathLike[str] = "report", *, paper: bool = False, **settings: Any
) -> Path:
    """Write a report: ``compare(data, **settings).save(out, paper=paper)``, whose folder it is.

    Returns:
        The path of report.md.
    """
    return compare(data, **settings).save(out, paper=paper)


@one_line_errors()
def plan(sd: float, difference: Any = None, *, variants: int = 2, families: int = 1) -> Table:
    """Say how many seeds find a difference to the baseline in 80% of studies, two-sided at 5%.

    The command ``report --plan`` tells more, as what so many seeds find, also at the spread of other runs.

    Args:
        sd: Standard deviation over seeds within one family and variant.
        difference: The true difference, or several, in the same unit; None takes half, once and twice ``sd``.
        variants: How many in all, the baseline included.
        families: How many the difference is averaged over.

    Returns:
        A row a difference (the index) with ``seeds`` in every family and variant, and ``seeds_corrected``, as
        one of all comparisons, by Bonferroni's bound; above 1,000 they are missing.

    Raises:
        UsageError: For numbers that cannot be.
    """
    sizes = [each * sd for each in MULTIPLES] if difference is None else list(np.ravel(difference))
    numbers = {"sd": sd, "difference": min(map(abs, sizes)), "variants": variants - 1, "families": families}
    if wrong := [name for name, number in numbers.items() if not 1e-9 < number < 1e9]:
        raise UsageError(f"{wrong[0]} must be a number above {int(wrong[0] == 'variants')}, and no huge one")
    levels = [Inference().level / tests for tests in (1, variants - 1)]
    seeds = [seeds_to_detect(Spread(sd=sd, margin=None), abs(size), families, levels) for size in sizes]
    index = pd.Index(sizes, name="difference")
    return Table(seeds, index, ["seeds", "seeds_corrected"], dtype="Int64")


def _compare(data: Any, request: Request, metric: str) -> Comparison:
    if isinstance(data, Mapping) and all(isinstance(each, Run | Runs) for each in data.values()):
        data = [replace(run, name=str(name)) for name, runs in data.items() for run in runs]
    if isinstance(data, list | tuple | Runs) and data and all(isinstance(each, Run | Runs) for each in data):
        runs, left_out = of_one_source(as_runs(data))
        called = [name for name in runs.names if letters(name) == letters(request.baseline or "")]
        request = request.model_copy(update={"baseline": called[0]}) if called else request
        _refuse_second_runs(runs)
        scores, request = _only(runs.scores, metric, request)
        source = _source_of_runs(runs, scores, left_out, request)
        return Comparison(analyse(source, request), Table(scores))
    names = next(iter(data.values()), {}) if _is_nested(data) and "gelu" not in data else data
    if isinstance(names, Mapping) and not {"gelu", *ROW_COLUMNS} & {*names} and not request.baseline:
        request = request.model_copy(update={"baseline": str(next(iter(names), "gelu"))})
    baseline, path = request.baseline or "gelu", getattr(data, "folder", data)  # of a study, or a run
    if isinstance(path, str | os.PathLike):
        file = Path(path)
        first_line = (
            file.read_bytes().partition(b"\n")[0] if file.suffix == ".csv" and file.is_file() else b""
        )
        header = first_line.decode(errors="ignore").strip().split(",")
        if baseline not in header:
            metric = HELD_OUT if metric == "loss" and "loss" not in header else metric
            asked = {"scores" if metric in header else "primary": (metric,)} if metric else {}
            request = request.model_copy(update=asked)
            source = read_source(file, request)
            return Comparison(_analyse(source, request), Table(source.rows))
        data = pd.read_csv(file)
    frame = _as_frame(data, baseline, metric or NO_METRIC)
    if frame is None:
        raise UsageError(
            f"{shown_briefly(data)} is no data frame: give one with columns variant, seed and a score, such "
            "as evaluate(...) returns, {variant: [a score a seed]}, runs, the path of a CSV, or a study"
        )
    frame, request = _only(frame, metric, request)
    source = source_of_frame(frame, request)
    is_wide = isinstance(data, pd.DataFrame) and baseline in data and "seed" not in {*data, data.index.name}
    if (is_wide or isinstance(data, Mapping)) and not request.paired:
        told = "rows are taken as runs that are no pairs; paired=True pairs those of a row"
        source = replace(source, notes=(*source.notes, told))
    return Comparison(_analyse(source, request), Table(frame))


def _analyse(source: Source, request: Request) -> Analysis:
    """Analyse a table, of which percentages that are all small are fractions."""
    try:
        return analyse(source, request)
    except OnlyFractionsError:
        told = f"{source.path}: scores of at most 1 were taken times 100; scale='fraction' confirms it"
        scaled = Request.model_validate(request.model_dump(exclude_unset=True) | {"scale": ("fraction",)})
        return analyse(replace(source, notes=(*source.notes, told)), scaled)


def _only(frame: pd.DataFrame, metric: str, request: Request) -> tuple[pd.DataFrame, Request]:
    """Keep the scores of a benchmark or column; those of a table that names no outcome get the name."""
    places = [name for name in ("benchmark", "metric", "task") if name in frame]
    known = [str(name) for name in frame if name not in ROW_COLUMNS]
    known += dict.fromkeys(each for name in places for each in frame[name].astype(str))
    metric = HELD_OUT if metric == "loss" and "loss" not in known and HELD_OUT in known else metric
    if metric in frame and pd.to_numeric(frame[metric], errors="coerce").isna().all():  # benchmarks
        return frame, request.model_copy(update={"columns": (*request.columns, f"benchmark={metric}")})
    if not metric or metric in frame:
        return frame, request.model_copy(update={"scores": (metric,)}) if metric else request
    for name in places:
        if (found := frame[name] == metric).any():
            return frame[found], request
    if places or "score" not in frame:
        raise unknown_name("metric", metric, known)
    return frame.assign(benchmark=metric), request


def _as_frame(data: Any, baseline: str, outcome: str) -> pd.DataFrame | None:
    """Return scores as a frame with a row for each run or score; None of what is none.

    ``outcome`` is what scores are called that stand below the names of variants.
    """
    if isinstance(data, list | tuple) and data:
        data = [pd.read_csv(each) if isinstance(each, str | os.PathLike) else each for each in data]
        are_frames = all(isinstance(each, pd.DataFrame) for each in data)
        data = pd.concat(data, ignore_index=True) if are_frames else data
    if isinstance(data, pd.Series):
        data = data.to_frame(data.name or NO_METRIC)
    elif _is_nested(data):
        columns = {name: {x: pd.Series(y) for x, y in each.items()} for name, each in data.items()}
        tables = {name: pd.DataFrame(each) for name, each in columns.items()}
        outer, inner = ("variant", "benchmark") if baseline in data else ("benchmark", "variant")
        data = pd.concat(tables, names=[outer, "seed"])
        data = data.melt(var_name=inner, value_name="score", ignore_index=False).reset_index().dropna()
    elif isinstance(data, Mapping):
        data = pd.DataFrame({name: pd.Series(scores) for name, scores in data.items()})
    elif isinstance(data, list | tuple) and data and all(isinstance(each, Mapping) for each in data):
        data = pd.DataFrame(data)
    if not isinstance(data, pd.DataFrame):
        return None
    if data.columns.nlevels > 1 and None not in data.columns.names[1:]:  # of pivot_table
        data = pd.DataFrame(data.stack([*range(1, data.columns.nlevels)], future_stack=True))
    has_seeds = data.columns.name == "seed" or all(_IS_SEED.fullmatch(str(name)) for name in data.columns)
    if has_seeds and baseline in data.index:
        data = data.T.rename_axis(None)
    if baseline in data and "seed" not in data:
        data = data.rename_axis("seed")
    frame = data if {None, *data.columns} & {*data.index.names} else data.reset_index()
    if baseline in frame:
        kept = [name for name in frame if name in ROW_COLUMNS]
        frame = frame.melt(kept, var_name="variant", value_name=outcome).dropna()
    return frame


def _is_nested(data: Any) -> bool:
    """Whether it is ``{benchmark: {variant: scores}}``."""
    return isinstance(data, Mapping) and bool(data) and all(isinstance(x, Mapping) for x in data.values())


def _flags(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords as the command's flags, with words as they are typed behind these."""
    flags = {}
    for name, value in settings.items():
        flag = _FLAGS.get(name, name)
        field = Request.model_fields.get(flag)
        if field is None or flag in _OF_THE_COMMAND:
            allowed = ["metric", *(each for each in Request.model_fields if each not in _OF_THE_COMMAND)]
            told = f"unknown keyword {name!r}, {told}" if (told := meant(name, allowed)) else ""
            raise KeywordError(told or unknown_name("keyword", name, [*allowed, *_FLAGS]))
        if value is not None:
            flags[flag] = _words(value) if field.annotation == tuple[str, ...] else value
    if "looks" in flags:
        flags["looks"] = tuple(map(str, flags["looks"]))
    return flags


def _words(value: object) -> tuple[Any, ...]:
    """Return values as the words behind a flag: a mapping as NAME=VALUE, one text or number by itself."""
    if isinstance(value, bool):
        return (NO_METRIC,) * value
    if isinstance(value, Mapping):
        return tuple(f"{name}={each}" for name, each in value.items())
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (str(value),)


def _source_of_runs(runs: Runs, scores: pd.DataFrame, notes: Sequence[str], request: Request) -> Source:
    """The scores of runs, with what is known of each; a run's family is that of its rows."""
    source = source_of_frame(scores, Request(axis=request.axis or runs.axes))
    settings = Settings({run.family for run in runs}, source.axes)
    families = [
        settings.setting(run.family, tuple((axis, run.places[axis]) for axis in source.axes)) for run in runs
    ]
    facts = (replace(run.facts, family=family) for run, family in zip(runs, families, strict=True))
    return replace(
        source, facts=tuple(facts), notes=(*notes, *_other_training(runs, source.axes), *source.notes)
    )


def _refuse_second_runs(runs: Runs) -> None:
    """Refuse two runs of one family, variant and seed, and name what tells them apart.

    Raises:
        UsageError: If there are such.
    """
    alike = runs.frame.duplicated(["family", "variant", "seed", *runs.axes], keep=False)
    if not alike.any():
        return
    first = runs[alike][0]
    levels = {axis: first.places[axis] for axis in runs.axes}
    same = runs[alike].where(family=first.family, variant=first.name, seed=first.seed, **levels)
    told = [f"{x} {' and '.join(str(setting_of(run, x)) for run in same)}" for x in same.told_apart[:3]]
    cure = "".join(f", as runs.where({x}={setting_of(first, x)!r})" for x in same.told_apart[:1])
    raise UsageError(
        f"{first.family} {first.name} seed {first.seed} has {len(same)} runs, of {'; '.join(told)}; a report "
        f"compares runs of one configuration: keep one{cure}, or name each: train(ffn={{'name': ...}})"
    )


_OF_AN_FFN = ("ffn_options", "intermediate_size", "ffn_budget")
"""Settings that make two variants of one."""


def _other_training(runs: Runs, axes: Iterable[str]) -> list[str]:
    """Say in which fields of text and training runs of one family differ, beside their study's axes."""
    values: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        for name, value in settings_of(run).items():
            if name.startswith(("data.", "optim.")) or name == "train.batch_size":
                values.setdefault((run.family, name), set()).add(shown_briefly(value))
    mixed = [
        f"the runs of {variant} differ in {', '.join(settings)} and are taken as one variant; "
        "train(ffn={'name': ...}) names each"
        for variant in dict.fromkeys(run.name for run in runs)
        if (settings := [x for x in differing_settings(runs.where(variant=variant)) if x in _OF_AN_FFN])
    ]
    return mixed + [
        f"the runs of {family} differ in {name} ({', '.join(sorted(some)[:4])}), which may be the difference"
        for (family, name), some in values.items()
        if len(some) > 1 and name not in axes
    ]


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    """Return a text, having written it if there is a path."""
    if path is not None:
        write_text(Path(path), text)
    return text


def _cell(value: Any) -> str:
    """Write a value as a table of a text has it."""
    return "" if pd.isna(value) else f"{value:.4g}" if isinstance(value, float) else str(value)


_FIGURES = (".png", ".pdf", ".svg")
_FILES = (".html", ".md", ".json", ".csv", ".tex", *_FIGURES)
_OTHER_FILES = (".txt", ".tsv", ".xlsx", ".parquet", ".jpg", ".jpeg", ".pkl", ".yaml")


class Column(pd.Series):
    """A value for each row of ``verdicts``; called, as pandas does within brackets, it is itself."""

    def __call__(self, *_: Any) -> pd.Series:
        return pd.Series(self)


class Row(pd.Series):
    """A row of ``verdicts``, whose values have the names that columns have for a ``Comparison``."""

    def __getattr__(self, name: str) -> Any:  # type: ignore[bad-override]
        return super().__getattr__(OTHER_NAMES.get(name, name))


def _by_variant(table: pd.DataFrame) -> pd.DataFrame:
    """Index a table by variant, and by outcome and family if a variant has several rows."""
    return table if table.index.is_unique else table.set_index(["benchmark", "family"], append=True)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Framed):
    """Everything that a report says, computed; it shows its claims, and has what ``verdicts`` has.

    Args:
        analysis: All of it.
        data: The scores; of a frame that was given as they stand there.
    """

    analysis: Analysis
    data: pd.DataFrame | None = None

    other_names: ClassVar = OtherNames("attribute of a comparison")

    def __getattr__(self, name: str) -> Any:
        column = OTHER_NAMES.get(name, name)
        if column not in ("estimate", "p", "verdict", "mean", "sd"):
            return super().__getattr__(name)
        return _by_variant(self.scores if column in ("mean", "sd") else self.verdicts)[column]

    def __call__(self) -> Comparison:
        """Return itself, so that ``study.report()`` is ``study.report``."""
        return self

    @property
    def frame(self) -> Table:
        """Its ``verdicts``."""
        return self.verdicts

    @property
    def outcomes(self) -> list[str]:
        """What is compared, the report's first one first."""
        return list(map(str, self.analysis.tables))

    @property
    def variants(self) -> list[str]:
        """All, the baseline too."""
        return list(self.scores.index.unique())

    @property
    def baseline(self) -> str:
        """What the others are compared with."""
        return str(self.analysis.baseline)

    @property
    def best(self) -> str:
        """The variant with the best mean on the report's first outcome, whether surely or not."""
        outcome = shown_first(self.analysis)[0]
        means = self.scores[self.scores["benchmark"] == str(outcome)]["mean"].groupby(level=0).mean()
        return str((means * self.analysis.metrics[outcome].sign).idxmax())

    @property
    def significant(self) -> Column:
        """Whether each variant is better or worse than the baseline; ``significant()`` is the same."""
        return Column(self.verdicts["verdict"].str.startswith(("better", "worse"), na=False))

    def conf_int(self) -> pd.DataFrame:
        """Return the interval of each difference by variant: low, high."""
        return _by_variant(self.verdicts)[["low", "high"]]

    @property
    def ci(self) -> pd.Series:
        """The same as pairs."""
        return self.conf_int().apply(tuple, axis=1)

    def summary(self) -> Table:
        """Return ``scores`` beside ``verdicts``: n, mean, sd, estimate, interval, p, verdict."""
        table = self.scores.merge(self.verdicts, how="left", on=["variant", "benchmark", "family"])
        alike = [name for name in ("family", "is_primary") if table[name].nunique() < 2]
        return Table(table.drop(columns=["contrast", *alike]))

    @property
    def answer(self) -> str:
        """What is claimed, in sentences, as Markdown."""
        return as_keywords(" ".join(answer(self.analysis)), _KEYWORDS)

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table of the report, those of ``tables/*.csv``: scores, comparisons, power, ..."""
        return number_tables(self.analysis)

    @property
    def verdicts(self) -> Table:
        """One row for each variant (the index), outcome and family, none being the average over families.

        ``estimate`` is variant minus baseline, ``low`` to ``high`` the interval that agrees with the verdict,
        both in ``unit``; ``p`` is corrected likewise. What is not ``is_primary`` is explored: it has an
        estimate, and no interval, p or verdict. Contrasts that were asked for come last.
        """
        return Table(self._compared[list(VERDICT_COLUMNS)].set_index("variant"))

    @property
    def effect_sizes(self) -> pd.Series:
        """Hedges' g of each difference: in standard deviations over seeds, corrected for their number."""
        return _by_variant(self._compared.set_index("variant"))["hedges_g"]

    @property
    def _compared(self) -> pd.DataFrame:
        table, asked = self.tables["comparisons"], self.tables.get("contrasts")
        table = table.assign(variant=table["contrast"].str.partition(" - ")[0])
        if asked is not None:
            further = asked[~asked["contrast"].isin(table["contrast"])]
            table = pd.concat([table, further.assign(variant=further["contrast"])])
        return table.assign(
            low=table["low_simultaneous"], high=table["high_simultaneous"], p=table["p_corrected"]
        )

    def to_markdown(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return ``verdicts`` as a table in Markdown, numbers to four digits; a path has it written, too."""
        return _written(markdown.table(VERDICT_COLUMNS, [list(map(_cell, row)) for row in self]), path)

    @one_line_errors()
    def to_latex(
        self, path: str | os.PathLike[str] | None = None, *, caption: str = "", label: str = "tab:comparisons"
    ) -> str:
        """Return the primary comparisons as a LaTeX table, for booktabs; a path has it written, too."""
        return _written(comparison_table(self.analysis, caption, label), path)

    def __len__(self) -> int:
        return len(self.verdicts)

    def __iter__(self) -> Iterator[Any]:
        """Yield each row of ``verdicts`` as a named tuple, with its variant."""
        return self.verdicts.reset_index().itertuples(index=False, name="Verdict")

    def __contains__(self, variant: object) -> bool:
        return variant in self.variants

    def __getitem__(self, key: Any) -> Any:
        """Return rows of ``verdicts``: by place, or of a variant, a contrast or an outcome; or a column.

        One row of a variant is a series, as of ``loc``.
        """
        table = self.verdicts
        if isinstance(key, str) and (found := (table[["contrast", "benchmark"]] == key).any(axis=1)).any():
            rows = table[found]
            return Row(rows.iloc[0]) if len(rows) == 1 and key not in {*table.benchmark} else rows
        if isinstance(key, int | slice):
            return table.iloc[key]
        found = table.loc[key] if not isinstance(key, str) and {*key} <= {*table.index} else table[key]
        return Row(found) if isinstance(found, pd.Series) and found.index.equals(table.columns) else found

    def filter(self, variants: str | Sequence[str]) -> pd.DataFrame:
        """Return the rows of ``verdicts`` of these variants."""
        return self.verdicts[self.verdicts.index.isin([variants] if isinstance(variants, str) else variants)]

    @property
    def scores(self) -> Table:
        """Mean and standard deviation over seeds of each variant (the index), by outcome and family."""
        return Table(self.tables["scores"].set_index("variant"))

    @one_line_errors()
    def plot(
        self,
        kind: str = "forest",
        *,
        outcome: str | None = None,
        family: str | None = None,
        ax: Any = None,
        figsize: tuple[float, float] | None = None,
    ) -> Axes:
        """Draw one figure.

        Args:
            kind: ``forest``, ``seeds``, and of a study ``learning-curves`` or
                ``learning-curve-differences``.
            outcome: None takes the first of the report.
            family: Where a figure is of one; None takes the first.
            ax: Where to draw it, in a figure whose layout becomes constrained if it has none; narrow ones get
                no legend. None makes a figure of pyplot's.
            figsize: Width and height of that figure in inches.

        Returns:
            The axes, which have the ``savefig`` of their figure.

        Raises:
            UsageError: For an unknown name, or where there is nothing to draw.
        """
        panel = find_panel(self.analysis, OtherNames("figure").get(kind, kind), outcome, family)
        # pyplot finds its backend with its first figure, and then says whether it is interactive: outside of
        # what is put back.
        size = figsize or (panel.width, panel.height)
        figure = pyplot.figure(figsize=size, layout="constrained") if ax is None else None
        with matplotlib.rc_context(STYLE):
            axes: Any = ax if figure is None else figure.subplots()
            panel.draw(axes)
            if panel.handles and figure is not None:
                add_legend(figure, panel.handles)
            elif axes.get_window_extent().width < NARROW_IN * axes.figure.dpi:
                axes.locator_params(axis="x", nbins=3)
            elif panel.handles:
                axes.legend(handles=list(panel.handles), fontsize=SMALL)
        if figure is None and (whole := axes.get_figure(root=True)).get_layout_engine() is None:
            whole.set_layout_engine("constrained")  # else numbers beside the axes are cut
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
    def save(self, out: str | os.PathLike[str], *, paper: bool = False) -> Path:
        """Write the whole report, as the command ``report`` does, or one file of it.

        Args:
            out: Its folder. A data frame is written into it too, as scores.csv, which the report's command
                names. Or one file: the page as ``.html``, or as ``.md`` without figures; all numbers as
                ``.json``; ``verdicts`` as ``.csv`` or ``.tex``; the forest as ``.png``, ``.pdf`` or ``.svg``.
            paper: Write what a paper needs into the folder, too.

        Returns:
            The path of report.md, or of the file.

        Raises:
            UsageError: If it cannot be written.
        """
        folder, analysis = Path(out), self.analysis
        kind = "" if folder.is_dir() else folder.suffix.lower()
        if kind in _OTHER_FILES or (paper and kind in _FILES):
            files = ", ".join(_FILES)
            raise UsageError(f"{folder}: give a folder's name, or, without paper, one ending in {files}")
        if kind in _FILES:
            return self._written_alone(folder, kind)
        if paper:
            analysis = replace(analysis, request=analysis.request.model_copy(update={"paper": True}))
        if analysis.source.kind == FRAME and self.data is not None:
            if folder.is_file():
                raise UsageError(f"{folder} is a file; give a folder")
            table = folder / "scores.csv"
            folder.mkdir(parents=True, exist_ok=True)
            write_text(table, to_csv(self.data))
            analysis = replace(analysis, source=replace(analysis.source, path=table, kind="CSV"))
        write_analysis(analysis, folder)
        return folder / REPORT_NAME

    def _written_alone(self, file: Path, kind: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        if kind in _FIGURES:
            self.figure("forest").savefig(file)
        elif kind in (".csv", ".tex"):
            write_text(file, self.to_csv() if kind == ".csv" else self.to_latex())
        else:
            with TemporaryDirectory() as whole:
                text = self.save(whole).with_suffix(kind).read_text(encoding="utf-8")
            write_text(file, re.sub(r"(?m)^!\[.*\n\n?", "", text) if kind == ".md" else text)
        return file

    def __repr__(self) -> str:
        return as_keywords(summary(self.analysis), _KEYWORDS)

    def _repr_html_(self) -> str:
        analysis = self.analysis
        parts = [card(analysis), leaderboard(analysis), warnings(analysis)]
        return to_fragment(as_keywords("\n\n".join(filter(None, parts)), _KEYWORDS))
