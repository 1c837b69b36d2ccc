"""The classification heads and tasks as tables: ``ffn-ablations list heads`` and ``list tasks``."""

from __future__ import annotations

from collections.abc import Sequence

from base.command_line import Positional, parse_flags
from base.sections import Section
from base.wording import describe_options, format_table
from eval.classification.tasks.schema import TaskFile, find_task_file, shipped_tasks
from scores.heads.registry import HEADS

TASK_HEADER = ("task", "benchmark", "source", "labels", "text", "metrics")


class HeadsArgs(Section):
    """List the classification heads: what they read, formula, parameters and reference.

    "reads" is what stands for a text: one vector, those of all its tokens, or one for each of its segments.
    "several" says whether examples may have several labels. Parameters are counted for the given sizes,
    biases included.

    ffn-ablations list heads --hidden-size 768 --num-labels 4

    ffn-ablations list heads "kan grid_size=10" "mlp match=fourier-kan" --options
    """

    heads: Positional[tuple[str, ...]] = ()
    """Only these, each with its options in quotes; else all at their defaults."""
    hidden_size: int = 512
    """Width D of the backbone."""
    num_labels: int = 2
    """Number C of labels."""
    options: bool = False
    """Also list the options of each head."""


class TasksArgs(Section):
    """List the classification tasks: their examples' source, labels, what a model reads, metrics.

    ffn-ablations list tasks

    ffn-ablations list tasks rte my-task.yaml    # also checks a file of your own

    A task of your own is a YAML file; docs/evaluation.md says what stands in it.
    """

    tasks: Positional[tuple[str, ...]] = ()
    """Only these: names, or YAML files; else all that have a file here."""


def list_heads(args: Sequence[str] | None = None) -> None:
    """Print the table of heads."""
    asked = parse_flags(HeadsArgs, args, prog="ffn-ablations list heads")
    from eval.classification.heads.table import table_rows

    rows = table_rows(asked.heads, asked.hidden_size, asked.num_labels)
    print(format_table(rows))
    if asked.options:
        names = dict.fromkeys(row[0].split()[0] for row in rows[1:])
        lines = (describe_options(name, HEADS[name].options) for name in names if name in HEADS)
        print("\n" + "\n".join(lines))


def list_tasks(args: Sequence[str] | None = None) -> None:
    """Print the table of tasks."""
    asked = parse_flags(TasksArgs, args, prog="ffn-ablations list tasks")
    described = (describe(find_task_file(name)) for name in asked.tasks or shipped_tasks())
    print(format_table([TASK_HEADER, *described]))


def describe(task: TaskFile) -> tuple[str, ...]:
    """Return a task's line of the table."""
    hub = task.hub
    source = " ".join(filter(None, (hub.path, hub.name, hub.data_dir))) if hub else "files"
    number = len(task.labels) if task.labels else "as in the data"
    labels = f"{number}{', any number of them' if task.multi_label else ''}"
    return task.name, task.benchmark, source, labels, " | ".join(task.text), ", ".join(task.metrics)
