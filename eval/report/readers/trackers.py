"""What trackers of experiments write into tables beside scores: how a run ended, and where it was."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

from base.errors import UsageError
from eval.results.rows import some_of

SHOWN = 12
"""Names that a message lists."""
_STATE = re.compile(r"(.*[./])?(run_?|trial_?)?(state|status)|(is_|has_)?(finished|completed?|succeeded)")
_ENDED = (
    *("finished", "completed", "complete", "success", "succeeded", "done", "terminated", "inactive"),
    *("ok", "passed", "true", "yes"),
)
_OTHERS = (
    *(
        "crashed",
        "failed",
        "fail",
        "failure",
        "error",
        "errored",
        "killed",
        "canceled",
        "cancelled",
        "aborted",
    ),
    *("stopped", "running", "active", "pending", "queued", "scheduled", "waiting", "preempted", "preempting"),
    *("paused", "pruned", "timeout", "out_of_memory", "node_fail", "diverged", "interrupted", "false", "no"),
)
_PLACE = re.compile(r"(.*[./])?(_(step|runtime|timestamp|wandb.*)|(global_)?step|epoch)(__(min|max))?")


def key(name: object) -> str:
    """Write a column's name as names are compared: small, and joined by underscores."""
    return re.sub(r"[\s-]+", "_", str(name).strip().lower())


def is_bookkeeping(name: object) -> bool:
    """Whether a name is that of a step, an epoch or a time, which trackers write beside every score."""
    return _PLACE.fullmatch(key(name)) is not None


def without_bookkeeping(table: pd.DataFrame, asked: Iterable[str], notes: list[str]) -> pd.DataFrame:
    """Leave out what is no score but where a run was, and say so.

    Args:
        table: A row for each score.
        asked: What the user says are scores.
        notes: What is said is put here.
    """
    if not {"benchmark", "score"} <= set(table.columns):
        return table
    names = [name for name in table["benchmark"].unique() if is_bookkeeping(name) and name not in set(asked)]
    if names:
        notes.append(f"no scores, and left out: {some_of(list(map(str, names)), SHOWN)}")
    return table[~table["benchmark"].isin(names)]


def finished(
    table: pd.DataFrame, axes: Iterable[str], name_column: str | None, origin: str, notes: list[str]
) -> pd.DataFrame:
    """Leave out runs of which a tracker says that they did not finish, and name them.

    Such runs are no random ones, since what diverges is stopped.

    Args:
        table: Of any layout; a column counts as a tracker's by its name and the states in it.
        axes: Columns that are none of a tracker.
        name_column: Which one names runs; None takes their variant and seed.
        origin: Where the table is from, named in errors.
        notes: What is said is put here.

    Raises:
        UsageError: If no run finished.
    """
    is_left = pd.Series(True, table.index)
    for column in table.columns:
        if column in (*axes, "variant", "family") or not _STATE.fullmatch(key(column)):
            continue
        states = table[column].map(lambda state: str(state).strip().lower())
        if not states.isin(_ENDED + _OTHERS).any():
            continue
        is_ended = states.isin(_ENDED)
        if not is_ended.any():
            raise UsageError(
                f"{origin}: {column} says of no run that it finished ({some_of(sorted(set(states)), SHOWN)})"
            )
        if not is_ended.all():
            notes.append(
                f"left out, not finished: {some_of(_named(table, name_column, ~is_ended, states), SHOWN)}"
            )
        is_left &= is_ended
    if not is_left.any():
        raise UsageError(f"{origin}: of no run all columns on its state say that it finished")
    return table[is_left]


def _named(table: pd.DataFrame, column: str | None, chosen: pd.Series, states: pd.Series) -> list[str]:
    of_runs = [name for name in ("family", "variant", "seed") if name in table.columns]
    columns = [column] if column else of_runs or list(table.columns[:1])
    names = table[columns].astype(str).agg(" ".join, axis=1)
    return list(dict.fromkeys((names + " (" + states.replace("", "no state") + ")")[chosen]))
