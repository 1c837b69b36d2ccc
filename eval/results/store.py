"""What is known about a run: its rows, its items, and under which protocol each task was scored.

Everything lies in ``<run>/eval/``: ``rows.parquet`` (and ``rows.csv``), ``items/<benchmark>.parquet``, and
the ledger ``done.json`` (``eval.results.ledger``). A task is done when weights and protocol are those asked
for. A process killed at any moment leaves a task either done or to be done again, and never counted twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pandas as pd

from base.errors import OccupiedError
from base.files import flush, replace_durably, sha256_of, sole_holder
from eval.results.csv_text import to_csv
from eval.results.ledger import Ledger, name_of, read_ledger, settled, write_ledger
from eval.results.mending import NEW, mend
from eval.results.rows import NO_HEAD, check_rows, empty_rows, read_rows, replace_task
from pretrain.run.folders import RunFolder
from pretrain.run.manifest import FileState


class Scores:
    """What a run was scored on, for reading.

    Args:
        run_dir: The run's folder.
        ledger: What it says of its scores, all of whose files were found whole.
    """

    def __init__(self, run_dir: Path, ledger: Ledger) -> None:
        self._folder = RunFolder(run_dir)
        self._ledger = ledger
        self._rows: pd.DataFrame | None = None

    def is_done(self, benchmark: str, task: str, protocol: dict, metrics: Iterable[str] = ()) -> bool:
        """Whether the run was scored on a task under exactly this protocol, and in these metrics."""
        if self._ledger.tasks.get(_entry(benchmark, task, protocol)) != protocol:
            return False
        if not (wanted := set(metrics)):
            return True
        rows = self.rows()
        same = (rows["benchmark"] == benchmark) & (rows["task"] == task)
        return wanted <= set(rows.loc[same & (rows["head"] == protocol.get("head", NO_HEAD)), "metric"])

    def rows(self) -> pd.DataFrame:
        """Return the rows of every task that was ever scored on these weights."""
        if self._rows is None:
            path = self._folder.rows_file
            self._rows = read_rows(path) if path.is_file() else empty_rows()
        return self._rows


class ResultStore(Scores):
    """Reads and writes one run's results; only whoever alone evaluates the run may have one.

    Args:
        run_dir: The run's folder.
        weights: The hash of its model, which was found whole.

    Raises:
        UsageError: If the scores there are of other weights, and nothing tells why.
    """

    def __init__(self, run_dir: Path, weights: str) -> None:
        self.notes = mend(run_dir, weights)
        """What was mended, in sentences."""
        super().__init__(run_dir, read_ledger(RunFolder(run_dir)) or Ledger(weights=weights))

    def record(
        self, benchmark: str, task: str, protocol: dict, rows: pd.DataFrame, items: pd.DataFrame
    ) -> None:
        """Add one task's results, in place of what was there for that task, or for that task and head."""
        head, entry = protocol.get("head", NO_HEAD), _entry(benchmark, task, protocol)
        items = items.assign(protocol=protocol_label(protocol), **({"head": head} if head else {}))
        items_file = self._folder.items_file(benchmark)
        items = _merged(items_file, items, task, head)
        # One run, one id: older rows of a named run have the id that it would have without its name.
        known = self.rows().assign(run_id=rows["run_id"].iloc[0]) if len(rows) else self.rows()
        after = check_rows(replace_task(known, benchmark, task, rows, head), str(self._folder.rows_file))
        self._rows = None  # until all is written
        self._commit({items_file: items, self._folder.rows_file: after}, entry, protocol)
        self._rows = after

    def _commit(self, tables: dict[Path, pd.DataFrame], entry: str, protocol: dict) -> None:
        """Put tables into place, in the order that ``eval.results.ledger`` says."""
        csv = self._folder.rows_csv_file
        places = [*tables, csv]
        try:
            for path, table in tables.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                table.to_parquet(_aside(path), index=False)
            _aside(csv).write_text(to_csv(tables[self._folder.rows_file]), encoding="utf-8")
            pending = {name_of(self._folder, path): _state(_aside(path)) for path in places}
            before = settled(self._folder, self._ledger)
            others = {name: known for name, known in before.tasks.items() if name != entry}
            self._write(replace(before, tasks=others, pending=pending))
            for path in places:
                replace_durably(_aside(path), path)
            files = {**before.files, **pending}
            self._write(replace(before, tasks={**others, entry: protocol}, files=files))
        finally:
            for path in places:
                _aside(path).unlink(missing_ok=True)

    def _write(self, ledger: Ledger) -> None:
        write_ledger(self._folder, ledger)
        self._ledger = ledger


def _merged(path: Path, items: pd.DataFrame, task: str, head: str) -> pd.DataFrame:
    """Put a task's items in place of those that a file has of it."""
    if not path.is_file():
        return items
    kept = pd.read_parquet(path)
    same = kept["task"] == task
    if "head" in kept:  # else they are from before there were heads, as those whose head is null
        same &= kept["head"].isin([head, NO_HEAD]) | kept["head"].isna()
    return pd.concat([kept[~same], items]).sort_values("task", kind="stable").reset_index(drop=True)


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}{NEW}")


def _state(path: Path) -> FileState:
    flush(path)
    return FileState(path.stat().st_size, sha256_of(path))


def _entry(benchmark: str, task: str, protocol: dict) -> str:
    """Return what a result is kept under: a task may be scored under several heads."""
    return "/".join([benchmark, task, *([protocol["head"]] if "head" in protocol else [])])


def sole_evaluator(run_dir: Path) -> AbstractContextManager[None]:
    """Keep a second process from evaluating the same run; the system releases the lock when its holder dies.

    Raises:
        OccupiedError: On entering, if another process is at it.
    """
    error = OccupiedError(f"{run_dir} is being evaluated by another process; wait for it or stop it")
    return sole_holder(RunFolder(run_dir).evaluation_lock_file, error)


def protocol_label(protocol: dict) -> str:
    """Return what stands for a protocol in the items: its name where it has one, and its hash."""
    return " ".join([*([protocol["name"]] if "name" in protocol else []), protocol_hash(protocol)])


def protocol_hash(protocol: dict) -> str:
    """Return 12 hexadecimal digits that stand for a protocol in the items."""
    return hashlib.sha256(json.dumps(protocol, sort_keys=True).encode()).hexdigest()[:12]
