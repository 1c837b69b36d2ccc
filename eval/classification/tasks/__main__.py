"""List the classification tasks that have a file here: ``python -m eval.tasks``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from base.command_line import parse_flags
from base.errors import run_cli
from base.table import format_table
from eval.classification.tasks.schema import TaskFile, find_task_file, shipped_tasks

EXAMPLES = """List the classification tasks: their examples' source, labels, what a model reads, metrics.

Examples:
  python -m eval.tasks
  python -m eval.tasks rte my-task.yaml    # also checks a file of your own
  python -m eval RUN --classify rte my-task.yaml

A task of your own is a YAML file; docs/evaluation.md says what stands in it."""

HEADER = ("task", "benchmark", "source", "labels", "text", "metrics")


@dataclass(frozen=True, kw_only=True)
class TasksArgs:
    """What ``python -m eval.tasks`` is asked to list."""

    tasks: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Only these: names, or YAML files (default: all that have a file here)."""


def describe(task: TaskFile) -> tuple[str, ...]:
    """Return a task's line of the table."""
    hub = task.hub
    source = " ".join(filter(None, (hub.path, hub.name, hub.data_dir))) if hub else "files"
    number = len(task.labels) if task.labels else "as in the data"
    labels = f"{number}{', any number of them' if task.multi_label else ''}"
    return task.name, task.benchmark, source, labels, " | ".join(task.text), ", ".join(task.metrics)


def main(args: Sequence[str] | None = None) -> None:
    """Read the flags and print the table."""
    asked = parse_flags(TasksArgs, args, prog="python -m eval.tasks", description=EXAMPLES)
    described = (describe(find_task_file(name)) for name in asked.tasks or shipped_tasks())
    print(format_table([HEADER, *described]))


if __name__ == "__main__":
    run_cli(main)
