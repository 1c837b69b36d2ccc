"""Reads how every run of a study did on every item, all runs on the same items in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from tqdm import tqdm

from base.errors import UsageError
from eval.results.rows import read_table
from eval.results.store import items_damage
from eval.significance.statistics.items import benchmark_scores
from pretrain.run.folders import StudyFolder

ID_COLUMNS = ("pair_id", "item_id")
# Percentage points by which a score may miss the mean of its items: outcomes are kept in float32.
ROUNDING = 1e-4


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of a benchmark's runs: items sorted by task and id, the same ones in every row."""

    values: np.ndarray
    """(R, I) float32 from 0 to 1."""
    tasks: np.ndarray
    """(I,) task of each item as a whole number."""
    names: tuple[str, ...]
    """Of the tasks."""


def read_outcomes(folder: Path, benchmark: str, runs: pd.DataFrame, tasks: set[str]) -> Outcomes | str | None:
    """Read the outcomes of every run on one benchmark, one file at a time.

    Args:
        folder: The study's.
        benchmark: Its name.
        runs: One row a run with run_id and score.
        tasks: The tasks that the scores are means of.

    Returns:
        The outcomes; None where scores are not means over items; or words for what is amiss with the files.
    """
    folders = [StudyFolder(folder).run(run_id) for run_id in runs.run_id]
    for run in folders:
        if items_damage(run, benchmark):
            return f"damaged items of {run.run_id}"
    paths = [run.items_file(benchmark) for run in folders]
    if not any(path.is_file() for path in paths):
        return None
    values, keys = np.empty((0, 0), np.float32), None
    for place, path in enumerate(
        tqdm(paths, desc=f"items of {benchmark}", unit="run", leave=False, disable=None)
    ):
        items = _read_items(path, tasks)
        if items is None or isinstance(items, str):
            return None if items is None else f"{items} of {runs.run_id[place]}"
        own = items.drop_columns(["correct"])
        if keys is None:
            keys, values = own, np.empty((len(paths), len(own)), np.float32)
        elif not own.equals(keys):
            return f"{runs.run_id[0]} and {runs.run_id[place]} were scored on different items"
        values[place] = items["correct"].to_numpy()
    if keys is None or not len(keys):
        return None
    names, codes = np.unique(keys["task"].to_numpy().astype(str), return_inverse=True)
    if not np.allclose(benchmark_scores(values, codes), runs.score, rtol=0, atol=ROUNDING):
        return None
    return Outcomes(values, codes, tuple(map(str, names)))


def _read_items(path: Path, tasks: set[str]) -> pa.Table | str | None:
    """Read task, id and outcome of one run, sorted; None where items have no outcome, words if unreadable."""
    try:
        columns = pq.read_schema(path).names
        item_id = next((name for name in ID_COLUMNS if name in columns), None)
        if item_id is None or not {"task", "correct"} <= set(columns):
            return None
        chosen = ds.field("task").isin(sorted(tasks))
        table = read_table(path, ["task", item_id, "correct"], filters=chosen)
    except (OSError, pa.ArrowInvalid, UsageError):
        return "no readable items"
    # Ids of one task may repeat: then its items pair up in the order of the file.
    table = table.append_column("row", pa.array(np.arange(len(table))))
    ordered = table.sort_by([("task", "ascending"), (item_id, "ascending"), ("row", "ascending")])
    return ordered.drop_columns(["row"]).combine_chunks()
