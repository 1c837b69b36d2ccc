"""What is to be measured on a run: units of work, each with the protocol that its scores depend on.

A unit is data, which costs little to list; a model is loaded when it is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from base.errors import UsageError, prefixed
from base.run.folder_names import RunFolder
from eval.classification.classification_task import ClassificationTask
from eval.classification.examples import SPLITS, data_source, read_examples, read_task_rows
from eval.classification.find_tasks import classification_tasks
from eval.config import EvalConfig
from eval.finetuning import FinetuneConfig
from eval.identity import RunIdentity, identify_run, weights_hash
from eval.protocol import Protocol
from eval.zero_shot.text_task import TextTask, find_suite_tasks, find_text_tasks, missing_tasks
from scores.head_descriptions import DEFAULT_HEAD, HeadChoice, check_head
from scores.rows import NO_HEAD
from scores.store import Scores, read_scores
from scores.suites import HARNESS_FINDER, SUITES

if TYPE_CHECKING:
    from eval.zero_shot.lm_eval_tasks import HarnessTask

# Raise these when a change of the code changes scores, so that they are measured again.
TEXT_PROTOCOL_VERSION = 2
CLASSIFICATION_PROTOCOL_VERSION = 3


@dataclass(frozen=True)
class Work:
    """Tasks that are measured together, and are then done together.

    Attributes:
        benchmark: The suite, as in rows.
        protocols: For each task, by name, everything that its scores depend on besides the weights.
        run_dir: The run's folder.
        config: What is evaluated, with the run's seeds of fine-tuning.
        texts: The one task where texts are scored, else None.
        scored_by: How its texts are scored, else None.
        classified: The tasks of one fine-tuning; none where texts are scored.
        choice: Their head, else None.
    """

    benchmark: str
    protocols: dict[str, dict]
    run_dir: Path
    config: EvalConfig
    texts: TextTask | HarnessTask | None = None
    scored_by: Protocol | None = None
    classified: tuple[ClassificationTask, ...] = ()
    choice: HeadChoice | None = None

    @property
    def head(self) -> str:
        """The classification head, as in rows."""
        return NO_HEAD if self.choice is None else str(self.choice)

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
                run_dir=run_dir,
                config=config,
                classified=tuple(tasks),
                choice=head,
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
            f"{run.variant}: a model alone is no run of this project, and only those score texts "
            f"({tasks[0].suite}); give the run's folder, or choose --suites glue or --classify"
        )
    protocol = config.protocol.resolve(run.objective)
    record = protocol.record()
    for task in tasks:
        source = {"data": task.source, "max_pairs": task.max_items}
        yield Work(
            benchmark=task.suite,
            protocols={task.name: {"version": TEXT_PROTOCOL_VERSION, **record, **source}},
            run_dir=run_dir,
            config=config,
            texts=task,
            scored_by=protocol,
        )


def check_sources(config: EvalConfig) -> list[str]:
    """Find every task's data, before any model is loaded; the user's own files are read.

    Returns:
        What a reader of the scores should know, such as paradigms that a folder lacks.

    Raises:
        UsageError: For an absent folder or file, a row that cannot be used, or a task that does not exist.
    """
    notes = []
    scored = [suite for suite in dict.fromkeys(config.suites) if SUITES[suite].kind != "classification"]
    for suite in scored if config.pair_tasks is None else ():
        if absent := missing_tasks(suite, find_suite_tasks(suite, config)):
            notes.append(f"{suite}: its mean leaves out {len(absent)} absent tasks: {', '.join(absent)}")
    _text_tasks(config, None)
    for tasks in classification_tasks(config):
        task_heads(tasks, config)
        for task, split in product(tasks, SPLITS):
            if task.definition.files is not None:
                read_examples(task, split, config)
    return notes


def check_later_sources(config: EvalConfig) -> list[str]:
    """Find every task's data as ``check_sources`` does, for runs that are trained before they are scored.

    Returns:
        As well whose data cannot be had from the hub now, by the first task of each; it is then in the cache.
    """
    notes, first = check_sources(config), dict[str, Callable[[], object]]()
    for task in find_text_tasks(config):
        if task.source.startswith("hub:"):
            first.setdefault(task.suite, task.load_rows)
    for task, *_ in classification_tasks(config):
        if data_source(task, config, *SPLITS).startswith("hub:"):
            first.setdefault(task.benchmark, partial(read_task_rows, task, SPLITS[-1], config))
    for suite, read in first.items():
        try:
            read()
        except UsageError as error:
            notes.append(f"runs are trained, and {suite} could not be scored as things are: {error}")
    return notes


def _text_tasks(config: EvalConfig, run_dir: Path | None) -> list[TextTask | HarnessTask]:
    harness_tasks = resolve_name(HARNESS_FINDER)(config) if config.tasks else []
    return [*find_text_tasks(config, run_dir), *harness_tasks]


def task_heads(tasks: list[ClassificationTask], config: EvalConfig) -> list[HeadChoice]:
    """Return the heads asked for, named as they are kept.

    Raises:
        UsageError: For an option that a head does not have, or a head that does not fit the tasks.
    """
    is_multi_label = any(task.multi_label for task in tasks)
    with prefixed(f"{tasks[0].name}: "):
        return list(dict.fromkeys(check_head(head, is_multi_label) for head in config.finetune.heads))


def classification_protocol(task: ClassificationTask, config: EvalConfig, head: HeadChoice) -> dict:
    """Return everything that the scores of a task under a head depend on besides the weights."""
    # Once the nearest width was taken, which may have fewer parameters.
    is_matched = dict(head.options).get("match", "none") != "none"
    # Once the head space had the intra-space loss at 0.001 where no weight was named.
    is_cross_entropy_alone = head.name == "space" and "intra_weight" not in dict(head.options)
    return {
        "version": CLASSIFICATION_PROTOCOL_VERSION,
        "data": data_source(task, config, *SPLITS),
        **_finetuning(task, config.finetune, head),
        **({"matched_width": "at least as many parameters"} if is_matched else {}),
        **({"intra_weight": 0.0} if is_cross_entropy_alone else {}),
    }


@lru_cache(maxsize=256)
def _finetuning(task: ClassificationTask, config: FinetuneConfig, head: HeadChoice) -> dict:
    return task.finetuning(config, head).record()


def is_done(work: Work, scores: Scores) -> bool:
    """Whether all tasks of a unit are scored under its protocol, in all of its metrics."""
    metrics = {task.name: task.metrics for task in work.classified}
    return all(
        scores.is_done(work.benchmark, task, protocol, metrics.get(task, ()))
        for task, protocol in work.protocols.items()
    )


def is_evaluated(run_dir: Path, config: EvalConfig) -> bool:
    """Whether every task asked for is scored, under this protocol and with the run's present weights.

    Whatever is wrong with a run is told by whoever evaluates it: here it is a run that is not evaluated, so
    that one broken run stops no other.
    """
    try:
        run, weights = identify_run(run_dir), weights_hash(run_dir)
        units = list(work_units(run_dir, run, config))
        if not units:  # as in a study of held-out losses alone
            return True
        scores = read_scores(RunFolder(run_dir))
        if scores.ledger is None or scores.problem or scores.ledger.weights != weights:
            return False
        return all(is_done(work, scores) for work in units)
    except Exception:
        return False
