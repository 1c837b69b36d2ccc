"""How sure a run was: graded metrics, computed from the items that were stored when it was scored.

Accuracy asks of an item only whether the right answer scored higher. By how much it did is stored with the
item, and a mean of that moves less from seed to seed. Of sums of log-likelihoods over tokens (for masked
models pseudo-log-likelihoods), in nats:

- ``log_odds``: of a minimal pair log p(good) - log p(bad), in nats a pair. 0 is a model that cannot tell.
- ``log_odds_per_token``: the same divided by the number of tokens that differ, ``num_tokens_differing`` (see
  ``eval.zero_shot.choices.count_differing``). So a pair that differs in one word and one that differs
  in five weigh alike. The tokens that both share are no part of the divisor, although what differs changes
  their scores, too: they are as many as the sentence happens to be long. Of a pair of equal sentences both
  metrics are 0.
- ``probability``: of the right one of several answers, in percent: the softmax over the answers'
  log-likelihoods. It is the accuracy of somebody who answers by drawing from the model.

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
from base.run.folders import RunFolder, StudyFolder
from base.wording import first_few
from scores.rows import NO_HEAD, ROW_COLUMNS, read_table, some_of
from scores.suites import SUITES

# In the name of a protocol under which a score is a mean over tokens, so that a difference says nothing of a
# pair's odds. No preset has it.
_MEANS = "reduction=mean"
_UNREADABLE = "which has no readable items"
_OTHERS = "whose items do not give the accuracy of their row; were they copied from another run?"
_ABSENT, _OLDER = "which has no items", "whose items are from before they held what it is made of"
_SHOWN = 3
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Grade:
    """What a graded metric is of an item.

    Attributes:
        columns: The columns of items that it is made of, and their types.
        of_items: From a table with them to (I,) float64; not finite where a score is missing or not finite.
    """

    columns: Mapping[str, pa.DataType]
    of_items: Callable[[pa.Table], np.ndarray]


def _log_odds(items: pa.Table) -> np.ndarray:
    return items["margin"].to_numpy()


def _log_odds_per_token(items: pa.Table) -> np.ndarray:
    return _log_odds(items) / np.maximum(items["num_tokens_differing"].to_numpy(), 1)


def _probability(items: pa.Table) -> np.ndarray:
    """Take the softmax of each item's scores, of which the first is the right answer's."""
    scores = items["scores"].combine_chunks()
    lengths = scores.value_lengths().fill_null(0).to_numpy()
    if (lengths < 2).any():
        raise ValueError("an item has fewer than two answers")
    values, first = scores.flatten().to_numpy(zero_copy_only=False), lengths.cumsum() - lengths
    weights = np.exp(values - np.repeat(np.maximum.reduceat(values, first), lengths))
    share = weights[first] / np.add.reduceat(weights, first)
    return np.where(np.isfinite(np.add.reduceat(values, first)), 100 * share, np.nan)


GRADES: dict[str, Grade] = {
    "log_odds": Grade({"margin": pa.float64()}, _log_odds),
    "log_odds_per_token": Grade(
        {"margin": pa.float64(), "num_tokens_differing": pa.float64()}, _log_odds_per_token
    ),
    "probability": Grade({"scores": pa.list_(pa.float64())}, _probability),
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
        run = StudyFolder(folder).run(run_id)
        num_items = dict(zip(of_run["task"], of_run["n_items"], strict=True))
        for metric, found in grade_items(run.items_file(benchmark), metrics, of_run):
            if isinstance(found, str):
                reasons[benchmark, metric, found].append(run_id)
                continue
            is_whole = found["n_items"] == found["task"].map(num_items)
            if not is_whole.all():
                parts = some_of(sorted(found["task"][~is_whole]), _SHOWN)
                reasons[benchmark, metric, f"whose items of {parts} are not all there"].append(run_id)
            graded.append(found[is_whole].assign(metric=metric, benchmark=benchmark, run_id=run_id))
    table = _as_rows(graded, scored) if graded else rows.iloc[:0]
    known = set(zip(table["benchmark"], table["metric"], strict=True))
    notes = [
        f"{benchmark}: no {metric} of {some_of(runs, _SHOWN)}, {reason}"
        for (benchmark, metric, reason), runs in reasons.items()
        if (benchmark, metric) in known or reason not in (_ABSENT, _OLDER)
    ]
    return table, notes


def grade_items(
    path: Path, metrics: Sequence[str], rows: pd.DataFrame
) -> Iterator[tuple[str, pd.DataFrame | str]]:
    """Grade one run on one suite.

    Args:
        path: Its items.
        metrics: Names of ``GRADES``.
        rows: The run's scores on it; items of other tasks are passed over.

    Yields:
        Each metric with a table of score and n_items by task, or with words for what is amiss; with both,
        one after the other, where that holds for some of the tasks.
    """
    items = _read(
        path, {"task", "protocol", "correct"}.union(*(GRADES[metric].columns for metric in metrics))
    )
    if not isinstance(items, str) and _are_of_others(items, rows):
        items = _OTHERS
    for metric in metrics:
        if isinstance(items, str):
            yield metric, items
        elif not GRADES[metric].columns.keys() <= set(items.column_names):
            yield metric, _OLDER
        else:
            yield from ((metric, part) for part in _means(items, GRADES[metric], set(rows["task"])))


def _read(path: Path, columns: set[str]) -> pa.Table | str:
    """Read those of the columns that there are, or say what is amiss."""
    if not path.is_file():
        return _ABSENT
    try:
        present = sorted(columns & set(pq.read_schema(path).names))
        texts = [name for name in ("task", "protocol") if name in present]
        items = read_table(path, present, read_dictionary=texts)
    except (OSError, pa.ArrowInvalid, UsageError):
        return _UNREADABLE
    if "task" not in present or items["task"].null_count:
        return _UNREADABLE
    names = items["protocol"].unique().to_pylist() if "protocol" in present else []
    if any(_MEANS in str(name) for name in names):
        return f"whose scores are means over tokens ({_MEANS})"
    return items


def _are_of_others(items: pa.Table, rows: pd.DataFrame) -> bool:
    """Whether items of a task that are all there give another accuracy than its row has."""
    if "correct" not in items.column_names:
        return False
    try:
        shares = items.group_by("task").aggregate([("correct", "mean"), ("correct", "count")]).to_pandas()
    except pa.ArrowException:  # no numbers
        return True
    told = rows[rows["metric"] == "accuracy"].merge(shares.astype({"task": str}), on="task")
    whole = told[told["correct_count"] == told["n_items"]]
    return bool(((100 * whole["correct_mean"] - whole["score"]).abs() > _ROUNDING).any())


def _means(items: pa.Table, grade: Grade, tasks: set[str]) -> Iterator[pd.DataFrame | str]:
    """Average the items of each task; tasks with an item whose value is not finite are named instead."""
    try:
        table = items.select(list(grade.columns)).cast(pa.schema(grade.columns))
        values = grade.of_items(table)
    except (ValueError, pa.ArrowException) as error:
        yield f"whose items are not as they should be ({' '.join(str(error).split())[:100]})"
        return
    of_item = items["task"].combine_chunks()
    names, codes = of_item.dictionary.to_numpy(zero_copy_only=False).astype(str), of_item.indices.to_numpy()
    wanted, size = np.isin(names, list(tasks)), np.bincount(codes, minlength=len(names))
    is_finite = np.bincount(codes, ~np.isfinite(values), minlength=len(names)) == 0
    if not is_finite[wanted].all():
        bad = some_of(sorted(names[wanted & ~is_finite]), _SHOWN)
        yield f"of which items of {bad} have no finite {' or '.join(grade.columns)}"
    total, good = np.bincount(codes, values, minlength=len(names)), wanted & is_finite
    yield pd.DataFrame({"task": names[good], "score": total[good] / size[good], "n_items": size[good]})


def _as_rows(graded: Sequence[pd.DataFrame], scored: pd.DataFrame) -> pd.DataFrame:
    """Give the scores of tasks what the rows of their runs say of family, variant, seed and group."""
    of_task = ["run_id", "benchmark", "task", "family", "variant", "seed", "group"]
    known = scored[of_task].drop_duplicates(of_task[:3])
    rows = pd.concat(graded, ignore_index=True).merge(known, on=of_task[:3])
    return rows.assign(head=NO_HEAD, primary=False)[list(ROW_COLUMNS)]


MOST = 0.5
"""A larger share of a task's inputs is told."""
CUT = "truncated"
"""The column of items that says whether an input lost tokens."""
SHOWN = 3


def cut_inputs(items: pd.DataFrame) -> dict[str, float]:
    """Return the tasks of which most inputs lost tokens, to the share of those that did."""
    if CUT not in items:
        return {}
    shares = items.groupby("task")[CUT].mean()
    return {str(task): float(share) for task, share in shares.items() if share > MOST}


def describe_cut(task: str, share: float) -> str:
    """Say it of one task."""
    return f"{task}: {share:.0%} of the inputs are longer than what the model reads, and cut"


def cut_input_notes(runs: Mapping[str, RunFolder]) -> list[str]:
    """Say of which tasks of a study most inputs are cut, and in which of its runs."""
    cut: dict[str, list[str]] = defaultdict(list)
    for run_id, run in runs.items():
        for path in sorted(run.items_dir.glob("*.parquet")):
            try:
                if not {"task", CUT} <= set(pq.read_schema(path).names):
                    continue
                items = read_table(path, ["task", CUT]).to_pandas()
            except (OSError, pa.ArrowInvalid, UsageError):
                continue  # told by whoever needs the items
            for task, share in cut_inputs(items).items():
                cut[describe_cut(f"{path.stem}/{task}", share)].append(run_id)
    return [f"{said}, in {first_few(run_ids, SHOWN)}" for said, run_ids in cut.items()]
