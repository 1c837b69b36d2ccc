"""Tables of scores of any shape, in rows of one score each.

A long table has a row for each score. A wide one has a column for each benchmark or for each seed; the runs
that a tracker exports are a wide table.
"""

from __future__ import annotations

import codecs
import io
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from base.errors import UsageError, first_line, shown, unknown_name
from base.printing import first_few
from report.readers.reading import ONLY_FAMILY, SHOWN, TableOfRows, split_names
from report.request import DECLARATIONS, NAME, Request
from report.significance.data_checks import find_confounds
from scores.exports import OF_TRACKER, STEP, refuse_names_of_runs, runs_of_export
from scores.metrics import is_beside_scores, is_known_score
from scores.rows import NO_METRIC, ROW_COLUMNS, unmark
from scores.spreads import WHY

EXCEL, SHEET = ".xlsx", "sheet"
SUFFIXES = (".csv", ".tsv", ".parquet", EXCEL)
ROW = "row"
"""What the index of a table is called whose labels are rows of its file, counted from 1."""
_NAME_COLUMNS = ("model", "model_name", "method", "name", "run", "run_name")
"""Where a table names its runs, if ``--columns`` does not say it: the first beside seeds, else the last."""
_SUMMARY = r"(?i)(grand )?(average|avg|mean|median|std|std\.? ?dev|sd|sem|total|overall)\.?"
"""What rows below a table are called that sum up the others."""
_STATE = re.compile(r"(.*[./])?(run_?|trial_?)?(state|status)|(is_|has_)?(finished|completed?|succeeded)")
_FINISHED = r"finished|completed?|success|succeeded|done|terminated|inactive|ok|passed|true|yes"
_FAILED = r"(?i)diverged|diverges|div|failed|crashed|oom|nan"
"""A cell of a run that failed; an empty one, as pandas writes nan, may be of a run that nobody started."""
_UNFINISHED = r"crashed|failed|fail|error|killed|canceled|cancelled|running|active|pending|pruned|false|no"
_OF_SEED = re.compile(r"(?:(?P<benchmark>.+?)[\W_]+)?(?:seed|run|s)[\W_]*(?P<seed>\d+)\W*", re.IGNORECASE)
"""A column that holds the scores of one seed, ``seed_1``, ``s1`` or ``blimp seed 1``."""
_COUNTS_RUNS = re.compile(
    r"random_state|(run|trial|exp(eriment)?|rep|replicate|replication|repeat|repetition)(_?(id|no|nr|num(ber)?|index))?"
)
"""A column that numbers runs, and counts as the seed where nothing is called so."""
_RUN = r"(?P<variant>.+?)(?:[-_. ](?P<seed>\d+))?$"
"""A column that holds the scores of one run; pandas numbers columns of one name, all but the first."""
_PLACE = ("benchmark", "task", "group", "metric", "head")
"""What one run has several scores of."""


@dataclass(frozen=True, kw_only=True)
class _Context:
    """What every step of the reading may need; ``notes`` are said in the report."""

    request: Request
    origin: str
    notes: list[str] = field(default_factory=list)
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    """Family, variant and seed of runs that a cell says to have failed."""

    def note(self, text: str, names: Iterable[object]) -> None:
        """Say something of names, where there are any."""
        if listed := list(dict.fromkeys(map(str, names))):
            self.notes.append(f"{text}: {first_few(listed, SHOWN)}")

    def error(self, text: str) -> UsageError:
        """Say what is wrong, and where."""
        return UsageError(f"{self.origin}{text}")


def read_table(path: Path, request: Request) -> TableOfRows:
    """Read a file with a table.

    Args:
        path: CSV or TSV (UTF-8, or UTF-16 with its mark), parquet, or Excel.
        request: What the user said of it.

    Raises:
        UsageError: If it cannot be read, or is no table of scores.
    """
    try:
        table, delimiter = _read(path, request)
    except ImportError:
        raise UsageError(
            f'{path} needs openpyxl, which is not installed; pip install "ffn-ablations[excel]" installs it, '
            "or save the sheet as CSV"
        ) from None
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, AttributeError, BadZipFile) as error:
        cure = "; save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        cure = "; save it as .xlsx (~$ is only a lock)" if isinstance(error, BadZipFile) else cure
        raise UsageError(f"{path} is not a readable table: {first_line(error)}{cure}") from None
    if table.empty:
        raise UsageError(f"{path}: has column names and no rows; scores stand below them, a line each")
    rows = to_rows(table, request, str(path), delimiter)
    return replace(rows, kind="rows file") if path.suffix == ".parquet" else rows


def _read(path: Path, request: Request) -> tuple[pd.DataFrame, str]:
    """Read a table as it is written, and what separates its fields."""
    if path.suffix == ".parquet":
        return pd.read_parquet(path), ","
    if path.suffix == EXCEL:
        return _read_sheets(path, request), ";"
    content = path.read_bytes()
    if not content.strip():
        raise ValueError("it is empty")
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = content.decode("utf-16" if is_wide else "utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    return _parse(text)


def _read_sheets(path: Path, request: Request) -> pd.DataFrame:
    """Read the sheet that a user names, else all of an Excel file as one table, ``sheet`` their names."""
    sheets = pd.read_excel(
        path, sheet_name=None, header=None, dtype=object, keep_default_na=False, engine="openpyxl"
    )
    filled: dict[str, pd.DataFrame] = {}
    for key, cells in sheets.items():
        table = _named(cells.fillna("").set_axis(pd.RangeIndex(1, len(cells) + 1, name=ROW)))
        filled |= {str(key): table} if len(table) else {}
    listed = first_few(list(filled), 8) if filled else "all are empty"
    if request.sheet is not None:
        filled = {name: table for name, table in filled.items() if name == request.sheet}
    are_alike = len({tuple(sorted(table.columns)) for table in filled.values()}) == 1
    if not are_alike:
        raise UsageError(f"{path}: choose one of its sheets, --sheet NAME: {listed}")
    is_said = SHEET in (*request.names_of_columns.values(), *request.axis)
    if len(filled) > 1 and not is_said:
        raise UsageError(
            f"{path}: its sheets have the same columns ({listed}); say what a sheet is, such as --columns "
            "seed=sheet (or variant, benchmark), or choose one, --sheet NAME"
        )
    if len(filled) > 1 or request.sheet is not None:
        filled = {name: table.assign(**{SHEET: name}) for name, table in filled.items()}
    return pd.concat(filled.values()).rename_axis(ROW)


def _parse(text: str) -> tuple[pd.DataFrame, str]:
    """Read every cell as text: a variant may be called ``none``."""
    (blank,) = re.findall(r"\A(?:[ \t]*(?:#.*)?\n)*", text)
    num_skipped, header = blank.count("\n"), text.removeprefix(blank).partition("\n")[0]
    delimiter = max((",", ";", "\t", "|"), key=re.sub(r'"[^"]*"', "", header).count)
    # Without a header, a row of more fields than the first is an error; with one, pandas shifts its columns.
    try:
        cells = pd.read_csv(
            io.StringIO(text), sep=delimiter, dtype=str, keep_default_na=False, skipinitialspace=True,
            header=None, skip_blank_lines=False, skiprows=num_skipped,
        )  # fmt: skip
    except pd.errors.ParserError as error:
        cure = "; where commas are decimal, put ; between fields" if delimiter == "," else ""
        raise ValueError(f"{str(error).rpartition('C error: ')[2].strip()}{cure}") from None
    cells = cells.set_axis(pd.RangeIndex(num_skipped + 1, num_skipped + 1 + len(cells), name=ROW))
    table = _named(unmark(cells))
    if table.shape[1] < 2:
        raise ValueError("it needs variant, seed, benchmark and score, with , ; | or tabs between them")
    return table, delimiter


def _named(cells: pd.DataFrame) -> pd.DataFrame:
    """Take the first row that is not empty for names, and leave out empty rows and columns."""
    is_filled = cells.astype(str) != ""
    cells = cells.loc[is_filled.any(axis=1), is_filled.any(axis=0)]
    if cells.empty:
        return cells
    return cells.iloc[1:].set_axis(list(cells.iloc[0].astype(str).str.strip()), axis=1)


def to_rows(table: pd.DataFrame, request: Request, origin: str, delimiter: str = ",") -> TableOfRows:
    """Bring a table into rows of one score each, with the column names of rows.

    Args:
        table: As it was written.
        request: What the user said of it.
        origin: Where it is from, named in errors.
        delimiter: What separated its fields: where it is no comma, commas may be decimal ones.

    Raises:
        UsageError: For a column that is not there, or a shape that cannot be told.
    """
    context = _Context(request=request, origin=origin)
    if table.index.name != ROW:
        table = table.set_axis(pd.RangeIndex(1, len(table) + 1, name="data row"))
    columns = (*request.names_of_columns.values(), *request.axis)
    table = table.set_axis(list(map(str, table.columns)), axis=1)
    table, notes = runs_of_export(table, columns, request.scores)
    context.notes.extend(notes)
    table = _renamed(table, context)
    if table.empty:
        return TableOfRows(table=table)
    table = _finished(_as_text(table), context)
    if "score" in table.columns and request.scores:
        cure = f"leave out --scores, or write --columns score={request.scores[0]}"
        raise context.error(f" has a column score, so it has a row for each score; {cure}")
    table = _as_melted(_turned(table, context), request.scores)
    if "score" not in table.columns:
        table = _wide_to_long(table, context)
    table = _without_summaries(_identified(table, context), context)
    if "score" in table.columns and not pd.api.types.is_numeric_dtype(table["score"]):
        _refuse_thousands(table, delimiter, context)
        table = table.assign(score=_plain_numbers(table["score"], delimiter, context.notes))
    is_text = "score" in table.columns and not pd.api.types.is_numeric_dtype(table["score"])
    if {"score", "variant"} <= {*table.columns} and (is_text or table["score"].isna().any()):
        table = _without_gaps(table, context)
    if "family" not in table.columns:
        table = table.assign(family=ONLY_FAMILY)
    if "variant" in table.columns and "score" in table.columns:
        context.notes.extend(_confounds(table, context))
    return TableOfRows(table=table, notes=tuple(context.notes), failed=tuple(context.failed))


def _confounds(table: pd.DataFrame, context: _Context) -> list[str]:
    factor, axes = context.request.factor, context.request.axis
    level = factor if factor and factor in table.columns else "variant"
    places = [x for x in ("family", "variant", *axes, *_PLACE) if x in table.columns and x != level]
    told = [*_told(table, context), *(x for x in table.columns if x.startswith("params."))]
    return find_confounds(table.reset_index(drop=True), told, places, level)


def _key(name: object) -> str:
    """Write a column's name as names are compared: small, and joined by underscores."""
    return re.sub(r"[\s-]+", "_", str(name).strip().lower())


def _renamed(table: pd.DataFrame, context: _Context) -> pd.DataFrame:
    """Give columns the names that rows have for them, as the user says, or where they differ in letters."""
    columns, scores = context.request.names_of_columns, context.request.scores
    flags = {theirs: f"--columns {ours}=" for ours, theirs in columns.items()}
    flags |= dict.fromkeys(scores, "--scores")
    if absent := [name for name in flags if name not in table.columns]:
        raise unknown_name(f"column in {flags[absent[0]]}", absent[0], list(table.columns))
    if (named := columns.get("benchmark")) and _is_number(table[named]).all():
        raise context.error(f": {named} has numbers, no benchmarks; write --scores {shlex.quote(named)}")
    renames = {theirs: ours for ours, theirs in columns.items()}
    by_key = {_key(name): name for name in (*ROW_COLUMNS, *DECLARATIONS, *context.request.axis)}
    others = [name for name in table.columns if name not in (*renames, *scores)]
    by_letters = {name: by_key.get(_key(name), name) for name in others}
    if "seed" not in {*columns, *by_letters.values()}:  # W&B and Hydra write it with its section
        by_letters |= {name: "seed" for name in others if _key(name) in ("config.seed", "config/seed")}
    if "variant" not in {*columns, *by_letters.values()}:
        by_letters |= {name: "variant" for name in others if _key(name) == "ffn"}
    replaced = [name for name in others if by_letters[name] in columns]
    table = table.drop(columns=replaced).rename(columns=by_letters | renames)
    if (twice := table.columns[table.columns.duplicated()]).size:
        is_of_spreads = not {"std", "sem", "var"}.isdisjoint(table.iloc[:1].to_numpy().ravel())
        cure = "name each once, seeds seed_1, seed_2; pandas does by table.stack().reset_index()"
        cure = WHY if is_of_spreads else cure
        if not twice[0]:
            raise context.error(" has columns without a name; delete rows above the names, as a title")
        raise context.error(f" has the column {twice[0]!r} twice; {cure}")
    return table


def _as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Write all but numbers as text; what is missing is empty."""
    texts = [str(name) for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    return table.assign(**{name: _texts(table[name]) for name in texts})


def _texts(column: pd.Series) -> pd.Series:
    texts = column if isinstance(column.dtype, pd.StringDtype) else column.astype(object).map(str)
    return texts.mask(column.isna(), "")


def _finished(table: pd.DataFrame, context: _Context) -> pd.DataFrame:
    """Leave out runs that a tracker calls unfinished: no random ones, as what diverges is stopped."""
    for column in (x for x in table.columns if _STATE.fullmatch(_key(x)) and x not in context.request.axis):
        states = table[column].astype(str).str.strip().str.lower()
        is_finished = states.str.fullmatch(_FINISHED)
        if is_finished.any():
            rows = (
                f"{table.index.name} " + table.index.astype(str) + " (" + states.replace("", "no state") + ")"
            )
            context.note("left out, not finished", rows[~is_finished])
            table = table[is_finished]
        elif states.str.fullmatch(_UNFINISHED).any():
            raise context.error(f": {column} says of no run that it finished ({states.iloc[0]})")
    return table


def _turned(table: pd.DataFrame, context: _Context) -> pd.DataFrame:
    """Give each score a row where a column is a run and a row a metric: ``gelu_1``, or pandas' ``gelu.1``."""
    columns = [x for x in _told(table, context) if _is_number(table[x]).any()]
    runs = pd.Series(columns, columns, dtype=str).str.extract(_RUN).fillna({"seed": "0"})
    counts = runs["variant"].value_counts()
    is_told = context.request.scores or {*_PLACE}.isdisjoint(table) or not _lacks_runs(table)
    if is_told or len(counts) < 2 or counts.nunique() > 1 or counts.max() < 2 or runs.duplicated().any():
        return table
    context.notes.append(f"columns are read as runs: {columns[-1]} is {' seed '.join(runs.iloc[-1])}")
    long = table.melt([x for x in table if x not in columns], columns, "run", "score")
    return long.drop(columns="run").join(runs.loc[long["run"]].reset_index(drop=True))


def _lacks_runs(table: pd.DataFrame) -> bool:
    return {"variant", "seed", "score", *_NAME_COLUMNS}.isdisjoint(map(_key, table))


def _as_melted(table: pd.DataFrame, scores: tuple[str, ...]) -> pd.DataFrame:
    """Rename what a row a score has as ``value``, and task or metric where nothing is called benchmark."""
    values = [x for x in table.columns if _key(x) == "value"]
    if "score" not in table.columns and not {*_PLACE}.isdisjoint(table) and scores in ((), tuple(values)):
        table = table.rename(columns=dict.fromkeys(values, "score"))
    if "score" in table.columns and "benchmark" not in table.columns:
        place = next((x for x in ("task", "metric") if x in table.columns), "")
        table = table.rename(columns={place: "benchmark"}) if place else table.assign(benchmark=NO_METRIC)
    return table


def _wide_to_long(table: pd.DataFrame, context: _Context) -> pd.DataFrame:
    """Make a row of each score of a table with a column for each benchmark, metric or seed.

    Without ``--scores``, columns are scores where all that hold numbers have names that are known. The index
    then says where each cell stands.
    """
    of_seeds = [x for x in context.request.scores or table.columns if _OF_SEED.fullmatch(x)]
    if "seed" in table.columns or len(of_seeds) < len(context.request.scores):
        of_seeds = []
    unread = {*_told(table, context)} - {*of_seeds} if of_seeds else ()
    context.note("not read as scores", [x for x in table if x in unread and _is_number(table[x]).any()])
    scores = of_seeds or list(context.request.scores) or _score_columns(table, context)
    if not scores:
        return table  # which lacks its scores, as is told next
    others = [name for name in table.columns if name not in scores]
    long = table.melt(others, scores, "column", "score", ignore_index=False)
    places = long["column"] + f", {table.index.name} " + long.index.astype(str)
    fields = long["column"].str.extract(_OF_SEED if of_seeds else "(?P<benchmark>.*)").dropna(axis=1)
    if "benchmark" in others:
        fields = fields.rename(columns={"benchmark": "metric"})
    elif "benchmark" not in fields:
        fields["benchmark"] = long[SHEET] if SHEET in others else NO_METRIC
    if "metric" in {*others} & {*fields.columns}:
        raise context.error(f" has benchmark and metric; write --columns score={shlex.quote(scores[0])}")
    return (
        long.drop(columns="column")
        .assign(**{str(x): fields[x] for x in fields})
        .set_axis(pd.Index(places, name="column"))
    )


def _told(table: pd.DataFrame, context: _Context) -> list[str]:
    """Name the columns that neither rows have nor trackers write of every run."""
    known = {*map(_key, (*ROW_COLUMNS, *DECLARATIONS, *context.request.axis)), *_NAME_COLUMNS}
    return [x for x in table.columns if _key(x) not in known and not OF_TRACKER.fullmatch(x)]


def _score_columns(table: pd.DataFrame, context: _Context) -> list[str]:
    others = [x for x in _told(table, context) if not (STEP.fullmatch(x) or _COUNTS_RUNS.fullmatch(_key(x)))]
    said = {*context.request.lower_is_better, *context.request.higher_is_better}
    is_known = {x: x in said or is_known_score(x) for x in others}
    has_figures = {x: table[x].astype(str).str.match(r"\W*\d").any() for x in others}
    numeric = [x for x in others if _is_number(table[x]).any() or (is_known[x] and has_figures[x])]
    unknown = [x for x in numeric if not is_known[x] and not is_beside_scores(x)]
    scores = [name for name in numeric if is_known[name]]
    if unknown or (numeric and not scores):
        names = first_few([*scores, *(unknown or numeric)], SHOWN)
        others = [x for x in table.columns if x not in unknown]
        if len(unknown) > 1 and {*map(_key, others)} <= {"seed", *_PLACE}:
            raise context.error(
                f" has no column variant; if {names} are variants, give each score a row, in pandas: "
                f'table.melt({others}, var_name="variant", value_name=METRIC), METRIC such as "accuracy"'
            )
        ends = {_key(name).rpartition("_")[2] for name in numeric}
        spreads = {"std", "sd", "sem", "stderr", "n"}
        are_spreads = "seed" not in table and unknown and spreads >= {*map(_key, unknown)}
        if are_spreads or ("mean" in ends and spreads & ends):
            raise context.error(f" has {names}: {WHY}")
        begins = {_key(name).partition("_")[0] for name in unknown}
        are_alike = "".join(unknown).isdecimal() or len(begins) == 1 < len(unknown)
        seeds = "; seeds are called seed_1, seed_2" if are_alike else ""
        told = "say which columns are scores, with --scores: it has numbers in"
        raise context.error(f" has no column score; {told} {names}{seeds}{_foreign(table, numeric, context)}")
    scores = scores or [name for name in others if is_known[name]]
    unread = [x for x in others if x not in scores and (is_known[x] or has_figures[x])]
    context.note("not read as scores", unread)
    return scores


def _foreign(table: pd.DataFrame, numeric: list[str], context: _Context) -> str:
    """Write the flags for a table of which no column is known, as one in another language."""
    texts = [x for x in _told(table, context) if not _is_number(table[x]).any()]
    seeds = [x for x in numeric if table[x].astype(str).str.fullmatch(r"\d{1,4}").all()]
    scores = [x for x in numeric if x not in seeds]
    if not (texts and seeds and scores and _lacks_runs(table)):
        return ""
    columns = shlex.join([f"variant={texts[0]}", f"seed={seeds[0]}"])
    return f"; perhaps --columns {columns} --scores {shlex.quote(scores[0])}"


def _identified(table: pd.DataFrame, context: _Context) -> pd.DataFrame:
    """Give rows a variant and a seed, from the names of runs where no columns say them."""
    template, name_column = context.request.names, _name_column(table, context.request)
    if template is None and (name_column is None or {"variant", "seed"} <= {*table.columns}):
        return _numbered(table, context)
    if name_column is None:
        raise context.error(": no column names runs, as --names needs; say which: --columns name=COLUMN")
    names = list(table[name_column].astype(str))
    fields, note = split_names(names, template, context.request.axis, context.origin)
    if template is None:
        if name_column != NAME and "variant" not in table.columns and "seed" not in fields.columns:
            refuse_names_of_runs(table, name_column, context.origin)
        if "seed" in fields.columns:
            fields = _unless_contradicted(fields, names, table, context)
        fields = fields[[name for name in fields.columns if name not in table.columns]]
        context.notes.extend([note] if "seed" in fields.columns else [])
        others = [x for x in table.columns if _key(x) in _NAME_COLUMNS and x != name_column]
        context.note(
            f"names are those of {name_column}; not read", [x for x in others if table[x].nunique() > 1]
        )
    others = table.drop(columns=[*{*fields.columns} & {*table.columns}, name_column])
    return _numbered(pd.concat([fields.set_axis(table.index), others], axis=1), context)


def _unless_contradicted(
    fields: pd.DataFrame, names: list[str], table: pd.DataFrame, context: _Context
) -> pd.DataFrame:
    """Warn of runs that columns call otherwise than their names; `gelu-s2` at several seeds is a variant."""
    is_other: dict[str, np.ndarray] = {}
    if "seed" in table.columns:
        is_other["seed"] = _numbers(fields["seed"]).to_numpy() != _numbers(table["seed"]).to_numpy()
        if is_other["seed"].any() and table["seed"].groupby(names).nunique().max() > 1:
            return pd.DataFrame({"variant": names})
    variants = fields["variant"].str.lower().to_numpy()
    for column in _told(table, context) if "variant" not in table.columns else ():
        texts = table[column].astype(str).str.strip().str.lower()
        if {*texts} <= {*variants}:
            is_other[column] = texts.to_numpy() != variants
    for column, others in is_other.items():
        runs = [f"{names[place]} ({table[column].iloc[place]})" for place in np.flatnonzero(others)]
        counted = "column" if column == "seed" else "name"
        context.note(f"names of runs and {column} contradict each other, and the {counted} counts", runs)
    return fields


def _name_column(table: pd.DataFrame, request: Request) -> str | None:
    """Return the column that names runs, by what the user says or by its own name; numbers name nothing."""
    if NAME in request.names_of_columns:
        return NAME
    names = {_key(x): x for x in table.columns if _key(x) in _NAME_COLUMNS and not _is_number(table[x]).all()}
    order = _NAME_COLUMNS if "seed" in table.columns else _NAME_COLUMNS[::-1]
    return next((names[name] for name in order if name in names), None)


def _numbered(table: pd.DataFrame, context: _Context) -> pd.DataFrame:
    """Number the runs of a variant where nothing says their seeds."""
    if "variant" not in table.columns:
        texts = [x for x in _told(table, context) if not _is_number(table[x]).any()]
        if not texts and "score" not in table.columns:
            return table  # which lacks more, as is told next
        if not texts:
            raise context.error(" has no column variant; add one, or name it: --columns variant=COLUMN")
        cure = f"such as --columns variant={shlex.quote(texts[0])}: there are {first_few(texts, SHOWN)}"
        raise context.error(f" has no column variant; say which it is, {cure}")
    if "seed" not in table.columns and (column := _run_numbers(table)):
        context.notes.append(f"the column {column} tells runs apart, as seeds do")
        seeds = table[column]
        if not _is_number(seeds).all():
            seeds = seeds.groupby(table["variant"]).transform(lambda runs: pd.factorize(runs)[0] + 1)
        table = table.drop(columns=column).assign(seed=seeds)
    runs = ("family", "variant", "seed", *context.request.axis)
    groups = [x for x in (*runs, *_PLACE) if x in table.columns]
    _refuse_unread_places(table, groups, context)
    if "seed" in table.columns:
        return table
    if (copies := int(table.groupby(list(table.columns), dropna=False).size().min())) > 1:
        raise context.error(f" has every row {copies} times; keep one of each, or name runs in a column seed")
    number = table.groupby(groups, sort=False).cumcount() + 1
    context.notes.append("no column says seeds, nor do names: scores of a task count as runs in their order")
    return table.assign(seed=number.astype(str))


def _run_numbers(table: pd.DataFrame) -> str | None:
    """Return the column that tells the runs of every variant apart."""
    columns = [x for x in table.columns if _COUNTS_RUNS.fullmatch(_key(x))]
    of_variants = table.groupby("variant")
    return next((x for x in columns if (of_variants[x].nunique() > 1).all()), None)


def _refuse_unread_places(table: pd.DataFrame, groups: list[str], context: _Context) -> None:
    """Refuse rows of which a column that is not read, as ``dataset``, has each value as often in each arm."""
    num_rows = table.groupby(groups).size().max()
    times = {x: num_rows / table[x].nunique() for x in _told(table, context) if table[x].nunique() > 1}
    if apart := [x for x in times if (table.groupby([*groups, x]).size() == times[x]).all()]:
        what, others = ("run", "family") if "seed" in groups else ("variant", "seed, family")
        raise context.error(
            f": rows of one {what} differ in {apart[0]}, and nothing says what it is; write --axis "
            f"{shlex.quote(apart[0])} if models were trained apart by it, --columns "
            f"{shlex.quote(f'task={apart[0]}')} (or {others}) if it says what was scored, which is averaged; "
            "or keep the rows of one value"
        )


def _without_summaries(table: pd.DataFrame, context: _Context) -> pd.DataFrame:
    """Leave out rows whose variant or seed is called as what sums up the others."""
    names = table.reindex(columns=["variant", "seed"]).astype(str).apply(lambda column: column.str.strip())
    is_summary = names.apply(lambda column: column.str.fullmatch(_SUMMARY))
    text = "left out, as a summary of other rows and no run (rename what is none)"
    context.note(text, names[is_summary].stack().dropna())
    return table[~is_summary.any(axis=1)]


def _without_gaps(table: pd.DataFrame, context: _Context) -> pd.DataFrame:
    """Leave out cells that hold no score, and name them.

    A cell with a digit that is no number, as ``60.2*``, stays: it holds a score, and is refused later.
    """
    cells = table["score"].astype(str).str.strip().mask(table["score"].isna(), "")
    is_gap = ~_is_number(cells) & ~cells.str.contains(r"\d")
    # Of a wide table the label names column and row; of a long one it is the row's number.
    places = [place if isinstance(place, str) else f"row {place}" for place in cells.index[is_gap]]
    gaps = [
        f"{p} ({shown(cell) if cell else 'empty'})" for p, cell in zip(places, cells[is_gap], strict=True)
    ]
    if is_gap.all():
        cure = "; save it in Excel, which computes formulas" if context.origin.endswith(EXCEL) else ""
        raise context.error(f": no cell of a column of scores holds a number: {first_few(gaps, SHOWN)}{cure}")
    context.note(f"{len(gaps)} cell(s) hold no number and count as not scored", gaps)
    lost = sorted({*table["variant"]} - {*table["variant"][~is_gap]})
    context.note("left out, as no score of it is left", lost)
    columns = ["family", "variant", "seed"]
    runs = table[is_gap & cells.str.fullmatch(_FAILED)].reindex(columns=columns, fill_value=ONLY_FAMILY)
    context.failed.extend(runs.itertuples(index=False, name=None))
    return table[~is_gap]


def _numbers(column: pd.Series) -> pd.Series:
    return pd.to_numeric(column, errors="coerce")


def _is_number(column: pd.Series) -> pd.Series:
    return _numbers(_plain_numbers(column, ";", [])).notna()


def _refuse_thousands(table: pd.DataFrame, delimiter: str, context: _Context) -> None:
    """Refuse points that may set off thousands, as in German: 1.006 beside 985, or beside decimal commas."""
    if delimiter == ",":
        return
    texts = table.astype(str).apply(lambda column: column.str.strip())
    has_comma = texts.apply(lambda column: column.str.fullmatch(r"[-+]?\d+,\d+")).any(axis=None)
    for _, cells in texts["score"].groupby([texts[x] for x in _PLACE if x in texts]):
        pointed = cells[cells.str.contains(".", regex=False)]
        is_whole = cells.str.fullmatch(r"[1-9]\d{2,}") & (cells != "100")  # which may be all percent
        are_doubtful = is_whole.any() or (has_comma and len(pointed) == len(cells))
        if are_doubtful and len(pointed) and pointed.str.fullmatch(r"[1-9]\d{0,2}\.\d{3}").all():
            raise context.error(
                f": {pointed.iloc[0]} in {table.index.name} {pointed.index[0]} may be a decimal number or "
                f"thousands; write {pointed.iloc[0].replace('.', '')}, or decimals alike in all cells"
            )


def _plain_numbers(column: pd.Series, delimiter: str, notes: list[str]) -> pd.Series:
    """Take percent signs and decimal commas off numbers; what is none stays as it is written.

    A comma is a decimal one where fields are not separated by commas and no number has a point, unless it may
    set off thousands: ``1,234`` beside ``987``.
    """
    texts = column.astype(str).str.strip().str.replace("\N{MINUS SIGN}", "-")
    texts = texts.str.replace(r"\s*%$", "", regex=True)
    has_comma = texts.str.fullmatch(r"[-+]?\d+,\d+")
    if delimiter != "," and has_comma.any() and not texts[~has_comma].str.contains(r"\d\.|^\d{3}$").any():
        notes.append("commas in scores are read as decimal ones")
        texts = texts.where(~has_comma, texts.str.replace(",", "."))
    return texts.where(_numbers(texts).notna(), column)
