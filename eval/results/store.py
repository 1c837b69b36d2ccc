"""What is known about a run: its rows, its items, and under which protocol each task was scored.

Everything lies in ``<run>/eval/``: ``rows.parquet`` (and ``rows.csv`` for whoever opens it by hand),
``items/<benchmark>.parquet``, and the ledger ``done.json``. A task is taken out of the ledger before its
files are replaced, and named there after. So a process killed at any moment leaves a task that is either done
or scored again, and never a score under the wrong protocol.

Every file of scores names the weights that it is of, and the protocol of each of its tasks. One that says
otherwise than the ledger is another run's, or of another time: it is named and not used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from base.errors import UsageError
from base.files import mapping, write_text
from base.records import read_record, write_record
from eval.results.columns import to_csv
from eval.results.rows import (
    NO_HEAD,
    check_rows,
    empty_rows,
    origin_of,
    read_rows,
    read_table,
    replace_task,
    write_table,
)
from pretrain.run.folders import RUN_NAME, RunFolder
from pretrain.run.manifest import config_hashes, read_completion

_WEIGHTS, _TASKS = "weights", "tasks"
"""What a file of scores says of its origin."""


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


class Scores:
    """What a run was scored on, for reading.

    Args:
        ledger: None where nothing says under which protocols the rows were scored.
        rows: Of every task that was ever scored on these weights; none where the file cannot be used.
        wrong: By its name below ``eval/`` why a file of scores is not used, as in "is gone".
        is_strange: Whether the scores are of another run, or of other weights of this one.
    """

    def __init__(
        self,
        ledger: Ledger | None,
        rows: pd.DataFrame,
        wrong: Mapping[str, str] | None = None,
        is_strange: bool = False,
    ) -> None:
        self.ledger, self.wrong, self.is_strange = ledger, wrong or {}, is_strange
        self._rows = rows

    def is_done(self, benchmark: str, task: str, protocol: dict, metrics: Iterable[str] = ()) -> bool:
        """Whether the run was scored on a task under exactly this protocol, and in these metrics."""
        if self.ledger is None or self.ledger.tasks.get(_entry(benchmark, task, protocol)) != protocol:
            return False
        same = (self._rows["benchmark"] == benchmark) & (self._rows["task"] == task)
        scored = self._rows.loc[same & (self._rows["head"] == protocol.get("head", NO_HEAD)), "metric"]
        return len(scored) > 0 and set(metrics) <= set(scored)

    def rows(self) -> pd.DataFrame:
        """Return the rows of every task that was ever scored on these weights."""
        return self._rows


def read_scores(run: RunFolder, with_items: bool = False) -> Scores:
    """Read a run's scores, and say which of their files are not to be used.

    Args:
        run: The run's folder.
        with_items: Whether items are read to their last bit, too; else only whose they are.
    """
    while True:
        ledger = read_ledger(run)
        scores = _read(run, ledger, with_items)
        # Another process may write meanwhile: then the ledger has changed.
        if not scores.wrong or read_ledger(run) == ledger:
            return scores


def items_damage(run: RunFolder, benchmark: str) -> str | None:
    """Say why a run's items of a benchmark are not those of its scores; their reader tells of absent ones."""
    ledger, path = read_ledger(run), run.items_file(benchmark)
    if origin_of(path) is None:
        return None
    return _strange(run, ledger) or _wrong_origin(path, run, ledger, benchmark)


def _read(run: RunFolder, ledger: Ledger | None, with_items: bool) -> Scores:
    if why := _strange(run, ledger):
        wrong = {_name(run, path): why for path in run.score_files()}
        return Scores(ledger, empty_rows(), wrong, is_strange=True)
    rows, wrong = empty_rows(), {}
    benchmarks = {_benchmark(entry) for entry in ledger.tasks} if ledger else set()
    if benchmarks or run.rows_file.exists():
        try:
            rows = read_rows(run.rows_file)
            why = _wrong_origin(run.rows_file, run, ledger)
        except UsageError as error:
            why = _reason(error, run.rows_file) if run.rows_file.exists() else "is gone"
        if why:
            rows, wrong = empty_rows(), {_name(run, run.rows_file): why}
    for benchmark in sorted(benchmarks | {path.stem for path in run.items_dir.glob("*.parquet")}):
        path = run.items_file(benchmark)
        if why := _wrong_origin(path, run, ledger, benchmark) or (with_items and _unreadable(path)):
            wrong[_name(run, path)] = why
    return Scores(ledger, rows, wrong)


def _strange(run: RunFolder, ledger: Ledger | None) -> str | None:
    """Say that scores are of other weights than the run's training left, or of another run by their rows.

    Ids count where weights are not known, as in files of before: a named run may have been moved.
    """
    trained, scored = _trained(run), ledger.weights if ledger else ""
    if trained and scored and trained != scored:
        return f"is of other weights ({scored}) than its training left ({trained})"
    if why := _other_weights(origin_of(run.rows_file), trained or scored):
        return why
    if trained and scored and mapping(origin_of(run.rows_file)).get(_WEIGHTS):
        return None
    if others := [run_id for run_id in _row_ids(run) if not _is_of(run, run_id)]:
        return f"is of another run, {others[0]}"
    return None


def _trained(run: RunFolder) -> str:
    completion = read_completion(run)
    return completion.weights if completion else ""


def _other_weights(origin: Mapping[str, Any] | None, known: str) -> str | None:
    weights = mapping(origin).get(_WEIGHTS, known)
    return f"is of another run, of weights {weights} and not {known}" if known and weights != known else None


def _row_ids(run: RunFolder) -> list[str]:
    try:
        return sorted(set(map(str, read_table(run.rows_file, ["run_id"])["run_id"].to_pylist())))
    except UsageError:  # whoever reads the rows says so
        return []


def _is_of(run: RunFolder, run_id: str) -> bool:
    """Whether an id in rows of before may be a run's, which may lie elsewhere; a stranger's may be any."""
    hashes = set(config_hashes(run).values())
    if run_id == run.run_id or run_id.count("/") != 2 or not hashes:
        return True
    named = RUN_NAME.fullmatch(run_id.rpartition("/")[2])
    return named is not None and named["hash"] in hashes


def _wrong_origin(
    path: Path, run: RunFolder, ledger: Ledger | None, benchmark: str | None = None
) -> str | None:
    """Say that a file is gone, another run's, or not of the protocols that the ledger has of its tasks.

    Args:
        path: The file.
        run: The run.
        ledger: What it was scored on.
        benchmark: Whose tasks are in the file; None takes all.
    """
    tasks = ledger.tasks.items() if ledger else ()
    wanted = {entry: protocol for entry, protocol in tasks if benchmark in (None, _benchmark(entry))}
    if not path.exists():
        return "is gone" if wanted else None
    if (origin := origin_of(path)) is None:
        return "cannot be read"
    if _WEIGHTS not in origin:  # of before
        return None
    if why := _other_weights(origin, ledger.weights if ledger else _trained(run)):
        return why
    scored = mapping(origin.get(_TASKS))
    differing = [entry for entry, own in wanted.items() if scored.get(entry) != protocol_hash(own)]
    return f"does not have {differing[0]} as eval/{run.ledger_file.name} says" if differing else None


def _unreadable(path: Path) -> str | None:
    try:
        read_table(path)
    except UsageError as error:
        return _reason(error, path)
    return None


def _reason(error: UsageError, path: Path) -> str:
    return str(error).removeprefix(f"{path} ")


class ResultStore(Scores):
    """Reads and writes one run's results; only whoever alone writes into the run may have one.

    Scores of other weights or of another run are put into a folder of their own. What cannot be used of the
    others is forgotten, and so scored again.

    Args:
        run_dir: The run's folder.
        weights: The hash of its model, which was found whole.
    """

    def __init__(self, run_dir: Path, weights: str) -> None:
        self._run, self.notes = RunFolder(run_dir), list[str]()
        """What was found wrong, in sentences without the run's name."""
        scores = read_scores(self._run, with_items=True)
        if scores.is_strange or scores.ledger is None or scores.ledger.weights != weights:
            if scores.ledger or self._run.score_files():
                self.notes.append(_put_away(self._run, scores))
            scores = Scores(Ledger(weights=weights), empty_rows())
        super().__init__(scores.ledger, scores.rows())
        for name, why in scores.wrong.items():
            self.notes.append(self._forget(name, why))

    def _forget(self, name: str, why: str) -> str:
        """Remove a file of scores that cannot be used, and what was done of it."""
        benchmark = None if name == self._run.rows_file.name else Path(name).stem
        tasks = {
            entry: protocol
            for entry, protocol in self._tasks.items()
            if benchmark is not None and _benchmark(entry) != benchmark
        }
        self._write(tasks)
        (self._run.eval_dir / name).unlink(missing_ok=True)
        return f"eval/{name} {why}; {benchmark or 'everything'} is scored again"

    def record(
        self, benchmark: str, task: str, protocol: dict, rows: pd.DataFrame, items: pd.DataFrame
    ) -> None:
        """Add one task's results, in place of what was there for that task, or for that task and head."""
        run, head, entry = self._run, protocol.get("head", NO_HEAD), _entry(benchmark, task, protocol)
        items = items.assign(protocol=protocol_label(protocol), **({"head": head} if head else {}))
        items = _merged(run.items_file(benchmark), items, task, head)
        # One run, one id: older rows of a named run have the id that it would have without its name.
        known = self._rows.assign(run_id=rows["run_id"].iloc[0]) if len(rows) else self._rows
        after = check_rows(replace_task(known, benchmark, task, rows, head), str(run.rows_file))
        others = {name: own for name, own in self._tasks.items() if name != entry}
        tasks = {**others, entry: protocol}
        self._write(others)
        write_table(items, run.items_file(benchmark), self._origin(tasks))
        write_table(after, run.rows_file, self._origin(tasks))
        self._rows = after
        write_text(run.rows_csv_file, to_csv(after))
        self._write(tasks)

    @property
    def _tasks(self) -> dict[str, dict[str, Any]]:
        assert self.ledger is not None
        return self.ledger.tasks

    def _origin(self, tasks: Mapping[str, dict]) -> dict[str, Any]:
        assert self.ledger is not None
        protocols = {entry: protocol_hash(protocol) for entry, protocol in tasks.items()}
        return {_WEIGHTS: self.ledger.weights, _TASKS: protocols}

    def _write(self, tasks: dict[str, dict[str, Any]]) -> None:
        """Replace what the ledger names as done."""
        assert self.ledger is not None
        self.ledger = replace(self.ledger, tasks=tasks)
        write_ledger(self._run, self.ledger)


def _put_away(run: RunFolder, scores: Scores) -> str:
    """Rename a folder of scores that are not of these weights; says why and what it is called now."""
    number = 1
    while (place := run.path / f"eval-earlier-{number}").exists():
        number += 1
    run.eval_dir.rename(place)
    why = next(iter(scores.wrong.values()), "is not known to be of these weights")
    return f"eval/{run.rows_file.name} {why}; it is kept in {place.name}, and everything is scored again"


def _merged(path: Path, items: pd.DataFrame, task: str, head: str) -> pd.DataFrame:
    """Put a task's items in place of those that a file has of it."""
    if not path.is_file():
        return items
    kept = read_table(path).to_pandas()
    same = kept["task"] == task
    if "head" in kept:  # else they are from before there were heads, as those whose head is null
        same &= kept["head"].isin([head, NO_HEAD]) | kept["head"].isna()
    return pd.concat([kept[~same], items]).sort_values("task", kind="stable").reset_index(drop=True)


def _entry(benchmark: str, task: str, protocol: dict) -> str:
    """Return what a result is kept under: a task may be scored under several heads."""
    return "/".join([benchmark, task, *([protocol["head"]] if "head" in protocol else [])])


def _benchmark(entry: str) -> str:
    return entry.partition("/")[0]


def _name(run: RunFolder, path: Path) -> str:
    return path.relative_to(run.eval_dir).as_posix()


def protocol_label(protocol: dict) -> str:
    """Return what stands for a protocol in the items: its name where it has one, and its hash."""
    return " ".join([*([protocol["name"]] if "name" in protocol else []), protocol_hash(protocol)])


def protocol_hash(protocol: dict) -> str:
    """Return 12 hexadecimal digits that stand for a protocol in the items."""
    return hashlib.sha256(json.dumps(protocol, sort_keys=True).encode()).hexdigest()[:12]
