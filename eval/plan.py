"""What is to be measured on a run: units of work, each with the protocol that its scores depend on.

A unit is known by its key. So another process is told a run, a config and a key, and makes the unit itself:
nothing but data has to cross between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
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
from eval.loading import RunIdentity, load_language_model, model_folder, weights_hash

if TYPE_CHECKING:
    from eval.lm_models import TextScorer

# Raise these when a change of the code changes scores, so that they are measured again.
PAIR_PROTOCOL_VERSION = 1
GLUE_PROTOCOL_VERSION = 1

# A guess, by which units are put in order and the time left is estimated until something was measured.
PAIRS_PER_S = 100

Report = Callable[[str], None]


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
        cost: Returns roughly how many seconds one core takes for it, with a model of 10M parameters.
    """

    benchmark: str
    protocols: dict[str, dict]
    measure: Callable[[Report], dict[str, TaskResult]]
    cost: Callable[[], float]

    @property
    def key(self) -> str:
        """Its name, unique within a run and a config."""
        return f"{self.benchmark}/{'+'.join(self.protocols)}"


def work_units(run_dir: Path, run: RunIdentity, config: EvalConfig) -> Iterator[Work]:
    """List everything asked for, done or not, pairs first. No model is loaded before something is measured.

    Args:
        run_dir: The run's folder.
        run: Who it is.
        config: The suites, where their data is, and how they are scored.

    Raises:
        UsageError: For absent data, or a task that does not exist.
    """
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
        yield Work(
            benchmark=pair_task.suite,
            protocols={pair_task.name: protocol},
            measure=partial(_measure_pairs, pair_task, run_dir, run.objective, config),
            cost=partial(_pairs_cost, pair_task, config),
        )
    for tasks in _classification_tasks(config):
        yield Work(
            benchmark=tasks[0].benchmark,
            protocols={task.name: _glue_protocol(task, config) for task in tasks},
            measure=partial(_measure_glue, tasks, run_dir, config),
            cost=partial(_glue_cost, tasks[0], config),
        )


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


def _pair_tasks(config: EvalConfig) -> list[PairTask]:
    suites = [suite for suite in dict.fromkeys(config.suites) if suite in PAIR_SUITES]
    tasks = [task for suite in suites for task in find_pair_tasks(suite, config)]
    return select_pair_tasks(tasks, config.pair_tasks)


def _measure_pairs(
    task: PairTask, run_dir: Path, objective: str, config: EvalConfig, report: Report
) -> dict[str, TaskResult]:
    pairs = read_pairs(task, config.max_pairs)
    report(f"{len(pairs)} pairs")
    scorer = _load_scorer(
        model_folder(run_dir), weights_hash(run_dir), objective, config.device, config.batch_tokens
    )
    items = score_pairs(task, pairs, scorer)
    metrics = {"accuracy": 100 * float(items["correct"].mean())}
    return {task.name: TaskResult(task_group(items), metrics, items)}


# One run's tasks follow one another, so its model is kept for the next.
@lru_cache(maxsize=1)
def _load_scorer(
    folder: Path, weights: str, objective: str, device: str | None, batch_tokens: int | None
) -> TextScorer:
    from eval.lm_models import CausalScorer, MaskedScorer

    model, tokenizer = load_language_model(folder, objective, device)
    scorer = CausalScorer if objective == "causal" else MaskedScorer
    return scorer(model, tokenizer, batch_tokens=batch_tokens)


def _pairs_cost(task: PairTask, config: EvalConfig) -> float:
    return len(read_pairs(task, config.max_pairs)) / PAIRS_PER_S


def _classification_tasks(config: EvalConfig) -> list[list[ClassificationTask]]:
    """Group the tasks asked for by the training set that they share."""
    tasks: list[ClassificationTask] = []
    if "glue" in config.suites:
        tasks += [GLUE_TASKS[name] for name in dict.fromkeys(config.glue.tasks)]
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
    settings = config.glue.model_dump(mode="json", exclude={"tasks"})
    return {"version": GLUE_PROTOCOL_VERSION, "data": source, **settings}


def _measure_glue(
    tasks: list[ClassificationTask], run_dir: Path, config: EvalConfig, report: Report
) -> dict[str, TaskResult]:
    from eval.glue import evaluate_tasks

    results = evaluate_tasks(model_folder(run_dir), tasks, config, report)
    return {name: TaskResult("GLUE", metrics, items) for name, (metrics, items) in results.items()}


def _glue_cost(task: ClassificationTask, config: EvalConfig) -> float:
    from eval.glue_tasks import read_examples

    examples = len(read_examples(task, "train", config))
    return min(examples, config.glue.max_train_examples or examples) * config.glue.num_train_epochs / 100
