"""What is known about a run: its rows, its items, and under which protocol each task was scored.

Everything lies in ``<run>/eval/``: ``rows.parquet`` (and ``rows.csv``), ``items/<benchmark>.parquet``, and
``done.json``, which names the weights, and for each task the protocol. A task is done when both are those
asked for. Files are replaced whole, items first and ``done.json`` last, so a process killed at any moment
leaves a task either done or to be done again, and never counted twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import pandas as pd

from base.errors import OccupiedError
from base.files import read_json, sole_holder, write_atomically, write_text
from eval.results.rows import NO_HEAD, empty_rows, read_rows, replace_task, write_rows
from pretrain.run.folders import RunFolder


class ResultStore:
    """Reads and writes one run's results.

    Args:
        run_dir: The run's folder.
        weights: The hash of its model. Results of other weights are dropped when a new one is written.
    """

    def __init__(self, run_dir: Path, weights: str) -> None:
        self._folder = RunFolder(run_dir)
        self._weights = weights
        self._done: dict[str, dict] = {}
        self._is_stale = False
        self._rows: pd.DataFrame | None = None
        if ledger := read_json(self._folder.ledger_file):
            self._is_stale = ledger["weights"] != weights
            self._done = {} if self._is_stale else ledger["tasks"]

    @property
    def is_stale(self) -> bool:
        """Whether what is there was measured on other weights."""
        return self._is_stale

    def is_done(self, benchmark: str, task: str, protocol: dict, metrics: Iterable[str] = ()) -> bool:
        """Whether these weights were scored on a task under exactly this protocol, and in these metrics."""
        if self._done.get(_entry(benchmark, task, protocol)) != protocol:
            return False
        if not (wanted := set(metrics)):
            return True
        rows = self.rows()
        same = (rows["benchmark"] == benchmark) & (rows["task"] == task)
        return wanted <= set(rows.loc[same & (rows["head"] == protocol.get("head", NO_HEAD)), "metric"])

    def rows(self) -> pd.DataFrame:
        """Return the rows of every task that is done."""
        if self._rows is None:
            path = self._folder.rows_file
            self._rows = read_rows(path) if path.is_file() and not self._is_stale else empty_rows()
        return self._rows

    def record(
        self, benchmark: str, task: str, protocol: dict, rows: pd.DataFrame, items: pd.DataFrame
    ) -> None:
        """Add one task's results, in place of what was there for that task, or for that task and head."""
        head = protocol.get("head", NO_HEAD)
        if self._is_stale:
            self._drop()
        path = self._folder.items_file(benchmark)
        items = items.assign(protocol=protocol_label(protocol), **({"head": head} if head else {}))
        if path.is_file():
            kept = pd.read_parquet(path)
            same = kept["task"] == task
            if "head" in kept:  # else they are from before there were heads, as those whose head is null
                same &= kept["head"].isin([head, NO_HEAD]) | kept["head"].isna()
            items = pd.concat([kept[~same], items]).sort_values("task", kind="stable")
            items = items.reset_index(drop=True)
        write_atomically(path, lambda temporary: items.to_parquet(temporary, index=False))
        # One run, one id: older rows of a named run have the id that it would have without its name.
        known = self.rows().assign(run_id=rows["run_id"].iloc[0]) if len(rows) else self.rows()
        self._rows = replace_task(known, benchmark, task, rows, head)
        write_rows(self._rows, self._folder.rows_file)
        self._done[_entry(benchmark, task, protocol)] = protocol
        ledger = json.dumps({"weights": self._weights, "tasks": self._done}, indent=1)
        write_text(self._folder.ledger_file, ledger + "\n")

    def _drop(self) -> None:
        self._folder.ledger_file.unlink()
        for path in self._folder.score_files():
            path.unlink()
        self._is_stale = False


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
