"""What is known about a run: its rows, its items, and under which protocol each task was scored.

Everything lies in ``<run>/eval/``: ``rows.parquet`` (and ``rows.csv`` for whoever opens it by hand),
``items/<benchmark>.parquet``, and the ledger ``done.json``. A task is taken out of the ledger before its
files are replaced, and named there after. So a process killed at any moment leaves a task that is either done
or scored again, and never a score under the wrong protocol.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pandas as pd

from base.errors import UsageError
from base.printing import first_few
from base.records import read_record, write_record
from base.run.folder_names import RUN_NAME, RunFolder, may_be
from base.run.manifest import config_hashes, read_completion
from scores.items import foreign_tasks
from scores.rows import (
    NO_HEAD,
    empty_rows,
    read_rows,
    read_table,
    replace_task,
    run_name,
    write_rows,
    write_table,
)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What a run was scored on."""

    weights: str = ""
    """The hash of the model that was scored."""
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Benchmark, task, and where there is one, head, to everything that their scores depend on besides."""


def read_ledger(run: RunFolder) -> Ledger | None:
    """Read a run's ledger; None where there is none, or one that is damaged, which is told."""
    return read_record(run.ledger_file, Ledger)


def write_ledger(run: RunFolder, ledger: Ledger) -> None:
    """Replace a run's ledger in one step."""
    write_record(run.ledger_file, ledger)


@dataclass(kw_only=True)
class Scores:
    """What a run was scored on, for reading."""

    ledger: Ledger | None
    """None where nothing says under which protocols the rows were scored."""
    rows: pd.DataFrame
    """Of every task that was ever scored on these weights; none where they are not used."""
    problem: str = ""
    """Why the rows are not used, as in "is gone"; else empty."""

    def is_done(self, benchmark: str, task: str, protocol: dict, metrics: Iterable[str] = ()) -> bool:
        """Whether the run was scored on a task under exactly this protocol, and in these metrics."""
        if self.ledger is None or self.ledger.tasks.get(_entry(benchmark, task, protocol)) != protocol:
            return False
        same = (self.rows["benchmark"] == benchmark) & (self.rows["task"] == task)
        scored = self.rows.loc[same & (self.rows["head"] == protocol.get("head", NO_HEAD)), "metric"]
        return len(scored) > 0 and set(metrics) <= set(scored)


def read_scores(run: RunFolder) -> Scores:
    """Read a run's scores; those that are damaged, or not of its weights, are not used."""
    ledger, completion = read_ledger(run), read_completion(run)
    trained, scored = completion.weights if completion else "", ledger.weights if ledger else ""
    problem, rows = "", empty_rows()
    if trained and scored and trained != scored:
        problem = f"is of other weights ({scored}) than its training left ({trained})"
    elif run.rows_file.exists() or (ledger and ledger.tasks):
        try:
            rows = read_rows(run.rows_file)
        except UsageError as error:
            is_there = run.rows_file.exists()
            problem = str(error).removeprefix(f"{run.rows_file} ") if is_there else "is gone"
    runs = rows[["run_id", "family", "variant", "seed"]].drop_duplicates().to_numpy().tolist()
    for run_id, *who in runs:
        if not _is_of(run, run_id):
            problem, rows = f"is of another run, {run_id}", empty_rows()
        elif not may_be(run_id, *who):
            problem, rows = f"says both {run_id} and {run_name(tuple(who))}", empty_rows()
    return Scores(ledger=ledger, rows=rows, problem=problem)


def _is_of(run: RunFolder, run_id: str) -> bool:
    """Whether rows of that id may be of a run: folders are renamed and moved, configurations stay.

    ``gpt_neo/kan/seed1-0a1b2c3d`` names a configuration; ``gpt_neo/kan/my-first`` may be of any.
    """
    match, hashes = RUN_NAME.fullmatch(run_id.rpartition("/")[2]), config_hashes(run).values()
    return run_id == run.run_id or match is None or not hashes or match["hash"] in hashes


class Measured(NamedTuple):
    """A task's results, and everything that they depend on besides the weights."""

    benchmark: str
    task: str
    protocol: dict[str, Any]
    rows: pd.DataFrame
    items: pd.DataFrame


class ResultStore(Scores):
    """Reads and writes one run's results; only whoever alone writes into the run may have one.

    Scores that are not known to be of these weights are put into a folder of their own. Tasks whose files
    cannot be read are scored again.

    Args:
        run_dir: The run's folder.
        weights: The hash of its model, which was found whole.
    """

    def __init__(self, run_dir: Path, weights: str) -> None:
        self._run, self.notes = RunFolder(run_dir), list[str]()
        """What was found wrong, in sentences without the run's name."""
        ledger = read_ledger(self._run)
        if ledger is None or ledger.weights != weights:
            if ledger or self._run.score_files():
                self.notes.append(_put_away(self._run))
            ledger = Ledger(weights=weights)
        scores = read_scores(self._run)
        super().__init__(ledger=ledger, rows=scores.rows)
        if scores.problem:
            self.notes.append(f"eval/{self._run.rows_file.name} {scores.problem}; everything is scored again")
        for benchmark in sorted({_benchmark(entry) for entry in self._tasks}):
            self._forget_without_items(benchmark)

    def _forget_without_items(self, benchmark: str) -> None:
        """Forget a benchmark whose items cannot be read or are another run's, so that it is scored again."""
        path = self._run.items_file(benchmark)
        try:
            foreign = foreign_tasks(read_table(path), self.rows[self.rows["benchmark"] == benchmark])
            reason = f"does not average to the accuracy of {first_few(foreign, 3)}" if foreign else ""
        except UsageError as error:
            reason = str(error).removeprefix(f"{path} ")
        if reason:
            self.notes.append(f"eval/items/{path.name} {reason}; {benchmark} is scored again")
            self._write({name: x for name, x in self._tasks.items() if _benchmark(name) != benchmark})
            path.unlink(missing_ok=True)

    def record(self, *results: Measured) -> None:
        """Add results, each in place of what was there for its task, or for its task and head."""
        after, files = self.rows, dict[Path, pd.DataFrame]()
        for benchmark, task, protocol, rows, items in results:
            head, file = protocol.get("head", NO_HEAD), self._run.items_file(benchmark)
            label = f"{protocol.get('name', '')} {protocol_hash(protocol)}".strip()
            items = items.assign(protocol=label, **({"head": head} if head else {}))
            if file not in files and file.is_file():
                files[file] = read_table(file).to_pandas()
            files[file] = _merged(files[file], items, task, head) if file in files else items
            # One run, one id: older rows of a named run have the id that it would have without its name.
            after = after.assign(run_id=rows["run_id"].iloc[0]) if len(rows) else after
            after = replace_task(after, benchmark, task, rows, head)
        done = {_entry(each.benchmark, each.task, each.protocol): each.protocol for each in results}
        others = {name: x for name, x in self._tasks.items() if name not in done}
        self._write(others)
        for file, table in files.items():
            write_table(table, file)
        write_rows(after, self._run.rows_file)
        self.rows = after
        self._write({**others, **done})

    @property
    def _tasks(self) -> dict[str, dict[str, Any]]:
        assert self.ledger is not None
        return self.ledger.tasks

    def _write(self, tasks: dict[str, dict[str, Any]]) -> None:
        """Replace what the ledger names as done."""
        assert self.ledger is not None
        self.ledger = replace(self.ledger, tasks=tasks)
        write_ledger(self._run, self.ledger)


def _put_away(run: RunFolder) -> str:
    """Rename a folder of scores that are not of these weights, and say what it is called now."""
    number = 1
    while (place := run.path / f"eval-earlier-{number}").exists():
        number += 1
    run.eval_dir.rename(place)
    return (
        f"eval/{run.rows_file.name} is not known to be of these weights; it is kept in {place.name}, and "
        "everything is scored again"
    )


def _merged(before: pd.DataFrame, items: pd.DataFrame, task: str, head: str) -> pd.DataFrame:
    """Put a task's items in place of those that are there of it."""
    same = before["task"] == task
    if "head" in before:  # else they are from before there were heads, as those whose head is null
        same &= before["head"].isin([head, NO_HEAD]) | before["head"].isna()
    return pd.concat([before[~same], items]).sort_values("task", kind="stable").reset_index(drop=True)


def _entry(benchmark: str, task: str, protocol: dict) -> str:
    """Return what a result is kept under: a task may be scored under several heads."""
    return "/".join([benchmark, task, *([protocol["head"]] if "head" in protocol else [])])


def _benchmark(entry: str) -> str:
    return entry.partition("/")[0]


def protocol_hash(protocol: dict) -> str:
    """Return 12 hexadecimal digits that stand for a protocol in the items."""
    return hashlib.sha256(json.dumps(protocol, sort_keys=True).encode()).hexdigest()[:12]


def write_baselines(run_dir: Path, baselines: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Write what constant answers and guesses score beside the scores of a run.

    Args:
        run_dir: The run's folder.
        baselines: Of each benchmark and task, the metrics in percent. What the file says of others stays.
    """
    content = read_baselines(run_dir)
    for benchmark, tasks in baselines.items():
        content[benchmark] = content.get(benchmark, {}) | {task: dict(x) for task, x in tasks.items()}
    write_record(RunFolder(run_dir).baselines_file, content)


def read_baselines(run_dir: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Read what they score: benchmark, task, metric, score in percent; empty where unknown.

    A damaged file is named, and says nothing.
    """
    return read_record(RunFolder(run_dir).baselines_file, dict[str, dict[str, dict[str, float]]]) or {}


def mean_baseline(baselines: Mapping[str, Mapping[str, float]], scores: pd.DataFrame) -> float | None:
    """Average what scores without a model over the tasks that a benchmark's score is a mean of.

    Args:
        baselines: Of the benchmark's tasks and metrics, in percent.
        scores: Family, variant, seed, run_id, task and metric of its scores, one metric a task.

    Returns:
        Percent; None where a task's is not known.
    """
    num_runs = len(scores.drop_duplicates(["family", "variant", "seed", "run_id"]))
    num_scores = scores.groupby(["task", "metric"]).size().to_dict()
    # As in the scores themselves, a task counts that most runs have.
    tasks = [key for key, number in num_scores.items() if number > num_runs / 2]
    levels = [baselines[task][metric] for task, metric in tasks if metric in baselines.get(task, {})]
    return fmean(levels) if tasks and len(levels) == len(tasks) else None
