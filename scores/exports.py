"""Tables that trackers export, as tables with one row a run; of what it logged repeatedly the last counts.

W&B exports a chart as a column a run and metric, and a history as a row a step; MLflow writes in the name of
a column whether it is a metric or a parameter.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

import pandas as pd

from base.errors import UsageError, shown
from base.printing import first_few
from scores.rows import ROW_COLUMNS

SHOWN = 4
STEP = re.compile(r"(.*[./])?(_?step|global_?step|epoch|iteration)", re.IGNORECASE)
OF_TRACKER = re.compile(
    r"(?i)(.*[./])?_(runtime|timestamp|wandb.*)|created|runtime|user|tags|notes|state|sweep|unnamed:.*|"
    r"params\..*|"
)
"""What trackers write of every run, and MLflow's numeric parameters; a column without a name is an index."""
_LINE = r"(?P<name>.+) - (?P<metric>.+)"
_RUN = {"run_id", "run id", "run", "name", "run_name", "seed"}
"""Columns of a history that tell runs apart, in small letters."""


def runs_of_export(
    table: pd.DataFrame, columns: Collection[str], scores: Collection[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Bring what a tracker exported into a row a run; any other table stays as it is.

    Args:
        table: As it was written, its columns texts.
        columns: Names in it that the user gave to columns of rows and to axes.
        scores: Those that the user called scores.

    Returns:
        The table, and sentences on what was done.
    """
    steps = [name for name in table.columns if STEP.fullmatch(name) and name not in columns]
    lines = [name for name in table.columns if re.fullmatch(_LINE, name)]
    if steps and lines and len(lines) + 1 == table.shape[1]:
        table = _history_of_chart(table, steps[0])
    if any(name.startswith("metrics.") for name in table.columns):
        table = _plainly_named(table, {*columns, *scores})
        steps = [name for name in table.columns if STEP.fullmatch(name) and name not in columns]
    return _last_of_runs(table, columns, steps)


def _history_of_chart(table: pd.DataFrame, step: str) -> pd.DataFrame:
    """Make a row of each run and step; bands around a line, and lines of steps, are no scores."""
    points = table.melt(step)
    points = points[points["value"].notna() & (points["value"] != "")]
    points = points.join(points["variable"].str.extract(_LINE))
    is_other = points["metric"].str.endswith(("__MIN", "__MAX")) | points["metric"].str.fullmatch(STEP)
    points = points[~is_other].drop_duplicates([step, "variable"], keep="last")
    return points.pivot(index=["name", step], columns="metric", values="value").reset_index()


def _plainly_named(table: pd.DataFrame, flagged: set[str]) -> pd.DataFrame:
    """Leave out tags of MLflow's columns; numbers that are no metric keep the name that says so."""
    plain = {x: x.partition(".")[2] for x in table.columns if x.startswith(("metrics.", "params."))}
    plain["tags.mlflow.runName"] = "name"
    numbers = [
        x for x in plain if x.startswith("params.") and pd.to_numeric(table[x], errors="coerce").notna().any()
    ]
    others = [x for x in table.columns if x == "experiment_id" or (x.startswith("tags.") and x not in plain)]
    kept = {*flagged, *(x for x in numbers if plain[x] not in ROW_COLUMNS)}
    return table.drop(columns={*others} - flagged).rename(
        columns={x: name for x, name in plain.items() if x not in kept}
    )


def _last_of_runs(
    table: pd.DataFrame, columns: Collection[str], steps: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Keep of each run what it logged last, where its rows are steps."""
    places = {*ROW_COLUMNS, *_RUN} - {"score", "n_items", "primary"}
    if not table.columns.is_unique:
        return table, []
    # A text that comes in several rows, such as a model's name, is of a run as well.
    texts = [x for x in table.columns if pd.to_numeric(table[x], errors="coerce").isna().all()]
    told = {*columns, *(x for x in texts if table[x].value_counts().min() > 1)}
    keys = [x for x in table.columns if x.lower() in places or x in told]
    tells_runs = any(x.lower() in _RUN or x in columns for x in keys)
    if not (steps and tells_runs and table.duplicated(keys).any()) or table.duplicated([*keys, *steps]).any():
        return table, []
    numbers = pd.to_numeric(table[steps[0]], errors="coerce")
    in_order = table.assign(**{steps[0]: numbers}).loc[numbers.sort_values(kind="stable").index]
    last = in_order.replace("", pd.NA).groupby(keys, sort=False, dropna=False).last().reset_index()
    ends = last[steps[0]]
    early = last[keys].astype(str).agg(" ".join, axis=1)[ends < ends.max()].to_list()
    notes = [f"its rows are steps of {len(last)} runs: of each column the last value counts"]
    notes += [f"ended before {steps[0]} {ends.max():g}: {first_few(early, SHOWN)}"] if early else []
    return last.astype(object).where(last.notna(), ""), notes


def refuse_names_of_runs(table: pd.DataFrame, column: str, origin: str) -> None:
    """Refuse names as variants if each is of one run, and another column of texts has several runs a value.

    Raises:
        UsageError: Naming that column.
    """
    runs = table.drop_duplicates([x for x in (column, "seed") if x in table.columns])
    has_seeds = "seed" not in runs.columns or 1 < runs["seed"].nunique() < len(runs)
    others = [x for x in runs.columns if x not in (*ROW_COLUMNS, column) and not OF_TRACKER.fullmatch(x)]
    texts = [x for x in others if pd.to_numeric(runs[x], errors="coerce").isna().all()]
    several = [x for x in texts if runs[x].nunique() > 1 and runs[x].value_counts().min() > 1]
    if several and has_seeds and not runs[column].duplicated().any():
        raise UsageError(
            f"{origin}: each name in {column} is of one run ({shown(runs[column].iloc[0])}); say which "
            f"column has the variants, such as --columns variant={shlex.quote(several[0])} (there are "
            f"{first_few(several, SHOWN)}), or that names are: --columns name={shlex.quote(column)}"
        )
