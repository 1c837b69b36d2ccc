"""What is to be measured on a run: units of work, each with the protocol that its scores depend on.

A unit is known by its key. So another process is told a run, a config and a key, and makes the unit itself:
nothing but data has to cross between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from base.errors import UsageError
from base.progress import Tell
from eval.classification.config import FineTuneConfig
from eval.classification.heads.choice import HeadChoice, check_head
from eval.classification.heads.registry import DEFAULT_HEAD
from eval.classification.tasks.chosen import classification_tasks
from eval.classification.tasks.examples import protocol_source
from eval.classification.tasks.task import ClassificationTask
from eval.config import EvalConfig
from eval.models.identity import RunIdentity, model_folder, weights_hash
from eval.results.rows import NO_HEAD
from eval.scoring.protocol import Protocol
from eval.suites import SUITES
from eval.zero_shot.suites import find_suite_tasks, find_text_tasks, missing_tasks
from eval.zero_shot.task import TaskResult, TextTask

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer
    from eval.zero_shot.lm_eval_tasks import HarnessTask

# Raise these when a change of the code changes scores, so that they are measured again.
TEXT_PROTOCOL_VERSION = 2
CLASSIFICATION_PROTOCOL_VERSION = 3

HARNESS_FINDER = "eval.zero_shot.lm_eval_tasks:find_harness_tasks"
"""What finds the tasks of lm-eval, by name."""

# Guesses, by which units are put in order and the time left is estimated until something was measured.
ITEMS_PER_S = 100
FINE_TUNING_TOKENS_PER_S = 5000


@dataclass(frozen=True)
class Work:
    """Tasks that are measured together, and are then done together.

    Attributes:
        benchmark: The suite, as in rows.
        protocols: For each task, by name, everything that its scores depend on besides the weights.
        measure: Given a function to tell how it goes, returns the results of all its tasks.
        cost: Returns roughly how many seconds one core takes for it, with a model of 10M parameters.
        head: The classification head, as in rows; none where texts are scored.
        metrics: For each task, by name, what its rows must have; empty where the protocol says it.
    """

    benchmark: str
    protocols: dict[str, dict]
    measure: Callable[[Tell], dict[str, TaskResult]]
    cost: Callable[[], float]
    head: str = NO_HEAD
    metrics: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its name, unique within a run and a config."""
        name = f"{self.benchmark}/{'+'.join(self.protocols)}"
        return name if self.head in (NO_HEAD, DEFAULT_HEAD) else f"{name} ({self.head})"


def work_units(run_dir: Path, run: RunIdentity, config: EvalConfig) -> Iterator[Work]:
    """List everything asked for, done or not, pairs first. No model is loaded before something is measured.

    Args:
        run_dir: The run's folder.
        run: Who it is.
        config: The suites, where their data is, and how they are scored.

    Raises:
        UsageError: For absent data, or a task that does not exist.
    """
    config = settled(config, run)
    yield from _text_units(run_dir, run, config)
    for tasks in classification_tasks(config):
        for head in task_heads(tasks, config):
            yield Work(
                benchmark=tasks[0].benchmark,
                protocols={task.name: classification_protocol(task, config, head) for task in tasks},
                measure=partial(_measure_classification, tasks, run_dir, config, head),
                cost=partial(_classification_cost, tasks[0], config, head),
                head=str(head),
                metrics={task.name: task.metrics for task in tasks},
            )


def settled(config: EvalConfig, run: RunIdentity) -> EvalConfig:
    """Return the config with the seeds of fine-tuning that hold for a run."""
    finetune = config.finetune.of_run(run.seed)
    if run.finetune_seed is not None:
        finetune = finetune.model_copy(update={"seeds": (run.finetune_seed,)})
    return config.model_copy(update={"finetune": finetune})


def _text_units(run_dir: Path, run: RunIdentity, config: EvalConfig) -> Iterator[Work]:
    tasks = _text_tasks(config, run_dir)
    if not tasks:
        return
    if run.objective is None:
        raise UsageError(
            f"{run.run_id} is no run of this project, and only those score texts ({tasks[0].suite}); choose "
            "--suites glue or --classify"
        )
    protocol = config.protocol.resolve(run.objective)
    scored_by = protocol.record()
    for task in tasks:
        yield Work(
            benchmark=task.suite,
            protocols={task.name: _text_protocol(task, scored_by)},
            measure=partial(_measure_texts, task, run_dir, protocol, config),
            cost=partial(_text_cost, task),
        )


def check_sources(config: EvalConfig) -> list[str]:
    """Find every task's data, before any model is loaded.

    Returns:
        What a reader of the scores should know, such as paradigms that a folder lacks.

    Raises:
        UsageError: For an absent folder or file, or a task that does not exist.
    """
    notes = []
    scored = [suite for suite in dict.fromkeys(config.suites) if SUITES[suite].kind != "classification"]
    for suite in scored if config.pair_tasks is None else ():
        if absent := missing_tasks(suite, find_suite_tasks(suite, config)):
            notes.append(f"{suite}: its mean leaves out {len(absent)} absent tasks: {', '.join(absent)}")
    _text_tasks(config, None)
    for tasks in classification_tasks(config):
        task_heads(tasks, config)
    return notes


def _text_tasks(config: EvalConfig, run_dir: Path | None) -> list[TextTask | HarnessTask]:
    # lm-eval is imported only where one of its tasks is asked for.
    of_lm_eval = resolve_name(HARNESS_FINDER)(config) if config.tasks else []
    return [*find_text_tasks(config, run_dir), *of_lm_eval]


def _text_protocol(task: TextTask | HarnessTask, scored_by: dict) -> dict:
    return {
        "version": TEXT_PROTOCOL_VERSION,
        **scored_by,
        "data": task.source,
        "max_pairs": task.max_items,
    }


def _measure_texts(
    task: TextTask | HarnessTask, run_dir: Path, protocol: Protocol, config: EvalConfig, tell: Tell
) -> dict[str, TaskResult]:
    scorer = _load_scorer(
        model_folder(run_dir), weights_hash(run_dir), protocol, config.device, config.batch_tokens
    )
    return {task.name: task.measure(scorer, tell)}


# One run's tasks follow one another, so its model is kept for the next.
@lru_cache(maxsize=1)
def _load_scorer(
    folder: Path, weights: str, protocol: Protocol, device: str | None, batch_tokens: int | None
) -> TextScorer:
    from eval.models.loading import load_language_model
    from eval.scoring.scorers import SCORERS

    model, tokenizer = load_language_model(folder, protocol.objective, device)
    return SCORERS[protocol.objective](model, tokenizer, protocol, batch_tokens=batch_tokens)


def _text_cost(task: TextTask | HarnessTask) -> float:
    return task.num_items() / ITEMS_PER_S


def task_heads(tasks: list[ClassificationTask], config: EvalConfig) -> list[HeadChoice]:
    """Return the heads asked for, named as they are kept.

    Raises:
        UsageError: For an option that a head does not have, or a head that does not fit the tasks.
    """
    is_multi_label = any(task.multi_label for task in tasks)
    try:
        return list(dict.fromkeys(check_head(head, is_multi_label) for head in config.finetune.heads))
    except UsageError as error:
        raise UsageError(f"{tasks[0].name}: {error}") from None


def classification_protocol(task: ClassificationTask, config: EvalConfig, head: HeadChoice) -> dict:
    """Return everything that the scores of a task under a head depend on besides the weights."""
    return {
        "version": CLASSIFICATION_PROTOCOL_VERSION,
        "data": protocol_source(task, config),
        **_fine_tuning(task, config.finetune, head),
    }


@lru_cache(maxsize=256)
def _fine_tuning(task: ClassificationTask, config: FineTuneConfig, head: HeadChoice) -> dict:
    return task.fine_tuning(config, head).model_dump(mode="json")


def _measure_classification(
    tasks: list[ClassificationTask], run_dir: Path, config: EvalConfig, head: HeadChoice, tell: Tell
) -> dict[str, TaskResult]:
    from eval.classification.evaluate import evaluate_tasks

    results = evaluate_tasks(model_folder(run_dir), tasks, config, head, tell)
    return {
        task.name: TaskResult(task.group, *results[task.name], primary=task.headline(config.finetune))
        for task in tasks
    }


def _classification_cost(task: ClassificationTask, config: EvalConfig, head: HeadChoice) -> float:
    from eval.classification.cost import estimated_cost

    return estimated_cost(task, config, head) / FINE_TUNING_TOKENS_PER_S
