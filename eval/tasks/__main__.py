"""List the classification tasks that have a file here: ``python -m eval.tasks``."""

from __future__ import annotations

from eval.tasks.schema import TaskFile, shipped_task, shipped_tasks
from ffn_variants.errors import run_cli

HEADER = ("task", "benchmark", "source", "labels", "text", "metrics")


def describe(task: TaskFile) -> tuple[str, ...]:
    """Return a task's line of the table."""
    hub = task.hub
    source = " ".join(filter(None, (hub.path, hub.name, hub.data_dir))) if hub else "files"
    labels = f"{len(task.labels or ())}{', any number of them' if task.multi_label else ''}"
    return task.name, task.benchmark, source, labels, " | ".join(task.text), ", ".join(task.metrics)


def main() -> None:
    """Print the table."""
    lines = [HEADER, *(describe(shipped_task(name)) for name in shipped_tasks())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    run_cli(main)
