"""What result files of evaluation tools hold, and how several of them become one table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from base.errors import UsageError
from eval.report.readers.names import split_names
from eval.report.readers.reading import ONLY_FAMILY, Found, Reading
from eval.results.rows import some_of

SHOWN = 6
"""Names that a note lists."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One score of one model in one file.

    Attributes:
        name: Of the model, as the tool writes it.
        benchmark: As in rows, with the tool's prefix.
        task: As the tool names it.
        metric: As in rows.
        score: In the unit of rows.
        primary: Whether it stands for its task.
        group: What its task belongs to within the benchmark.
        lower_is_better: Whether lower scores are better; None where the file does not say it.
        n_items: How many items it is a mean of; 0 where that is not said.
        when: Sorts after those that were measured before.
        setting: What else the score depends on, such as the number of examples in the prompt.
        path: The file.
    """

    name: str
    benchmark: str
    task: str
    metric: str
    score: float
    primary: bool = True
    group: str = ""
    lower_is_better: bool | None = None
    n_items: int = 0
    when: str = ""
    setting: str = ""
    path: Path = Path()


def to_table(results: Iterable[Result], reading: Reading, axes: Sequence[str], origin: Path) -> Found:
    """Bring results into rows, each model's last measurement of a task.

    Args:
        results: Of any number of files.
        reading: What the user said of them; ``names`` is how a model's name is read.
        axes: Fields of names that are axes.
        origin: The file or folder that they are from.

    Raises:
        UsageError: For flags of tables, names that do not fit, or a task measured in two ways.
    """
    if reading.columns or reading.scores:
        flag = "--columns" if reading.columns else "--scores"
        raise UsageError(f"{flag} is about a table, and {origin} holds result files; leave it out")
    results, said_of_names = _named_by_folders(list(results), origin)
    kept, notes = _last(results, str(origin))
    notes += said_of_names
    notes += _different_settings(kept)
    names = [result.name for result in kept]
    read, said = split_names(names, reading.names, axes, str(origin))
    table = pd.DataFrame(
        {
            "run_id": names,
            **{field: [getattr(result, field) for result in kept] for field in _FIELDS},
        }
    )
    table = pd.concat([read, table], axis=1)
    if "family" not in table.columns:
        table["family"] = ONLY_FAMILY
    if "seed" not in table.columns:
        table["seed"] = "0"
    return Found(table=table, notes=(*notes, *([said] if said else [])))


_FIELDS = ("benchmark", "task", "group", "metric", "score", "lower_is_better", "n_items", "primary")


def _named_by_folders(results: list[Result], root: Path) -> tuple[list[Result], list[str]]:
    """Call models by their folders where one name on a disk, as ``./model``, is that of several.

    A task that scored differently in two folders tells them from one model that was measured again.
    """
    scores: dict[tuple[str, ...], dict[Path, float]] = defaultdict(dict)
    for result in results:
        if result.name.startswith(".") or "/" not in result.name:
            key = (result.name, result.benchmark, result.task, result.metric, result.setting)
            scores[key][result.path.parent] = result.score
    shared = sorted({key[0] for key, of_folders in scores.items() if len(set(of_folders.values())) > 1})
    folders = {result.path.parent for result in results if result.name in shared}
    # lm-eval puts a file into a folder of the model's name, which then tells nothing.
    depth = 1 if len({folder.name for folder in folders}) == 1 else 0
    has_others = len({result.name for result in results}) > 1

    def named(result: Result) -> Result:
        if result.name not in shared:
            return result
        parts = result.path.parent.relative_to(root).parts
        parts = parts[: len(parts) - depth] + ((Path(result.name).name,) if has_others else ())
        return replace(result, name="/".join(parts) or result.name)

    notes = [f"{name} is the name of several models, which are called by their folders" for name in shared]
    return [named(result) for result in results], notes


def _last(results: Iterable[Result], origin: str) -> tuple[list[Result], list[str]]:
    """Keep what was measured last of what was measured several times in the same way."""
    found: dict[tuple[str, str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        found[result.name, result.benchmark, result.task, result.metric].append(result)
    again = set()
    for same in found.values():
        same.sort(key=lambda result: result.when)
        first, last = same[0], same[-1]
        if differs := next((x for x in same if x.setting != last.setting), None):
            raise UsageError(
                f"{origin}: {first.task} of {first.name} was measured in two ways ({differs.setting} in "
                f"{differs.path.name}, {last.setting} in {last.path.name}); move one of these files away"
            )
        if len(same) > 1:
            again.add(f"{first.task} of {first.name}")
    notes = (
        [f"measured more than once, the last one counts: {some_of(sorted(again), SHOWN)}"] if again else []
    )
    return [same[-1] for same in found.values()], notes


def _different_settings(results: Iterable[Result]) -> list[str]:
    """Say of tasks that not all models were measured on in the same way: such scores do not compare."""
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for result in results:
        found[result.benchmark, result.task].setdefault(result.setting, result.name)
    return [
        f"{task}: models were measured in different ways, "
        + " and ".join(f"{name} {setting or 'without a word of it'}" for setting, name in ways.items())
        for (_, task), ways in found.items()
        if len(ways) > 1
    ]
