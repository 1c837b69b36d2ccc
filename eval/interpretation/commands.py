"""What the commands that look into a run's classifier have in common."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eval.config import EvalConfig

if TYPE_CHECKING:
    from eval.classification.tasks import ClassificationTask

SAY_EVERY_S = 20.0


def config_with_head(paths: Sequence[Path], head: str) -> EvalConfig:
    """Return the settings of a run's study, with the first of its heads of that name.

    Raises:
        UsageError: If the study's file is unusable.
    """
    from eval.runs import study_config

    # runs/<study>/<family>/<variant>/<run>
    config = study_config([study for path in paths for study in path.resolve().parents[2:3]])
    first = next((text for text in config.finetune.head if text.split()[0] == head), head)
    return config.model_copy(update={"finetune": config.finetune.model_copy(update={"head": (first,)})})


def find_task(name: str, config: EvalConfig) -> ClassificationTask:
    """Return a task by its name, those of the embedded corpus included, or by the path of its YAML file.

    Raises:
        UsageError: As ``classification_tasks.find_task``.
    """
    from eval.classification import tasks

    return tasks.embedded_tasks(config).get(name) or tasks.find_task(name, config)


def label_names(labels: Sequence[str | int]) -> list[str]:
    """Return what a reader is told that the labels of a task are."""
    return [label if isinstance(label, str) else f"label {label}" for label in labels]


def say_rarely() -> Callable[[str], None]:
    """Make a function that prints a message on standard error, at most one every ``SAY_EVERY_S`` seconds."""
    next_s = 0.0

    def say(message: str) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            print(message, file=sys.stderr)
            next_s = time.monotonic() + SAY_EVERY_S

    return say
