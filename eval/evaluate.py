"""Runs and suites: finds what is not scored yet, measures it, writes rows and items.

A run is scored by one process, this one or, where there are several runs, another of one thread: the matrices
of a model of 10M parameters are too small to share. Tasks are recorded every few seconds, each whole or not
at all, so that a kill at any moment loses the task that was under way and those of the seconds before.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from base.errors import UsageError, as_usage_error, first_line, naming
from base.lazy_modules import without_collecting
from base.printing import ProgressBar, Tell, duration
from base.system import num_cores
from eval.config import EvalConfig
from eval.identity import RunIdentity, admit_run, identify_run, model_folder, weights_hash
from eval.protocol import Protocol, TooLongError
from eval.work_units import Work, is_done, is_evaluated, work_units
from eval.zero_shot.pairs_and_choices import ChoiceTask
from eval.zero_shot.text_task import TaskResult
from pretrain.run.run_folder import sole_writer
from scores.items import cut_inputs, describe_cut
from scores.run_scores import decimals
from scores.store import Measured, ResultStore, write_baselines

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer

# What measures takes seconds to import; so it is imported where there is something to measure.
MEASURING = ("eval.classification.score_task", "eval.scoring.scorers", "ffn_variants.models.loading")

# Without a terminal, a unit that takes long says how it goes every so often.
LINE_EVERY_S = 60.0
RECORD_EVERY_S = 5.0
"""Recording takes a twentieth of a second, which is as long as many tasks take."""
OUT_OF_MEMORY = (
    "memory runs out on the device; lower --workers, --finetune.per-device-train-batch-size or "
    "--finetune.max-length, or score on a CPU with --device cpu"
)
KILLED = (
    "its process was killed, often for lack of memory; the same command goes on with what is missing, with "
    "--workers 1 in one process"
)
Results = dict[str, TaskResult]


@dataclass(frozen=True)
class Failure:
    """What could not be measured: a unit of work, or a whole run where ``key`` is None."""

    run_dir: Path
    key: str | None
    error: Exception

    def __str__(self) -> str:
        # What is wrong with a whole run names its folder itself.
        return str(self.error) if self.key is None else f"{self.run_dir} {self.key}: {self.error}"

    @property
    def text(self) -> str:
        """The error without the name of its own task, which is what missing data of 67 tasks differ in."""
        task = (self.key or "").split(" ")[0].rpartition("/")[2]
        return str(self.error).replace(task, "...") if task else str(self.error)


@dataclass(frozen=True)
class Outcome:
    """What came of runs.

    Attributes:
        rows: Of each run that could be opened all rows, those of earlier evaluations included.
        requested: Of these the rows of the tasks and heads of the config, in its order; run_id is the folder
            where several runs have the same.
        failures: What could not be measured.
    """

    rows: dict[Path, pd.DataFrame] = field(default_factory=dict)
    requested: dict[Path, pd.DataFrame] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


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

    If a run or one task of it fails, the error is printed and the others continue.

    Args:
        run_dirs: Runs' folders, with trained models.
        config: The suites, where their data is, and how they are scored.
        num_workers: Runs that are scored at the same time, each by a process of its own; 1 scores in this
            one, None chooses.
        progress: Show a bar with the current scores, or lines where there is no terminal.
        trust_remote_code: Whether to run FFN variants that the runs bring; a run is refused otherwise.
    """
    folders = list(dict.fromkeys(run_dirs))
    if num_workers != 1:
        unscored = sum(not is_evaluated(folder, config) for folder in folders)
        num_workers = min(num_workers or choose_workers(unscored, config.device), max(1, unscored))
    if num_workers == 1:
        outcomes = (_evaluate(folder, config, progress, trust_remote_code) for folder in folders)
    else:
        outcomes = _evaluate_in_processes(folders, num_workers, config, progress, trust_remote_code)
    return _joined(outcomes)


def _joined(outcomes: Iterable[Outcome]) -> Outcome:
    """Put outcomes of single runs together."""
    joined = Outcome()
    for outcome in outcomes:
        joined.rows.update(outcome.rows)
        joined.requested.update(outcome.requested)
        joined.failures.extend(outcome.failures)
    ids = {folder: table["run_id"].iloc[0] for folder, table in joined.requested.items() if len(table)}
    for folder, run_id in ids.items():
        if list(ids.values()).count(run_id) > 1:
            joined.requested[folder] = joined.requested[folder].assign(run_id=str(folder))
    return joined


def choose_workers(num_runs: int, device: str | None) -> int:
    """Return how many runs to score at the same time: one a core on a CPU, up to four on a GPU.

    Raises:
        UsageError: For a device that is not there, or cannot be used.
    """
    if num_runs == 0:
        return 1
    from ffn_variants.devices import check_device

    most = num_cores() if check_device(device) == "cpu" else min(4, num_cores())
    return min(num_runs, most)


def _evaluate_in_processes(folders: Sequence[Path], num_workers: int, *settings: object) -> Iterator[Outcome]:
    """Score each run in a process of its own, so many at a time; if one is killed, the others continue."""
    # A clean process that has imported everything is forked for each run: a copy of this one would inherit
    # locks that threads hold, and could not use CUDA.
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__, *MEASURING])

    def in_its_own(folder: Path) -> Outcome:
        with ProcessPoolExecutor(1, context) as process:
            try:
                return process.submit(_work, folder, *settings).result()
            except BrokenProcessPool:
                error = UsageError(f"{folder}: {KILLED}")
                return Outcome(failures=[Failure(folder, None, error)])

    with ThreadPoolExecutor(num_workers) as threads:  # each waits for one process
        yield from threads.map(in_its_own, folders)


def _work(run_dir: Path, *settings: object) -> Outcome:
    """Score one run, in a process that is there for it."""
    import torch

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    try:
        outcome = _evaluate(run_dir, *settings, draws_bar=False)  # type: ignore[bad-argument-type]
    except Exception as error:
        outcome = Outcome(failures=[Failure(run_dir, None, error)])
    for place, failure in enumerate(outcome.failures):
        if not isinstance(failure.error, UsageError):  # a defect, whose traceback is lost on the way
            error = RuntimeError("".join(traceback.format_exception(failure.error)))
            outcome.failures[place] = replace(failure, error=error)
    return outcome


def _evaluate(
    run_dir: Path, config: EvalConfig, progress: bool, trust_remote_code: bool, draws_bar: bool = True
) -> Outcome:
    """Score what is missing of one run, which nobody else evaluates meanwhile."""
    try:
        with naming(run_dir):
            run = identify_run(run_dir)
            with sole_writer(run_dir, "evaluates"):
                store = ResultStore(run_dir, weights_hash(run_dir))
                units = list(work_units(run_dir, run, config))
                missing = [work for work in units if not is_done(work, store)]
                if missing:
                    _admit(run_dir, run, config, trust_remote_code)
                    _check_lengths(run_dir, missing)
                shown = RunProgress(run.run_id, len(missing), progress, draws_bar)
                with closing(shown):
                    failures = _measure(run_dir, run, store, missing, shown)
                requested = _requested_rows(units, store)
                return Outcome({run_dir: store.rows}, {run_dir: requested}, failures)
    except Exception as error:
        reason = as_usage_error(error)
        if not isinstance(reason, UsageError):
            raise
        return Outcome(failures=[Failure(run_dir, None, reason)])


def _admit(run_dir: Path, run: RunIdentity, config: EvalConfig, trust_remote_code: bool) -> None:
    """Refuse a run that may not be scored, or whose FFN's code is not that of its training."""
    from ffn_variants.devices import check_device
    from pretrain.run.provenance import source_change

    check_device(config.device)
    admit_run(run_dir, trust_remote_code)
    change = source_change(run_dir, run.variant) if run.objective is not None else ""
    if change:
        raise UsageError(f"{run_dir} {change}")


def _check_lengths(run_dir: Path, missing: Sequence[Work]) -> None:
    """Refuse texts that a model cannot read to their end, before any other is scored.

    Raises:
        UsageError: Of all tasks in one line, with the longest text.
    """
    errors = list[TooLongError]()
    chosen = [(work, work.texts) for work in missing if isinstance(work.texts, ChoiceTask)]
    for work, task in chosen:
        try:
            _scorer_of(work).encode(task.all_options())
        except Exception as error:  # any other is told of its task, and stops no other
            errors += [error] if isinstance(error, TooLongError) else []
    if errors:
        raise UsageError(
            f"{run_dir}: {len(errors)} of {len(chosen)} tasks cannot be scored, and --pair-tasks would name "
            f"the others: {max(errors, key=lambda error: error.positions)}"
        )


def _measure(
    run_dir: Path, run: RunIdentity, store: ResultStore, missing: Sequence[Work], progress: RunProgress
) -> list[Failure]:
    """Measure units one after the other and record them; an error is recorded and the next one follows."""
    failures, printed = list[Failure](), set[str]()
    waiting, recorded_s = list[Measured](), time.perf_counter()
    is_told = not missing and not ProgressBar.is_quiet
    for note in (*store.notes, *["everything asked for is scored already"] * is_told):
        progress.say(f"{run.run_id}: {note}")
    for work in missing:
        progress.start(work.key)
        results: Results = {}
        try:
            results = measure(work, progress.tell)
        except Exception as error:
            from pretrain.training.device import is_out_of_memory

            reason = UsageError(OUT_OF_MEMORY) if is_out_of_memory(error) else as_usage_error(error)
            failures.append(Failure(run_dir, work.key, reason))
            if failures[-1].text not in printed and work is not missing[-1]:  # whose error comes next
                progress.say(f"failed: {run.run_id} {work.key}: {first_line(reason)}")
            printed.add(failures[-1].text)
        for task, result in results.items():
            if result.guess:
                write_baselines(run_dir, {work.benchmark: {task: result.guess}})
            rows = _rows(run, work.benchmark, task, result)
            waiting.append(Measured(work.benchmark, task, work.protocols[task], rows, result.items))
        if waiting and (work is missing[-1] or time.perf_counter() - recorded_s > RECORD_EVERY_S):
            store.record(*waiting)
            waiting, recorded_s = [], time.perf_counter()
        cut = {task: share for each in results.values() for task, share in cut_inputs(each.items).items()}
        notes = {describe_cut(f"{work.benchmark}/{task}", share) for task, share in cut.items()}
        for note in sorted(notes - printed):
            progress.say(f"note: {note}")
            printed.add(note)
        progress.finish({f"{work.benchmark}/{task}": result.metrics for task, result in results.items()})
    return failures


def measure(work: Work, tell: Tell) -> Results:
    """Measure a unit, with the run's language model or by fine-tuning it.

    Args:
        work: The unit.
        tell: Told how it goes.

    Returns:
        The results of all its tasks, by name.

    Raises:
        UsageError: For faulty data, or a model that does not fit them.
    """
    with without_collecting():
        from eval.classification.score_task import evaluate_tasks, majority_baselines

    if work.texts is not None:
        return {work.texts.name: work.texts.measure(_scorer_of(work), tell)}
    config = work.config
    results = evaluate_tasks(model_folder(work.run_dir), list(work.classified), config, work.choice, tell)
    return {
        task.name: TaskResult(
            task.group,
            *results[task.name],
            primary=task.headline(config.finetune),
            guess=majority_baselines(task, config),
        )
        for task in work.classified
    }


def _scorer_of(work: Work) -> TextScorer:
    assert work.scored_by is not None
    folder, weights = model_folder(work.run_dir), weights_hash(work.run_dir)
    return _load_scorer(folder, weights, work.scored_by, work.config.device, work.config.batch_tokens)


# One run's tasks follow one another, so its model is kept for the next.
@lru_cache(maxsize=1)
def _load_scorer(
    folder: Path, weights: str, protocol: Protocol, device: str | None, batch_tokens: int | None
) -> TextScorer:
    from eval.scoring.scorers import SCORERS
    from ffn_variants.models.loading import load_language_model

    model, tokenizer = load_language_model(folder, protocol.objective, device)
    return SCORERS[protocol.objective](model, tokenizer, protocol, batch_tokens=batch_tokens)


def _requested_rows(units: Iterable[Work], store: ResultStore) -> pd.DataFrame:
    """Return the rows of units that are scored, in the order of the units."""
    done = [work for work in units if is_done(work, store)]
    keys = [(work.benchmark, task, work.head) for work in done for task in work.protocols]
    # Joined in the order of the units: of a task and a head its metrics, as they stand.
    order = pd.DataFrame(keys, columns=["benchmark", "task", "head"])
    return order.merge(store.rows)[list(store.rows.columns)]


def _rows(run: RunIdentity, benchmark: str, task: str, result: TaskResult) -> pd.DataFrame:
    items = result.items
    # Each item counts once, however many seeds it was answered with.
    num_items = len(items) // (items["seed"].nunique() if "seed" in items.columns else 1)
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
            "n_items": num_items,
            "primary": metric == result.primary,
        }
        for metric, score in result.metrics.items()
    )


class RunProgress:
    """What a user sees while a run is scored: a bar in a terminal, a line for each task anywhere else.

    Args:
        run_id: In front of every line.
        total: Units to be measured.
        shown: Say nothing at all where false.
        draws_bar: Whether there may be a bar: not where other processes write to the same terminal.
    """

    def __init__(self, run_id: str, total: int, shown: bool, draws_bar: bool) -> None:
        self._run, self._total, self._done = run_id, total, 0
        self._bar = ProgressBar(total if draws_bar else 0, "task", name=run_id, shown=shown, to_stderr=True)
        self.say, self.close = self._bar.say, self._bar.close
        self._unit, self._start_s, self._line_s = "", 0.0, 0.0

    def start(self, unit: str) -> None:
        """Start the clock of a unit."""
        self._unit, self._start_s = unit, time.perf_counter()
        self._line_s = self._start_s
        self.tell("")

    def tell(self, message: str) -> None:
        """Say how the unit goes."""
        if self._bar.is_drawn:
            self._bar.show_beside(f"{self._unit} {message}".rstrip())
        elif message and time.perf_counter() - self._line_s > LINE_EVERY_S:
            self._line_s = time.perf_counter()
            self.say(f"[{self._done}/{self._total}] {self._run} {self._unit}: {message}")

    def finish(self, scores: Mapping[str, Mapping[str, float]]) -> None:
        """Say what came out of the unit: the metrics of its tasks; none where it failed."""
        self._done += 1
        took = duration(time.perf_counter() - self._start_s)
        for task, metrics in scores.items():
            values = ", ".join(f"{name} {score:.{decimals(name)}f}" for name, score in metrics.items())
            line = f"[{self._done}/{self._total}] {self._run} {task}: {values} ({took})"
            self._bar.say(line, is_result=True)
        self._bar.advance()


def failure_lines(failures: Iterable[Failure]) -> list[str]:
    """Describe failures in their order; those with the same error in one line, with the first one's name."""
    groups: dict[str, list[Failure]] = defaultdict(list)
    for failure in failures:
        groups[failure.text].append(failure)
    more = (f" (and so of {len(group) - 1} more)" * (len(group) > 1) for group in groups.values())
    return [f"{group[0]}{others}" for group, others in zip(groups.values(), more, strict=True)]
