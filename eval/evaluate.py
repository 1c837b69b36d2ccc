"""One run, all suites: finds what is not scored yet, scores it, writes rows and items after every task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from eval.blimp import (
    PairTask,
    find_pair_tasks,
    missing_tasks,
    read_pairs,
    score_pairs,
    select_pair_tasks,
    task_group,
)
from eval.config import PAIR_SUITES, EvalConfig
from eval.files import fingerprint
from eval.glue_tasks import GLUE_TASKS, ClassificationTask, embedded_tasks, find_glue_file
from eval.loading import RunIdentity, identify_run, load_language_model, model_folder, weights_hash
from eval.progress import Progress
from eval.store import ResultStore, sole_evaluator
from ffn_variants.errors import UsageError

if TYPE_CHECKING:
    from eval.lm_models import TextScorer

# Raise these when a change of the code changes scores, so that they are measured again.
PAIR_PROTOCOL_VERSION = 1
GLUE_PROTOCOL_VERSION = 1


@dataclass(frozen=True)
class TaskResult:
    """What was measured on one task: metrics in percent, and one row an item."""

    group: str
    metrics: dict[str, float]
    items: pd.DataFrame


@dataclass(frozen=True)
class Work:
    """Tasks that are measured together, and are then done together.

    Attributes:
        benchmark: The suite, as in rows.
        protocols: For each task, by name, everything that its scores depend on besides the weights.
        measure: Given a function to tell how it goes, returns the results of all its tasks.
    """

    benchmark: str
    protocols: dict[str, dict]
    measure: Callable[[Callable[[str], None]], dict[str, TaskResult]]


def evaluate_run(run_dir: Path, config: EvalConfig, progress: bool = True) -> pd.DataFrame:
    """Score a run on every task asked for, leaving out those that are done.

    Args:
        run_dir: A run's folder, with a trained model.
        config: The suites, where their data is, and how they are scored.
        progress: Show a bar with the current score, or lines where there is no terminal.

    Returns:
        All rows of the run, those of earlier evaluations included.

    Raises:
        UsageError: For a folder that is no run or has no model, and for faulty data; what was scored before
            is kept.
    """
    run = identify_run(run_dir)
    with sole_evaluator(run_dir):
        store = ResultStore(run_dir, weights_hash(run_dir))
        missing = [work for work in _plan(run_dir, run, config) if not _is_done(store, work)]
        with Progress(run.run_id, len(missing), enabled=progress) as shown:
            if missing and store.is_stale:
                shown.say("the weights have changed since the last evaluation: its results are dropped")
            for work in missing:
                shown.start(f"{work.benchmark}/{'+'.join(work.protocols)}")
                for task, result in work.measure(shown.detail).items():
                    rows = _rows(run, work.benchmark, task, result)
                    store.record(work.benchmark, task, work.protocols[task], rows, result.items)
                    shown.finish(f"{work.benchmark}/{task}", result.metrics)
                shown.end()
        return store.rows()


def is_evaluated(run_dir: Path, config: EvalConfig) -> bool:
    """Whether every task asked for is scored, under this protocol and with the run's present weights."""
    try:
        run = identify_run(run_dir)
        weights = weights_hash(run_dir)
    except UsageError:
        return False
    store = ResultStore(run_dir, weights)
    return all(_is_done(store, work) for work in _plan(run_dir, run, config))


def check_sources(config: EvalConfig) -> list[str]:
    """Find every task's data, before any model is loaded.

    Returns:
        What a reader of the scores should know, such as paradigms that a folder lacks.

    Raises:
        UsageError: For an absent folder or file, or a task that does not exist.
    """
    notes = []
    for suite in dict.fromkeys(config.suites):
        if suite in PAIR_SUITES and config.pair_tasks is None:
            absent = missing_tasks(suite, find_pair_tasks(suite, config))
            if absent:
                notes.append(f"{suite}: its mean leaves out {len(absent)} absent tasks: {', '.join(absent)}")
    _pair_tasks(config)
    _classification_tasks(config)
    return notes


def _is_done(store: ResultStore, work: Work) -> bool:
    return all(store.is_done(work.benchmark, task, protocol) for task, protocol in work.protocols.items())


def _plan(run_dir: Path, run: RunIdentity, config: EvalConfig) -> Iterator[Work]:
    """List everything asked for, done or not, pairs first."""
    scorer = _LazyScorer(run_dir, run.objective, config)
    for pair_task in _pair_tasks(config):
        protocol = {
            "version": PAIR_PROTOCOL_VERSION,
            "score": "log-likelihood" if run.objective == "causal" else "pseudo-log-likelihood",
            "text": "<s> sentence" if run.objective == "causal" else "<s> sentence </s>",
            "reduction": "sum",
            "softmax": "fp32",
            "tie": 0.5,
            "data": pair_task.source,
            "max_pairs": config.max_pairs,
        }
        yield Work(pair_task.suite, {pair_task.name: protocol}, _pair_measurement(pair_task, scorer, config))
    for tasks in _classification_tasks(config):
        protocols = {task.name: _glue_protocol(task, config) for task in tasks}
        yield Work(tasks[0].benchmark, protocols, _glue_measurement(tasks, run_dir, config))


def _pair_tasks(config: EvalConfig) -> list[PairTask]:
    suites = [suite for suite in dict.fromkeys(config.suites) if suite in PAIR_SUITES]
    tasks = [task for suite in suites for task in find_pair_tasks(suite, config)]
    return select_pair_tasks(tasks, config.pair_tasks)


def _classification_tasks(config: EvalConfig) -> list[list[ClassificationTask]]:
    """Group the tasks asked for by the training set that they share."""
    tasks: list[ClassificationTask] = []
    if "glue" in config.suites:
        tasks += [GLUE_TASKS[name] for name in config.glue.task_names]
    if "embedded-glue" in config.suites:
        tasks += embedded_tasks(config).values()
    groups: dict[tuple[str, str], list[ClassificationTask]] = {}
    for task in tasks:
        if task.hub is not None and config.glue_dir is not None:
            find_glue_file(task, "train", config.glue_dir)
            find_glue_file(task, "validation", config.glue_dir)
        groups.setdefault((task.benchmark, task.train), []).append(task)
    return list(groups.values())


def _glue_protocol(task: ClassificationTask, config: EvalConfig) -> dict:
    if task.hub is None:
        source = f"embedded:{config.embedded_seed}"
    elif config.glue_dir is None:
        source = f"hub:{task.hub[0]}"
    else:
        splits = ("train", "validation")
        source = fingerprint(find_glue_file(task, split, config.glue_dir) for split in splits)
    settings = config.glue.resolve(task.name).model_dump(mode="json")
    return {"version": GLUE_PROTOCOL_VERSION, "data": source, **settings}


def _pair_measurement(
    task: PairTask, scorer: _LazyScorer, config: EvalConfig
) -> Callable[[Callable[[str], None]], dict[str, TaskResult]]:
    def measure(detail: Callable[[str], None]) -> dict[str, TaskResult]:
        pairs = read_pairs(task, config.max_pairs)
        detail(f"{len(pairs)} pairs")
        items = score_pairs(task, pairs, scorer.get())
        metrics = {"accuracy": 100 * float(items["correct"].mean())}
        return {task.name: TaskResult(task_group(items), metrics, items)}

    return measure


def _glue_measurement(
    tasks: list[ClassificationTask], run_dir: Path, config: EvalConfig
) -> Callable[[Callable[[str], None]], dict[str, TaskResult]]:
    def measure(detail: Callable[[str], None]) -> dict[str, TaskResult]:
        from eval.glue import evaluate_tasks

        results = evaluate_tasks(model_folder(run_dir), tasks, config, detail)
        return {name: TaskResult("GLUE", metrics, items) for name, (metrics, items) in results.items()}

    return measure


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
            "n_items": len(result.items),
        }
        for metric, score in result.metrics.items()
    )


class _LazyScorer:
    """Loads a run's language model when the first pairs need it, and once."""

    def __init__(self, run_dir: Path, objective: str, config: EvalConfig) -> None:
        self._run_dir, self._objective, self._config = run_dir, objective, config
        self._scorer: TextScorer | None = None

    def get(self) -> TextScorer:
        if self._scorer is None:
            from eval.lm_models import CausalScorer, MaskedScorer

            scorer = CausalScorer if self._objective == "causal" else MaskedScorer
            folder = model_folder(self._run_dir)
            model, tokenizer = load_language_model(folder, self._objective, self._config.device)
            self._scorer = scorer(model, tokenizer, batch_tokens=self._config.batch_tokens)
        return self._scorer
