"""The classification heads and tasks as tables: ``ffn-ablations list heads`` and ``list tasks``."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from base.command_line import Positional, parse_flags
from base.options import describe_options
from base.printing import format_table
from base.sections import Section
from eval.classification.schema import TaskFile, find_task_file, shipped_tasks
from scores.head_descriptions import DEFAULT_HEAD, HEAD_NAMES, HEADS, HeadChoice, check_head, parse_head

LARGEST = 1_000_000
"""Beyond any model; counts are made by building a head."""

STOCK = (
    "default", "example", "no", "GPT-Neo: W x; RoBERTa: W tanh(V x + c) + b; others: their own", "-",
    "transformers' sequence classifiers",
)  # fmt: skip
"""The row of the head that is no part of the registry: its parameters depend on the architecture."""


def table_rows(heads: Sequence[str], hidden_size: int, num_labels: int) -> list[tuple[str, ...]]:
    """Make the table's rows, the header first.

    Args:
        heads: As a user writes them; none for all.
        hidden_size: D of the backbone.
        num_labels: C.

    Raises:
        UsageError: For an unknown head, or an option that it does not have.
    """
    header = ("name", "reads", "several", "formula", "parameters", "reference")
    choices = [check_head(parse_head(text)) for text in heads] or [HeadChoice(name) for name in HEAD_NAMES]
    return [header, *(_row(choice, hidden_size, num_labels) for choice in choices)]


def _row(choice: HeadChoice, hidden_size: int, num_labels: int) -> tuple[str, ...]:
    if choice.name == DEFAULT_HEAD:
        return STOCK
    spec = HEADS[choice.name]
    from eval.classification.heads import count_parameters  # which imports torch

    count = count_parameters(choice, hidden_size, num_labels)
    several = "yes" if spec.fits_multi_label else "no"
    return (str(choice), spec.reads, several, spec.formula, f"{count:,}", spec.reference)


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
    hidden_size: int = Field(512, ge=1, le=LARGEST)
    """Width D of the backbone."""
    num_labels: int = Field(2, ge=1, le=LARGEST)
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
    arguments = parse_flags(HeadsArgs, args, prog="ffn-ablations list heads")
    rows = table_rows(arguments.heads, arguments.hidden_size, arguments.num_labels)
    print(format_table(rows))
    if arguments.options:
        names = dict.fromkeys(row[0].split()[0] for row in rows[1:])
        lines = (describe_options(name, HEADS[name].options) for name in names if name in HEADS)
        print("\n" + "\n".join(lines))


def list_tasks(args: Sequence[str] | None = None) -> None:
    """Print the table of tasks."""
    arguments = parse_flags(TasksArgs, args, prog="ffn-ablations list tasks")
    described = (describe(find_task_file(name)) for name in arguments.tasks or shipped_tasks())
    print(format_table([TASK_HEADER, *described]))


def describe(task: TaskFile) -> tuple[str, ...]:
    """Return a task's line of the table."""
    hub = task.hub
    source = " ".join(filter(None, (hub.path, hub.name, hub.data_dir))) if hub else "files"
    number = len(task.labels) if task.labels else "as in the data"
    labels = f"{number}{', any number of them' if task.multi_label else ''}"
    return task.name, task.benchmark, source, labels, " | ".join(task.text), ", ".join(task.metrics)
