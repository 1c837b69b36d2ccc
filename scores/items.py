"""What is read from the items stored with a run's scores: graded metrics, and how many inputs were cut.

Accuracy asks of an item only whether the right answer scored higher. By how much it did is stored with the
item, and a mean of that moves less from seed to seed. Of sums of log-likelihoods over tokens (for masked
models pseudo-log-likelihoods), in nats:

- ``log_odds``: of a minimal pair log p(good) - log p(bad), in nats a pair. 0 is a model that cannot tell.
- ``log_odds_per_token``: the same divided by the number of tokens that differ, ``num_tokens_differing`` (see
  ``eval.zero_shot.pairs_and_choices.count_differing``). So a pair that differs in one word and one that
  differs in five weigh alike. The tokens that both share are no part of the divisor, although what differs
  changes their scores, too: they are as many as the sentence happens to be long. Of a pair of equal
  sentences both metrics are 0.

A score is the mean over the items of a task, each counting the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from base.errors import UsageError
from base.printing import first_few
from base.run.folder_names import StudyFolder
from scores.rows import NO_HEAD, ROW_COLUMNS, read_table
from scores.suites import SUITES

_ABSENT, _OLDER = "which has no items", "whose items are from before they held what it is made of"
_SHOWN = 3


@dataclass(frozen=True)
class Grade:
    """What a graded metric is of an item.

    Attributes:
        columns: The columns of items that it is made of.
        of_items: From a table with them to (I,) float64; not finite where a score is missing or not finite.
    """

    columns: tuple[str, ...]
    of_items: Callable[[pa.Table], np.ndarray]


def _log_odds(items: pa.Table) -> np.ndarray:
    return items["margin"].to_numpy()


def _log_odds_per_token(items: pa.Table) -> np.ndarray:
    return _log_odds(items) / np.maximum(items["num_tokens_differing"].to_numpy(), 1)


GRADES: dict[str, Grade] = {
    "log_odds": Grade(("margin",), _log_odds),
    "log_odds_per_token": Grade(("margin", "num_tokens_differing"), _log_odds_per_token),
}
"""By the names of the metrics that suites have as ``graded``."""


def graded_rows(folder: Path, rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Grade every run of a study on every suite that has graded metrics.

    Args:
        folder: The study's.
        rows: The scores of its runs, with the columns of ``ROW_COLUMNS``; a run_id is a run's place in the
            folder. A metric that they have already is left as it is.

    Returns:
        Rows with the same columns, none of them primary, one for each run, task and metric; and sentences
        that name what could not be graded. Nothing is said where all runs are without items, or with items
        from before they held what a metric is made of.
    """
    graded, reasons = [], defaultdict(list)
    scored = rows[rows["benchmark"].isin([name for name, spec in SUITES.items() if spec.graded])]
    parts = scored.groupby(["benchmark", "run_id"], sort=False)
    for (benchmark, run_id), of_run in tqdm(parts, "graded items", unit="run", leave=False, disable=None):
        metrics = [m.name for m in SUITES[benchmark].graded if m.name not in set(of_run["metric"])]
        path = StudyFolder(folder).run(run_id).items_file(benchmark)
        for metric, table, reason in _grade(path, metrics, of_run):
            if reason:
                reasons[benchmark, metric, reason].append(run_id)
            if table is not None:
                graded.append(table.assign(metric=metric, benchmark=benchmark, run_id=run_id))
    table = _as_rows(graded, scored) if graded else rows.iloc[:0]
    is_graded_anywhere = set(zip(table["benchmark"], table["metric"], strict=True))
    notes = [
        f"{benchmark}: no {metric} of {first_few(runs, _SHOWN)}, {reason}"
        for (benchmark, metric, reason), runs in reasons.items()
        if (benchmark, metric) in is_graded_anywhere or reason not in (_ABSENT, _OLDER)
    ]
    return table, notes


def _grade(
    path: Path, metrics: Sequence[str], rows: pd.DataFrame
) -> Iterator[tuple[str, pd.DataFrame | None, str]]:
    """Yield each metric of one run on one suite with a table of task, score and n_items, and what is amiss.

    Args:
        path: Its items.
        metrics: Names of ``GRADES``.
        rows: The run's scores on it; items of other tasks are passed over.
    """
    columns = {"task", "correct"}.union(*(GRADES[metric].columns for metric in metrics))
    try:
        present = sorted(columns & set(pq.read_schema(path).names)) if path.is_file() else []
        items = read_table(path, present, read_dictionary=["task"]) if present else None
    except (OSError, pa.ArrowInvalid, UsageError):
        items = pa.table({})
    foreign = first_few(foreign_tasks(items, rows), _SHOWN) if items is not None else ""
    num_items = dict(zip(rows["task"], rows["n_items"], strict=True))
    for metric in metrics:
        if items is None:
            yield metric, None, _ABSENT
        elif "task" not in items.column_names or items["task"].null_count:
            yield metric, None, "which has no readable items"
        elif foreign:
            # A task of few items agrees by chance, so none of the others is believed either.
            yield metric, None, f"whose items of {foreign} do not average to its accuracy, as another run's"
        elif not set(GRADES[metric].columns) <= set(items.column_names):
            yield metric, None, _OLDER
        else:
            yield metric, *_means(items, GRADES[metric], num_items)


def foreign_tasks(items: pa.Table, rows: pd.DataFrame) -> list[str]:
    """Return the tasks whose items do not average to the accuracy that was recorded: they are another run's.

    Items carry no run id, and two runs have the same tasks with as many items.

    Args:
        items: Of one run and benchmark; without a column of what is ``correct``, nothing is compared.
        rows: The run's scores on that benchmark, in percent.
    """
    if not {"task", "correct"} <= set(items.column_names):
        return []
    table = items.select(["task", "correct"]).to_pandas()
    means = 100 * pd.to_numeric(table["correct"], "coerce").groupby(table["task"].astype(str)).mean()
    accuracies = rows[rows["metric"] == "accuracy"].set_index("task")["score"]
    tasks = means.index.intersection(accuracies.index)
    return sorted(tasks[~np.isclose(means[tasks], accuracies[tasks], rtol=0, atol=1e-6)])


def _means(items: pa.Table, grade: Grade, num_items: Mapping[str, int]) -> tuple[pd.DataFrame | None, str]:
    """Average the items of each task; tasks of which not every item has a finite value are named instead."""
    types = {name: pa.list_(pa.float64()) if name == "scores" else pa.float64() for name in grade.columns}
    try:
        values = grade.of_items(items.select(grade.columns).cast(pa.schema(types)))
    except (ValueError, pa.ArrowException) as error:
        return None, f"whose items are not as they should be ({' '.join(str(error).split())[:100]})"
    of_item = items["task"].combine_chunks()
    tasks, codes = of_item.dictionary.to_numpy(zero_copy_only=False).astype(str), of_item.indices.to_numpy()
    is_finite = np.isfinite(values)
    total = np.bincount(codes, np.where(is_finite, values, 0.0), minlength=len(tasks))
    size = np.bincount(codes[is_finite], minlength=len(tasks))
    is_scored = np.isin(tasks, list(num_items))
    is_whole = is_scored & (size == [num_items.get(task, 0) for task in tasks])
    bad = first_few(sorted(tasks[is_scored & ~is_whole]), _SHOWN)
    reason = (
        f"whose items of {bad} are not all there with a finite {' or '.join(grade.columns)}" if bad else ""
    )
    whole = {"task": tasks[is_whole], "score": total[is_whole] / size[is_whole], "n_items": size[is_whole]}
    return pd.DataFrame(whole), reason


def _as_rows(graded: Sequence[pd.DataFrame], scored: pd.DataFrame) -> pd.DataFrame:
    """Give the scores of tasks what the rows of their runs say of family, variant, seed and group."""
    of_task = ["run_id", "benchmark", "task", "family", "variant", "seed", "group"]
    facts = scored[of_task].drop_duplicates(of_task[:3])
    rows = pd.concat(graded, ignore_index=True).merge(facts, on=of_task[:3])
    return rows.assign(head=NO_HEAD, primary=False)[list(ROW_COLUMNS)]


CUT = "truncated"
"""The column of items that says whether an input lost tokens."""
MOST = 0.5
"""A larger share of a task's inputs is worth a note."""


def cut_inputs(items: pd.DataFrame) -> dict[str, float]:
    """Return the tasks of which most inputs lost tokens, to the share of those that did."""
    if CUT not in items:
        return {}
    shares = items.groupby("task")[CUT].mean()
    return {str(task): float(share) for task, share in shares.items() if share > MOST}


def describe_cut(task: str, share: float) -> str:
    """Say it of one task."""
    return f"{task}: {share:.0%} of the inputs are longer than what the model reads, and cut"
