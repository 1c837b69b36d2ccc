"""Runs and suites: finds what is not scored yet, has it measured, writes rows and items after every task."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from base.errors import UsageError, as_usage_error
from base.faults import naming
from base.system import num_cores
from eval.config import EvalConfig
from eval.models.identity import RunIdentity, admit_run, check_length, identify_run, weights_hash
from eval.runner.measure import cost
from eval.runner.progress import UnitProgress
from eval.runner.references import has_references, write_references
from eval.runner.work_units import Work, is_done, work_units
from eval.runner.workers import Order, Results, measure_here, measure_in_workers
from eval.zero_shot.task import TaskResult
from ffn_variants.models.devices import check_device
from ffn_variants.registry import is_registered
from pretrain.run.lock import sole_writer
from pretrain.run.variant_source import source_change
from scores.scale import cut_inputs, describe_cut
from scores.store import ResultStore

# A worker takes some 8 s of processor time to start, so it should have this much to do.
SECONDS_WORTH_A_WORKER = 60.0


@dataclass(frozen=True)
class Failure:
    """What could not be measured: a unit of work, or a whole run where ``key`` is None."""

    run_dir: Path
    key: str | None
    error: Exception

    def __str__(self) -> str:
        # What is wrong with a whole run names its folder itself.
        return str(self.error) if self.key is None else f"{self.run_dir} {self.key}: {self.error}"


@dataclass(frozen=True)
class Outcome:
    """Of every run that could be read the rows, and what failed.

    Attributes:
        rows: All of a run's, those of earlier evaluations included.
        asked: Those of the tasks and heads asked for, in the order asked; run_id is the folder where several
            have the same.
        failures: What could not be measured.
    """

    rows: dict[Path, pd.DataFrame] = field(default_factory=dict)
    asked: dict[Path, pd.DataFrame] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True)
class _OpenRun:
    """A run that this process alone evaluates, what is asked of it, and what of that is missing, by key."""

    identity: RunIdentity
    store: ResultStore
    asked: dict[str, Work]
    missing: dict[str, Work]
    notes: tuple[str, ...]

    @property
    def asked_rows(self) -> pd.DataFrame:
        """The rows of what was asked for and is scored, in that order."""
        done = [work for work in self.asked.values() if is_done(work, self.store)]
        wanted = [(work.benchmark_of(task), task, work.head) for work in done for task in work.protocols]
        places = {key: place for place, key in enumerate(wanted)}
        rows = self.store.rows
        keys = zip(rows["benchmark"], rows["task"], rows["head"], strict=True)
        order = sorted((places[key], number) for number, key in enumerate(keys) if key in places)
        return rows.iloc[[number for _, number in order]]


def evaluate_run(run_dir: Path, config: EvalConfig, progress: bool = True) -> pd.DataFrame:
    """Score one run in this process; returns its rows.

    Raises:
        UsageError: For a folder that is no run or has no model, and for faulty data. Every task that could be
            scored was, and is kept.
    """
    outcome = evaluate_runs([run_dir], config, num_workers=1, progress=progress)
    if outcome.failures:
        raise outcome.failures[0].error
    return outcome.rows[run_dir]


def evaluate_runs(
    run_dirs: Sequence[Path],
    config: EvalConfig,
    num_workers: int | None = None,
    progress: bool = True,
    trust_remote_code: bool = False,
) -> Outcome:
    """Score runs on every task asked for, leaving out those that are done.

    What fails, a run or one task of it, is told and does not stop the rest.

    Args:
        run_dirs: Runs' folders, with trained models.
        config: The suites, where their data is, and how they are scored.
        num_workers: Processes that measure at the same time; 1 measures in this one, None chooses.
        progress: Show a bar with the current scores, or lines where there is no terminal.
        trust_remote_code: Whether to run FFN variants that the runs bring; a run is refused otherwise.
    """
    outcome = Outcome()
    with ExitStack() as locks:
        runs: dict[Path, _OpenRun] = {}
        for run_dir in dict.fromkeys(run_dirs):
            try:
                with naming(run_dir):
                    runs[run_dir] = _open(run_dir, config, locks, trust_remote_code)
            except Exception as error:
                told = as_usage_error(error)
                if not isinstance(told, UsageError):
                    raise
                outcome.failures.append(Failure(run_dir, None, told))
        _measure_missing(runs, config, num_workers, progress, outcome, trust_remote_code)
        failed = {failure.run_dir for failure in outcome.failures}
        for run_dir, run in runs.items():
            if run.missing or not has_references(run_dir, config):
                with naming(run_dir):
                    note = write_references(run_dir, config)
                if note and progress and run_dir not in failed:
                    print(f"note: {note}", file=sys.stderr)
        outcome.rows.update({run_dir: run.store.rows for run_dir, run in runs.items()})
        names = _names(runs)
        outcome.asked.update(
            {run_dir: run.asked_rows.assign(run_id=names[run_dir]) for run_dir, run in runs.items()}
        )
    return outcome


def choose_workers(costs: Sequence[float], device: str | None) -> int:
    """Return how many processes to use: one a core on a CPU, up to four on a GPU, one for little work.

    Args:
        costs: The cost of every unit.
        device: As in the config; None is the GPU where there is one.
    """
    cores = num_cores()
    most = cores if check_device(device) == "cpu" else min(4, cores)
    return max(1, min(most, len(costs), int(sum(costs) / SECONDS_WORTH_A_WORKER)))


def _open(run_dir: Path, config: EvalConfig, locks: ExitStack, trust_remote_code: bool) -> _OpenRun:
    run = identify_run(run_dir)
    check_length(run_dir, config.finetune.max_length)
    weights = weights_hash(run_dir)
    locks.enter_context(sole_writer(run_dir, "evaluates"))
    store = ResultStore(run_dir, weights)
    asked = {work.key: work for work in work_units(run_dir, run, config)}
    missing = {key: work for key, work in asked.items() if not is_done(work, store)}
    if missing:
        admit_run(run_dir, trust_remote_code)
    asks = run.objective is not None and is_registered(run.variant)  # nobody ran what a scored run brings
    change = source_change(run_dir, run.variant) if asks else None
    if change and missing:
        raise UsageError(f"{run_dir} {change}")
    return _OpenRun(run, store, asked, missing, (*store.notes, *([change] if change else [])))


def _measure_missing(
    runs: dict[Path, _OpenRun],
    config: EvalConfig,
    num_workers: int | None,
    progress: bool,
    outcome: Outcome,
    trust_remote_code: bool,
) -> None:
    units = {Order(run_dir, key): work for run_dir, run in runs.items() for key, work in run.missing.items()}
    costs = [_cost(work) for work in units.values()]
    if units:
        check_device(config.device)  # told once, and not by every unit
    num_workers = choose_workers(costs, config.device) if num_workers is None else num_workers
    names = _names(runs)
    ids = [(names[order.run_dir], order.key) for order in units]
    with UnitProgress(dict(zip(ids, costs, strict=True)), num_workers, enabled=progress) as shown:
        for run_dir, run in runs.items():
            for note in run.notes:
                shown.say(f"{names[run_dir]}: {note}")
            if not run.missing:
                shown.say(f"{names[run_dir]}: everything asked for is scored already")

        def tell(order: Order, message: str) -> None:
            shown.detail(names[order.run_dir], order.key, message)

        if num_workers == 1:
            outcomes = measure_here(units, tell)
        else:
            outcomes = measure_in_workers(list(units), config, num_workers, tell, trust_remote_code)
        said: set[str] = set()
        for order, results in outcomes:
            run = runs[order.run_dir]
            if isinstance(results, Exception):
                outcome.failures.append(Failure(order.run_dir, order.key, results))
                if str(results) not in said:
                    shown.say(f"failed: {names[order.run_dir]} {order.key}: {_last_line(results)}")
                said.add(str(results))
                results = {}
            with naming(order.run_dir):
                scores = _record(run, order.key, results)
            for note in sorted(_cut_notes(run.missing[order.key], results) - said):
                shown.say(f"note: {note}")
                said.add(note)
            shown.finish(names[order.run_dir], order.key, scores)


def _cost(work: Work) -> float:
    try:
        return cost(work)
    except UsageError:
        return 0.0  # faulty data, which measuring will tell


def _names(runs: dict[Path, _OpenRun]) -> dict[Path, str]:
    """Name each run by its id, or by its folder where one run is given in several places."""
    ids = [run.identity.run_id for run in runs.values()]
    return {
        run_dir: run_id if ids.count(run_id) == 1 else str(run_dir)
        for run_dir, run_id in zip(runs, ids, strict=True)
    }


def _record(run: _OpenRun, key: str, results: Results) -> dict[str, dict[str, float]]:
    """Write what was measured; returns the metrics by benchmark and task."""
    work = run.missing[key]
    for task, result in results.items():
        benchmark = work.benchmark_of(task)
        rows = _rows(run.identity, benchmark, task, result)
        run.store.record(benchmark, task, work.protocols[task], rows, result.items)
    return {f"{work.benchmark_of(task)}/{task}": result.metrics for task, result in results.items()}


def _rows(run: RunIdentity, benchmark: str, task: str, result: TaskResult) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run_id": run.run_id,
            "family": run.family,
            "variant": run.variant,
            "seed": run.seed,
            "benchmark": benchmark,
            "task": task,
            "group": result.group,
            "metric": metric,
            "score": score,
            "n_items": _num_items(result.items),
            "primary": metric == result.primary,
        }
        for metric, score in result.metrics.items()
    )


def _cut_notes(work: Work, results: Results) -> set[str]:
    """What is said of inputs that the model does not read to their end."""
    return {
        describe_cut(f"{work.benchmark_of(task)}/{task}", share)
        for result in results.values()
        for task, share in cut_inputs(result.items).items()
    }


def _num_items(items: pd.DataFrame) -> int:
    """Count items once, however many seeds they were answered with."""
    return len(items) // (items["seed"].nunique() if "seed" in items.columns else 1)


def _last_line(error: Exception) -> str:
    """Return what went wrong in one line: of a traceback its last one."""
    return str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__


def failure_lines(failures: Iterable[Failure]) -> list[str]:
    """Tell failures, in the order of the first of each kind; those with the same error in one line."""
    groups: dict[str, list[Failure]] = defaultdict(list)
    for failure in failures:
        groups[_kind(failure)].append(failure)
    return [_line(group) for group in groups.values()]


def _kind(failure: Failure) -> str:
    """The error without the name of its own task, which is what missing data of 67 tasks differ in."""
    text = str(failure.error)
    task = (failure.key or "").split()[0:1]
    return text.replace(task[0].rpartition("/")[2], "...") if task else text


def _line(group: Sequence[Failure]) -> str:
    if len(group) == 1 or any(failure.key is None for failure in group):
        return str(group[0])
    keys = list(dict.fromkeys(failure.key for failure in group))
    runs = list(dict.fromkeys(failure.run_dir for failure in group))
    tasks = keys[0] if len(keys) == 1 else f"{len(keys)} tasks"
    if len(runs) == 1:
        return f"{runs[0]} {tasks}: {group[0].error}"
    each = "x" if len(group) == len(keys) * len(runs) else "in"
    tasks = tasks if each == "x" else f"{len(group)} tasks"
    return f"{tasks} {each} {len(runs)} runs: {group[0].error}"
