"""Whatever shape a table of scores has, in rows of one score each.

Long tables are so already. A wide one has a column for each benchmark, a tracker's export of runs is one of
those, an export of a chart has a column for each run, and an export of a history a row for each step.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from base.errors import UsageError, unknown_name
from eval.report.readers.names import split_names
from eval.report.readers.reading import DECLARATIONS, NAME, ONLY_FAMILY, Found, Reading
from eval.report.readers.text_tables import refuse_mixed_percents, tidy_numbers
from eval.report.readers.trackers import SHOWN, finished, is_bookkeeping, key, without_bookkeeping
from eval.results.outcome import looks_like_a_loss
from eval.results.rows import ROW_COLUMNS, some_of
from eval.suites.registry import SUITES, known_metric

_NAME_COLUMNS = ("name", "run", "run_name", "model", "model_name")
"""Where a table names its runs, if ``--columns`` does not say it."""
_STEPS = ("step", "_step", "global_step", "trainer/global_step", "train/global_step", "epoch")
_RUN_TABLE = {"name", "state", "created", "runtime"}
"""Columns by which an export of W&B's table of runs is known."""
_CHART = re.compile(r"(?P<run>.+) - (?P<metric>.+?)(?P<bound>__MIN|__MAX)?")
"""A column of W&B's export of a chart."""


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
    table = _renamed(table, reading, axes, origin)
    if table.empty:
        return Found(table=table)
    notes: list[str] = []
    if charts := _charted(table):
        table = _of_chart(table, charts)
    table = finished(table, axes, _name_column(table), origin, notes)
    table = _identified(table, reading, axes, origin, notes)
    _refuse_without_variant(table, origin)
    if "score" not in table.columns and "variant" in table.columns:
        table = _melted(table, reading, axes, origin, notes)
    elif reading.scores:
        raise UsageError(
            f"{origin} has a column score, so it has a row for each score; leave out --scores, or write "
            f"--columns score={reading.scores[0]}"
        )
    table = _last_steps(without_bookkeeping(table, reading.scores, notes), axes, origin, notes)
    if "family" not in table.columns:
        table = table.assign(family=ONLY_FAMILY)
    return Found(table=_with_numbers(table, delimiter, origin, notes), notes=tuple(notes))


def _refuse_without_variant(table: pd.DataFrame, origin: str) -> None:
    """Ask which column has the variants, where some could."""
    texts = [str(name) for name in table.columns if name not in ROW_COLUMNS and not _is_numeric(table[name])]
    if "variant" not in table.columns and texts:
        raise UsageError(
            f"{origin} has no column variant; say which it is, such as --columns "
            f"variant={shlex.quote(texts[0])}: there are {some_of(texts, SHOWN)}"
        )


def _renamed(table: pd.DataFrame, reading: Reading, axes: Sequence[str], origin: str) -> pd.DataFrame:
    """Give columns the names that rows have for them, as the user says, or where they differ in letters."""
    theirs = [str(name) for name in table.columns]
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


def _name_column(table: pd.DataFrame) -> str | None:
    """Return the column that names runs, by what the user says or by its own name."""
    named = NAME if NAME in table.columns else None
    return named or next((name for name in table.columns if key(name) in _NAME_COLUMNS), None)


def _is_run_table(table: pd.DataFrame) -> bool:
    return set(map(key, table.columns)) >= _RUN_TABLE


def _identified(
    table: pd.DataFrame, reading: Reading, axes: Sequence[str], origin: str, notes: list[str]
) -> pd.DataFrame:
    """Give rows a variant and a seed, from the names of runs where no columns say them."""
    named = _name_column(table)
    if "variant" in table.columns and "seed" in table.columns and reading.names is None:
        return table
    if named is None:
        if reading.names is not None:
            raise UsageError(
                f"{origin}: no column names runs, which --names is about; say which: --columns name=COLUMN"
            )
        return _with_seeds(table, origin, notes)
    read, said = split_names(list(map(str, table[named])), reading.names, axes, origin)
    if "variant" in table.columns and reading.names is None:
        if "seed" not in read.columns or not said.startswith("variants"):
            return _with_seeds(table, origin, notes)
        read = read[["seed"]]
    notes += [said] if said else []
    kept = table.drop(columns=[*(set(read.columns) & set(table.columns)), named])
    return pd.concat([read.set_axis(table.index), kept], axis=1)


def _with_seeds(table: pd.DataFrame, origin: str, notes: list[str]) -> pd.DataFrame:
    """Number the runs of an arm where each row is one, and nothing says their seeds."""
    if "variant" not in table.columns or "seed" in table.columns:
        return table
    if "score" in table.columns and "benchmark" in table.columns and table["benchmark"].nunique() > 1:
        raise UsageError(
            f"{origin}: nothing says which scores are of one run; add a column seed, or say which it is: "
            "--columns seed=COLUMN"
        )
    arm = [name for name in ("family", "variant") if name in table.columns]
    notes.append("no column says seeds, so every row counts as a run of its own; runs are not paired")
    return table.assign(seed=(table.groupby(arm, sort=False).cumcount() + 1).astype(str))


def _melted(
    table: pd.DataFrame, reading: Reading, axes: Sequence[str], origin: str, notes: list[str]
) -> pd.DataFrame:
    """Make a row of each score of a wide table."""
    if "benchmark" in table.columns and not reading.scores:
        return table  # which lacks its scores, as is told next
    scores = list(reading.scores) or _score_columns(table, axes, origin)
    step = _step_column(table, scores)
    kept = [name for name in (*ROW_COLUMNS, *axes) if name in table.columns and name not in scores]
    ids = [*kept, *([step] if step and step not in kept else [])]
    long = table.melt(id_vars=ids, value_vars=scores, var_name="benchmark", value_name="score")
    is_there = ~long["score"].astype(str).str.strip().str.lower().isin(["", "nan", "none", "null"])
    if missing := int((~is_there).sum()):
        notes.append(f"{missing} cell(s) of the table are empty, and count as not scored")
    return long[is_there].reset_index(drop=True)


def _step_column(table: pd.DataFrame, scores: Iterable[str] = ()) -> str | None:
    steps = {key(name): name for name in table.columns if name not in scores}
    return next((steps[name] for name in _STEPS if name in steps), None)


def _score_columns(table: pd.DataFrame, axes: Sequence[str], origin: str) -> list[str]:
    """Return the columns that are scores without doubt: names that are known, and no other numbers."""
    others = [
        name
        for name in table.columns
        if name not in (*ROW_COLUMNS, *DECLARATIONS, *axes)
        and key(name) not in (*_NAME_COLUMNS, "created", "runtime")
        and not is_bookkeeping(name)
    ]
    numeric = [name for name in others if _is_numeric(table[name])]
    if not numeric:
        return []
    known = [name for name in numeric if name in SUITES or known_metric(name) or looks_like_a_loss(name)]
    if known == numeric and not _is_run_table(table):
        return known
    raise UsageError(
        f"{origin} has no column score; say which columns are scores, with --scores: it has numbers in "
        f"{some_of(numeric, SHOWN)}"
    )


def _is_numeric(column: pd.Series) -> bool:
    texts, _ = tidy_numbers(column, ";")
    texts = texts[~texts.str.lower().isin(["", "nan", "none", "null"])]
    return bool(len(texts)) and bool(pd.to_numeric(texts, errors="coerce").notna().all())


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
    if not rows.duplicated(keys).any():
        return rows.drop(columns=step)
    steps = pd.to_numeric(rows[step], errors="coerce")
    if steps.isna().any():
        raise UsageError(f"{origin}: {step} {rows[step][steps.isna()].iloc[0]!r} is not a number")
    rows = rows.assign(**{step: steps})
    last = rows[steps == rows.groupby(keys, dropna=False)[step].transform("max")]
    if len(last) < len(rows):
        notes.append("each run's last step counts")
    for benchmark, ends in last.groupby(["benchmark", *run], sort=False)[step].max().groupby("benchmark"):
        early = ends[ends < ends.max()].sort_values(kind="stable")
        names = [f"{' '.join(map(str, run[1:-1]))} seed {run[-1]} at {at:g}" for run, at in early.items()]
        if names:
            said, end = some_of(names, SHOWN), ends.max()
            notes.append(f"{benchmark}: runs end at different steps, {said} and others at {end:g}")
    return last.drop(columns=step)


def _with_numbers(table: pd.DataFrame, delimiter: str, origin: str, notes: list[str]) -> pd.DataFrame:
    """Take signs off scores that are written as text."""
    if "score" not in table.columns or pd.api.types.is_numeric_dtype(table["score"]):
        return table
    if "benchmark" in table.columns:
        refuse_mixed_percents(table, origin)
    scores, has_commas = tidy_numbers(table["score"], delimiter)
    if has_commas:
        notes.append("commas in scores are read as decimal ones")
    return table.assign(score=scores)
