"""Whatever shape a table of scores has, in rows of one score each.

Long tables are so already. A wide one has a column for each benchmark, a tracker's export of runs is one of
those, an export of a chart has a column for each run, and an export of a history a row for each step.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from base.errors import UsageError, shown, unknown_name
from eval.report.readers.names import split_names
from eval.report.readers.reading import DECLARATIONS, NAME, ONLY_FAMILY, Found, Reading
from eval.report.readers.text_tables import ROW, refuse_mixed_percents, tidy_numbers
from eval.report.readers.trackers import SHOWN, finished, is_bookkeeping, key, without_bookkeeping
from eval.results.outcome import looks_like_a_loss
from eval.results.rows import ROW_COLUMNS, some_of
from eval.suites.registry import SUITES, known_metric

_NAME_COLUMNS = ("name", "run", "run_name", "model", "model_name", "method")
"""Where a table names its runs, if ``--columns`` does not say it."""
_STEPS = ("step", "_step", "global_step", "trainer/global_step", "train/global_step", "epoch")
_RUN_TABLE = {"name", "state", "created", "runtime"}
"""Columns by which an export of W&B's table of runs is known."""
_CHART = re.compile(r"(?P<run>.+) - (?P<metric>.+?)(?P<bound>__MIN|__MAX)?")
"""A column of W&B's export of a chart."""
_OF_SEED = re.compile(r"(?:(?P<benchmark>.+?)[\W_]+)?(?:seed|run)[\W_]*(?P<seed>\d+)\W*", re.IGNORECASE)
"""A column that holds the scores of one seed, ``seed_1`` or ``blimp seed 1``."""
_PLACE = ("benchmark", "task", "metric", "head")
"""What one run has several scores of."""
_TRUTHS = {"true": "false", "yes": "no", "1": "0", "false": "true", "no": "yes", "0": "1"}
"""Each word for one to its opposite."""
CELLS_SHOWN = 6
"""Cells that a message names."""


def to_rows(
    table: pd.DataFrame, reading: Reading, axes: Sequence[str], origin: str, delimiter: str = ","
) -> Found:
    """Bring a table into rows of one score each, with the column names of rows.

    Args:
        table: As it was written.
        reading: What the user said of it.
        axes: Columns that are axes.
        origin: Where it is from, named in errors.
        delimiter: What separated its fields: where it is no comma, commas may be decimal ones.

    Raises:
        UsageError: For a column that is not there, or a shape that cannot be told.
    """
    if table.index.name != ROW:
        table = table.set_axis(pd.RangeIndex(1, len(table) + 1, name="data row"))
    table = _renamed(table, reading, axes, origin)
    if table.empty:
        return Found(table=table)
    notes: list[str] = []
    table = _with_direction(_of_plain_values(table, reading, axes, origin, notes))
    if charts := _charted(table):
        table = _of_chart(table, charts)
        places = table[NAME] + " - " + table["benchmark"] + ", step " + table["step"].astype(str)
        table = table.set_axis(pd.Index(places, name="column"))
    table = finished(table, axes, _name_column(table, reading), origin, notes)
    columns = _seed_columns(table, reading)
    if columns:
        table = _of_seed_columns(table, columns, axes, origin, notes)
    table = _identified(table, reading, axes, origin, notes)
    _refuse_without_variant(table, origin)
    if "score" not in table.columns and "variant" in table.columns:
        table = _melted(table, reading, axes, origin, notes)
    elif reading.scores and not columns:
        raise UsageError(
            f"{origin} has a column score, so it has a row for each score; leave out --scores, or write "
            f"--columns score={reading.scores[0]}"
        )
    elif not columns:
        _note_unread(
            table, [name for name in table.columns if _is_open(name, axes) and _is_known(name)], notes
        )
    table = _last_steps(without_bookkeeping(table, reading.scores, notes), axes, origin, notes)
    if "family" not in table.columns:
        table = table.assign(family=ONLY_FAMILY)
    return Found(table=_with_numbers(table, delimiter, origin, notes), notes=tuple(notes))


def _refuse_without_variant(table: pd.DataFrame, origin: str) -> None:
    """Ask which column has the variants, where some could."""
    texts = [str(name) for name in table.columns if name not in ROW_COLUMNS and not _has_number(table[name])]
    if "variant" not in table.columns and texts:
        raise UsageError(
            f"{origin} has no column variant; say which it is, such as --columns "
            f"variant={shlex.quote(texts[0])}: there are {some_of(texts, SHOWN)}"
        )


def _renamed(table: pd.DataFrame, reading: Reading, axes: Sequence[str], origin: str) -> pd.DataFrame:
    """Give columns the names that rows have for them, as the user says, or where they differ in letters."""
    theirs = [str(name) for name in table.columns]
    if twice := next((name for name in theirs if theirs.count(name) > 1), None):
        raise UsageError(f"{origin} has the column {twice!r} twice; name each once")
    own: dict[str, str] = {}
    for name, wanted in reading.columns.items():
        if wanted not in theirs:
            raise unknown_name(f"column in --columns {name}=", wanted, theirs)
        own[wanted] = name
    known = {key(name): name for name in (*ROW_COLUMNS, *DECLARATIONS, *axes)}
    taken = set(own.values())
    for name in theirs:
        if name not in own and name not in reading.scores and (meant := known.get(key(name))):
            if meant in taken:
                own[name] = f"{name} (not used)"
                if meant not in reading.columns:
                    raise UsageError(f"{origin} has the column {meant!r} twice; name each once")
                continue
            own[name] = meant
            taken.add(meant)
    for name in reading.scores:
        if name not in theirs:
            raise unknown_name("column in --scores", name, theirs)
    renamed = table.set_axis(theirs, axis=1).rename(columns=own)
    return renamed.drop(columns=[name for name in renamed.columns if name.endswith(" (not used)")])


def _with_direction(table: pd.DataFrame) -> pd.DataFrame:
    """Turn a column higher_is_better, as lm-eval has it, into what rows have."""
    theirs = next((name for name in table.columns if key(name) == "higher_is_better"), None)
    if theirs is None or "lower_is_better" in table.columns:
        return table
    turned = table[theirs].map(lambda cell: _TRUTHS.get(str(cell).strip().lower(), cell))
    return table.drop(columns=theirs).assign(lower_is_better=turned)


def _of_plain_values(
    table: pd.DataFrame, reading: Reading, axes: Sequence[str], origin: str, notes: list[str]
) -> pd.DataFrame:
    """Leave out columns of structures, bytes or times, which only files with types have.

    Raises:
        UsageError: For such a column that the report would be made from.
    """
    plain = {name: column for name in table.columns if (column := _plain(table[name])) is not None}
    odd = [name for name in table.columns if name not in plain]
    for name in odd:
        is_used = name in (*ROW_COLUMNS, *DECLARATIONS, *axes, *reading.scores) or key(name) in _NAME_COLUMNS
        if is_used or _is_known(name):
            raise UsageError(
                f"{origin}: the column {name} holds neither texts nor numbers, as "
                f"{shown(table[name].iloc[0])}; write it as text or leave it out"
            )
    if odd:
        notes.append(f"columns of neither texts nor numbers are not read: {some_of(odd, SHOWN)}")
    return pd.DataFrame(plain, table.index)


def _plain(column: pd.Series) -> pd.Series | None:
    """Return a column of texts and numbers, bytes read as text; None for another."""
    if column.dtype != object:
        return None if column.dtype.kind in "cmM" else column
    try:
        column = column.map(lambda cell: cell.decode() if isinstance(cell, bytes) else cell)
    except UnicodeDecodeError:
        return None
    types = (str, numbers.Real, decimal.Decimal, datetime.date, type(None), type(pd.NA), type(pd.NaT))
    return column if all(issubclass(kind, types) for kind in column.map(type).unique()) else None


def _seed_columns(table: pd.DataFrame, reading: Reading) -> dict[str, re.Match[str]]:
    """Return the columns that hold one seed's scores each; nothing for a table that says its seeds itself."""
    names = reading.scores or table.columns
    columns = {name: each for name in names if (each := _OF_SEED.fullmatch(name))}
    is_asked_for_more = reading.scores and len(columns) < len(names)
    return {} if {"seed", "score"} & set(table.columns) or is_asked_for_more else columns


def _of_seed_columns(
    table: pd.DataFrame,
    columns: Mapping[str, re.Match[str]],
    axes: Sequence[str],
    origin: str,
    notes: list[str],
) -> pd.DataFrame:
    """Make a row of each score of a table with a column for each seed."""
    others = [name for name in table.columns if name not in columns]
    _note_unread(table, [name for name in others if _is_open(name, axes)], notes)
    long = _long(table, others, list(columns), "seed", origin, notes)
    named = {name: each["benchmark"] for name, each in columns.items() if each["benchmark"]}
    if named:
        what = "metric" if "benchmark" in others else "benchmark"
        long = long.assign(**{what: long["seed"].map(named)})
    return long.assign(seed=long["seed"].map({name: each["seed"] for name, each in columns.items()}))


def _charted(table: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return the run and metric of each column of an exported chart; nothing for any other table."""
    found = {name: _CHART.fullmatch(name) for name in table.columns}
    if not any(each and each["bound"] for each in found.values()):
        return {}
    return {name: (each["run"], each["metric"]) for name, each in found.items() if each and not each["bound"]}


def _of_chart(table: pd.DataFrame, charts: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Make a row of each value in a chart, at the step in its first column."""
    at = next((table[name] for name in table.columns if not _CHART.fullmatch(name)), table.index)
    of_runs = [
        pd.DataFrame(
            {NAME: run, "benchmark": metric, "step": at, "score": table[column].astype(str).str.strip()}
        )
        for column, (run, metric) in charts.items()
    ]
    rows = pd.concat(of_runs, ignore_index=True)
    return rows[rows["score"] != ""].reset_index(drop=True)


def _name_column(table: pd.DataFrame, reading: Reading) -> str | None:
    """Return the column that names runs, by what the user says or by its own name.

    Of several beside a seed it is the one that has fewest names and repeats none under one seed: of runs r1
    to r4 of two models with two seeds each, the models. A column of numbers is the last choice.
    """
    names = [name for name in table.columns if key(name) in _NAME_COLUMNS]
    names.sort(key=lambda name: _numbers(table[name]).notna().all())
    if NAME in reading.columns or len(names) < 2 or "seed" not in table.columns:
        return NAME if NAME in reading.columns else next(iter(names), None)
    keys = ["seed", *(name for name in ("family", *_PLACE, _step_column(table)) if name in table.columns)]
    telling = [name for name in names if not table.duplicated([name, *keys]).any()]
    return min(telling or names[:1], key=lambda name: table[name].nunique())


def _is_run_table(table: pd.DataFrame) -> bool:
    return set(map(key, table.columns)) >= _RUN_TABLE


def _identified(
    table: pd.DataFrame, reading: Reading, axes: Sequence[str], origin: str, notes: list[str]
) -> pd.DataFrame:
    """Give rows a variant and a seed, from the names of runs where no columns say them."""
    named = _name_column(table, reading)
    if "variant" in table.columns and "seed" in table.columns and reading.names is None:
        return table
    if named is None:
        if reading.names is not None:
            raise UsageError(
                f"{origin}: no column names runs, which --names is about; say which: --columns name=COLUMN"
            )
        return _with_seeds(table, origin, notes)
    read, said = split_names(list(map(str, table[named])), reading.names, axes, origin)
    if reading.names is None:
        read, said = _guessed(read, said, table, named, axes)
    notes += [said] if said else []
    kept = table.drop(columns=[*(set(read.columns) & set(table.columns)), named])
    told = _with_seeds(pd.concat([read.set_axis(table.index), kept], axis=1), origin, notes)
    _note_unread_names(table, told, "" if read.empty else named, notes)
    return told


def _note_unread_names(table: pd.DataFrame, told: pd.DataFrame, named: str, notes: list[str]) -> None:
    """Name columns that could have named runs, were not read, and are shared by some runs and not by all."""
    num_runs = len(told[[name for name in ("family", "variant", "seed") if name in told]].drop_duplicates())
    others = [name for name in table.columns if key(name) in _NAME_COLUMNS and name != named]
    if unread := [name for name in others if 1 < table[name].nunique() < num_runs]:
        notes.append(f"not read, though runs differ in it: {some_of(unread, SHOWN)}")


def _guessed(
    read: pd.DataFrame, said: str, table: pd.DataFrame, named: str, axes: Sequence[str]
) -> tuple[pd.DataFrame, str]:
    """Keep of what names seem to say what no column says, and the sentence on it."""
    has_seeds = said.startswith("variants")
    if "seed" in table.columns:
        seeds, theirs = (pd.to_numeric(x["seed"], errors="coerce").to_numpy() for x in (read, table))
        if has_seeds and not (seeds == theirs).all():  # `gelu-s2` may be of size 2
            read, has_seeds = pd.DataFrame({"variant": list(map(str, table[named]))}), False
        said = said if has_seeds else ""
    elif not has_seeds and ("variant" in table.columns or _repeats(table, named, axes)):
        read, said = read.drop(columns="seed"), ""
    return read[[name for name in read.columns if name not in table.columns]], said


def _repeats(table: pd.DataFrame, named: str, axes: Sequence[str]) -> bool:
    """Whether a name is that of several runs: of several rows that differ neither in task nor in step."""
    if _step_column(table):
        return False
    keys = [name for name in ("family", *_PLACE, *axes) if name in table.columns]
    return bool(table.duplicated([named, *keys]).any())


def _with_seeds(table: pd.DataFrame, origin: str, notes: list[str]) -> pd.DataFrame:
    """Number the runs of an arm where each row is one, and nothing says their seeds."""
    if "variant" not in table.columns or "seed" in table.columns:
        return table
    arm = [name for name in ("family", "variant") if name in table.columns]
    places = [name for name in _PLACE if name in table.columns]
    step = _step_column(table)
    is_history = step and table.duplicated(arm).any() and not table.duplicated([*arm, step]).any()
    has_tasks = "score" in table.columns and places and len(table[places].drop_duplicates()) > 1
    if has_tasks or is_history:
        raise UsageError(
            f"{origin}: nothing says which scores are of one run; add a column seed, or say which it is: "
            "--columns seed=COLUMN"
        )
    notes.append("no column says seeds, so every row counts as a run of its own; runs are not paired")
    return table.assign(seed=(table.groupby(arm, sort=False).cumcount() + 1).astype(str))


def _melted(
    table: pd.DataFrame, reading: Reading, axes: Sequence[str], origin: str, notes: list[str]
) -> pd.DataFrame:
    """Make a row of each score of a wide table."""
    scores = list(reading.scores) or _score_columns(table, axes, origin, notes)
    if not scores:
        return table  # which lacks its scores, as is told next
    step = _step_column(table, scores)
    known = (*ROW_COLUMNS, *DECLARATIONS, *axes)
    kept = [name for name in known if name in table.columns and name not in scores]
    ids = [*kept, *([step] if step and step not in kept else [])]
    variable = next((name for name in ("benchmark", "metric") if name not in kept), None)
    if variable is None:
        raise UsageError(
            f"{origin} has columns benchmark and metric, so one column has its scores; write --columns "
            f"score={shlex.quote(scores[0])}"
        )
    return _long(table, ids, scores, variable, origin, notes)


def _step_column(table: pd.DataFrame, scores: Iterable[str] = ()) -> str | None:
    steps = {key(name): name for name in table.columns if name not in scores}
    return next((steps[name] for name in _STEPS if name in steps), None)


def _long(
    table: pd.DataFrame, ids: list[str], scores: list[str], variable: str, origin: str, notes: list[str]
) -> pd.DataFrame:
    """Make a row of each cell that holds a score, and name the others.

    Its index says where each cell stands. A cell with a digit that is no number, as ``60.2*``, stays: it
    holds a score, and is refused with those of other tables.
    """
    long = table.melt(
        id_vars=ids, value_vars=scores, var_name=variable, value_name="score", ignore_index=False
    )
    places = long[variable] + f", {table.index.name} " + long.index.astype(str)
    long = long.set_axis(pd.Index(places, name="column"))
    is_gap = _numbers(long["score"]).isna() & ~long["score"].astype(str).str.contains(r"\d")
    gaps = long["score"].astype(str).str.strip()[is_gap]
    named = [f"{place} ({shown(cell) if cell else 'empty'})" for place, cell in gaps.items()]
    if is_gap.all():
        raise UsageError(
            f"{origin}: no cell of a column of scores holds a number: {some_of(named, CELLS_SHOWN)}"
        )
    if named:
        listed = some_of(named, CELLS_SHOWN)
        notes.append(f"{len(named)} cell(s) hold no number and count as not scored: {listed}")
    arm = next((name for name in long.columns if name == "variant" or key(name) in _NAME_COLUMNS), "score")
    by_arm = (~is_gap).groupby(long[arm], sort=False).any()
    if arm != "score" and (lost := list(map(str, by_arm.index[~by_arm]))):
        notes.append(f"left out, as no score of it is left: {some_of(lost, SHOWN)}")
    return long[~is_gap]


def _score_columns(table: pd.DataFrame, axes: Sequence[str], origin: str, notes: list[str]) -> list[str]:
    """Return the columns that are scores without doubt: names that are known, and no other numbers."""
    others = [name for name in table.columns if _is_open(name, axes)]
    numeric = [name for name in others if _holds_scores(table, name)]
    if not numeric:
        return [name for name in others if _is_known(name)]
    known = [name for name in numeric if _is_known(name)]
    if known == numeric and not _is_run_table(table):
        _note_unread(table, [name for name in others if name not in known], notes)
        return known
    raise UsageError(
        f"{origin} has no column score; say which columns are scores, with --scores: it has numbers in "
        f"{some_of(numeric, SHOWN)}"
    )


def _is_open(name: str, axes: Sequence[str]) -> bool:
    """Whether a column's name leaves open what it holds; one without a name is an index of pandas."""
    known = (*_NAME_COLUMNS, "created", "runtime", "")
    is_other = is_bookkeeping(name) or key(name).startswith("unnamed:")  # an index of pandas
    return not is_other and name not in (*ROW_COLUMNS, *DECLARATIONS, *axes) and key(name) not in known


def _is_known(name: str) -> bool:
    return bool(name in SUITES or known_metric(name) or looks_like_a_loss(name))


def _holds_scores(table: pd.DataFrame, name: str) -> bool:
    """Whether a column holds numbers, or is called as scores are and holds figures, as ``60.2 (0.3)``."""
    return _has_number(table[name]) or (_is_known(name) and _has_figures(table[name]))


def _has_figures(column: pd.Series) -> bool:
    return bool(column.astype(str).str.match(r"\W*\d").any())


def _note_unread(table: pd.DataFrame, names: Iterable[str], notes: list[str]) -> None:
    """Name columns that are not read as scores, though they are called so or figures stand in them."""
    unread = [name for name in names if _is_known(name) or _has_figures(table[name])]
    if unread:
        notes.append(f"not read as scores: {some_of(unread, SHOWN)}")


def _numbers(column: pd.Series) -> pd.Series:
    return pd.to_numeric(tidy_numbers(column, ";")[0], errors="coerce")


def _has_number(column: pd.Series) -> bool:
    return bool(_numbers(column).notna().any())


def _last_steps(rows: pd.DataFrame, axes: Sequence[str], origin: str, notes: list[str]) -> pd.DataFrame:
    """Keep each run's last step of every score; a table without several steps stays as it is."""
    step = _step_column(rows, axes)
    if step is None or not {"variant", "seed", "benchmark"} <= set(rows.columns):
        return rows
    run = [name for name in ("family", *axes, "variant", "seed") if name in rows.columns]
    keys = [
        *run,
        *(name for name in ("benchmark", "task", "group", "metric", "head") if name in rows.columns),
    ]
    steps = pd.to_numeric(rows[step], errors="coerce")
    if steps.isna().any():
        if not rows.duplicated(keys).any():
            return rows.drop(columns=step)
        raise UsageError(f"{origin}: {step} {rows[step][steps.isna()].iloc[0]!r} is not a number")
    rows = rows.assign(**{step: steps})
    last = rows[steps == rows.groupby(keys, dropna=False)[step].transform("max")]
    if len(last) < len(rows):
        notes.append("each run's last step counts")
    ends_of: dict[str, list[str]] = {}
    for benchmark, ends in last.groupby(["benchmark", *run], sort=False)[step].max().groupby("benchmark"):
        early = ends[ends < ends.max()].sort_values(kind="stable")
        names = [f"{' '.join(map(str, run[1:-1]))} seed {run[-1]} at {at:g}" for run, at in early.items()]
        if names:
            ends_of.setdefault(f"{some_of(names, SHOWN)} and others at {ends.max():g}", []).append(
                str(benchmark)
            )
    for said, benchmarks in ends_of.items():
        notes.append(f"{some_of(benchmarks, SHOWN)}: runs end at different steps, {said}")
    return last.drop(columns=step)


def _with_numbers(table: pd.DataFrame, delimiter: str, origin: str, notes: list[str]) -> pd.DataFrame:
    """Take signs off scores that are written as text."""
    if "score" not in table.columns or pd.api.types.is_numeric_dtype(table["score"]):
        return table
    scores, has_commas = tidy_numbers(table["score"], delimiter)
    is_number = pd.to_numeric(scores, errors="coerce").notna()
    if "benchmark" in table.columns:
        refuse_mixed_percents(table[is_number], origin)
    if has_commas:
        notes.append("commas in scores are read as decimal ones")
    return table.assign(score=scores.where(is_number, table["score"]))
