"""The classification tasks that are asked for.

A task is a YAML file: one in ``tasks/``, or a user's own. The eleven of GLUE and their inputs are those of
the BabyLM 2023 evaluation (https://github.com/babylm/evaluation-pipeline-2023, finetune_classification.py).
"""

from __future__ import annotations

from pathlib import Path

from base.errors import UsageError
from eval.classification import examples
from eval.classification.classification_task import EMBEDDED_GLUE, ClassificationTask, find_labels
from eval.classification.schema import Label, TaskFile, find_task_file, shipped_task
from eval.config import EvalConfig
from eval.finetuning import GLUE_TASK_NAMES, unfit_metric
from scores.suites import SUITES

# Their labels mean the same.
_EMBEDDED_LIKE = {"acceptability": "cola", "entailment": "rte"}


_labels_in_data: dict[tuple[str, ...], tuple[Label, ...]] = {}


GLUE_TASKS = {
    name: ClassificationTask(shipped_task(name), shipped_task(name).labels or ()) for name in GLUE_TASK_NAMES
}


def find_glue_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[ClassificationTask]:
    """List the tasks of GLUE that are asked for."""
    return [GLUE_TASKS[name] for name in config.finetune.task_names]


def find_embedded_tasks(
    suite: str, config: EvalConfig, run_dir: Path | None = None
) -> list[ClassificationTask]:
    """List the small tasks that the embedded grammar writes."""
    return list(embedded_tasks(config).values())


def embedded_tasks(config: EvalConfig) -> dict[str, ClassificationTask]:
    """Return the small tasks that the embedded grammar writes, by name."""
    tasks = {}
    for name, splits in examples.embedded_examples(config.embedded_seed).items():
        texts = tuple(key for key in ("sentence", "sentence1", "sentence2") if key in splits["train"][0])
        definition = TaskFile(
            name=name, benchmark=EMBEDDED_GLUE, group="GLUE", text=texts, labels=(0, 1),
            label_names=shipped_task(_EMBEDDED_LIKE[name]).label_names,
        )  # fmt: skip
        tasks[name] = ClassificationTask(definition, (0, 1))
    return tasks


def find_task(task: str, config: EvalConfig) -> ClassificationTask:
    """Return a task by its name, or by the path of its YAML file.

    Where the file declares no labels, the training set is read for them.

    Raises:
        UsageError: For an unknown name, a faulty file, absent data, or labels that must be declared.
    """
    definition = find_task_file(task)
    if definition.labels is not None:
        return ClassificationTask(definition, definition.labels)
    unlabelled = ClassificationTask(definition, ())
    key = (definition.benchmark, definition.name, examples.data_source(unlabelled, config, "train"))
    if key not in _labels_in_data:
        rows, source = examples.read_task_rows(unlabelled, "train", config)
        values = [examples.label_value(definition, row) for row in rows]
        labels = find_labels((value for value in values if value is not None), definition.multi_label, source)
        if len(labels) < 2:
            raise UsageError(
                f"{source}: field {definition.label!r} has {len(labels)} label(s), so there is nothing to "
                "learn; name the right field under label:, or declare labels:"
            )
        for metric in definition.metrics:
            if reason := unfit_metric(metric, len(labels), definition.multi_label):
                raise UsageError(f"{definition.name}: metrics: {reason}")
        _labels_in_data[key] = labels
    return ClassificationTask(definition, _labels_in_data[key])


def classification_tasks(config: EvalConfig) -> list[list[ClassificationTask]]:
    """Group the tasks asked for by the training set that they share.

    Raises:
        UsageError: For an unknown task, a faulty file or absent data, or two tasks of one name.
    """
    tasks: list[ClassificationTask] = []
    for suite, spec in SUITES.items():
        if suite in config.suites and spec.kind == "classification":
            tasks += spec.find(config)
    tasks += [find_task(name, config) for name in config.classify]
    groups: dict[tuple[str, str], list[ClassificationTask]] = {}
    by_name: dict[tuple[str, str], ClassificationTask] = {}
    for task in tasks:
        if by_name.setdefault((task.benchmark, task.name), task) != task:
            raise UsageError(
                f"two tasks are called {task.name} in benchmark {task.benchmark}; give one of them another "
                "name: or benchmark:"
            )
    for task in by_name.values():
        for split in examples.SPLITS:
            examples.find_file(task, split, config)
        groups.setdefault((task.benchmark, task.file_name("train")), []).append(task)
    return list(groups.values())
