"""What fine-tuning chose on held-out data, as the items of a run tell it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from eval.results.rows import read_table
from pretrain.run.folders import RunFolder

CHOSEN = "chosen"
"""The column of items that has it; a head that had no candidates leaves it empty."""

_KEYS = ["benchmark", "task", "head", CHOSEN]


def chosen_settings(asked: Mapping[Path, pd.DataFrame]) -> pd.DataFrame:
    """Count over runs and seeds what was chosen.

    Args:
        asked: Of each run's folder, the rows of the tasks and heads to be counted.

    Returns:
        benchmark, task, head, chosen and times, a row for each candidate that was chosen at least once.
    """
    found = [
        _of_run(RunFolder(run_dir).items_file(str(benchmark)), rows)
        for run_dir, all_rows in asked.items()
        for benchmark, rows in all_rows.groupby("benchmark", sort=False)
    ]
    if not (found := [own for own in found if len(own)]):
        return pd.DataFrame(columns=[*_KEYS, "times"])
    return pd.concat(found).groupby(_KEYS, sort=False).size().rename("times").reset_index()


def _of_run(path: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """What each seed of a run chose, a row for each task and head of its rows."""
    if not (path.is_file() and {CHOSEN, "head"} <= set(pq.read_schema(path).names)):
        return pd.DataFrame()
    items = read_table(path, ["task", "head", CHOSEN, "seed"]).to_pandas().drop_duplicates()
    wanted = rows[["benchmark", "task", "head"]].drop_duplicates()
    return wanted.merge(items[items[CHOSEN].notna()], on=["task", "head"])


def chosen_text(counts: pd.DataFrame) -> str:
    """Write what ``chosen_settings`` found, a line for each task and head."""
    lines = [
        f"{benchmark} {task}, {head}: "
        + ", ".join(
            f"{row.chosen} ({row.times}x)" for row in own.sort_values("times").iloc[::-1].itertuples()
        )
        for (benchmark, task, head), own in counts.groupby(["benchmark", "task", "head"], sort=False)
    ]
    return "\n".join(["chosen on held-out data, over runs and seeds:", *lines])
