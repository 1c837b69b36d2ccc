"""What could not be measured, and equal errors told once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Failure:
    """What could not be measured: a unit of work, or a whole run where ``key`` is None."""

    run_dir: Path
    key: str | None
    error: Exception

    def __str__(self) -> str:
        # What is wrong with a whole run names its folder itself.
        return str(self.error) if self.key is None else f"{self.run_dir} {self.key}: {self.error}"


def failure_lines(failures: Iterable[Failure]) -> list[str]:
    """Tell failures, in the order of the first of each kind; those with the same error in one line."""
    groups: dict[str, list[Failure]] = defaultdict(list)
    for failure in failures:
        groups[_kind(failure)].append(failure)
    return [_line(group) for group in groups.values()]


def _kind(failure: Failure) -> str:
    """The error without the name of its own task, which is what missing data of 67 tasks differ in."""
    text = str(failure.error)
    task = (failure.key or "").split()[0:1]
    return text.replace(task[0].rpartition("/")[2], "...") if task else text


def _line(group: Sequence[Failure]) -> str:
    if len(group) == 1 or any(failure.key is None for failure in group):
        return str(group[0])
    keys = list(dict.fromkeys(failure.key for failure in group))
    runs = list(dict.fromkeys(failure.run_dir for failure in group))
    tasks = keys[0] if len(keys) == 1 else f"{len(keys)} tasks"
    if len(runs) == 1:
        return f"{runs[0]} {tasks}: {group[0].error}"
    each = "x" if len(group) == len(keys) * len(runs) else "in"
    tasks = tasks if each == "x" else f"{len(group)} tasks"
    return f"{tasks} {each} {len(runs)} runs: {group[0].error}"
