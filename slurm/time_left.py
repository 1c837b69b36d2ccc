"""How long the cells of a study that runs still take, by those that have ended."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from base.progress import duration
from scores.stages import MAIN, SHARED, STAGES, TUNE
from slurm.state.cell_state import CellState

NAMES = {TUNE: "tuning cells", MAIN: "cells", SHARED: "cells at the shared rate"}
"""What cells are called, by their stage."""
COSTLESS = "optim."
"""Axes that begin so change no duration."""


@dataclass(frozen=True)
class CellTime:
    """A cell, and what it has in common with others that take as long.

    Attributes:
        kind: Its family, its variant, and its level on each axis.
    """

    stage: str
    kind: tuple[str, ...]
    state: CellState

    @property
    def has_ended(self) -> bool:
        """Whether it is done or failed."""
        return self.state.name in ("done", "failed")


def kind_of(run_id: str, levels: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a cell's duration depends on.

    Args:
        run_id: ``family/variant/run``.
        levels: Its variant's level (``variant``), and those on axes by their names.
    """
    family, variant = run_id.split("/")[:2]
    places = (level for axis, level in levels.items() if axis != "variant" and not axis.startswith(COSTLESS))
    return (family, levels.get("variant", variant), *places)


def tell_time_left(
    cells: Sequence[CellTime],
    to_come: Mapping[str, int] | None = None,
    at_work: int | None = None,
    now_s: float | None = None,
) -> str:
    """Say how many cells of each stage have ended, and how long the others take.

    A cell lasts as long as those of its kind and stage that are done did on average; else as those of its
    kind, else as all.

    Args:
        cells: All that are due.
        to_come: Stages that follow, and how many cells they will have.
        at_work: Cells at the same time; None takes those that are at work now.
        now_s: Seconds since the epoch.

    Returns:
        One line; empty where nothing is at work or left.
    """
    at_work = at_work or sum(cell.state.name == "running" for cell in cells)
    num_ended = sum(cell.has_ended for cell in cells)
    if not at_work or not (num_ended < len(cells) or to_come):
        return ""
    durations = _durations(cells)
    if None not in durations:
        return f"{num_ended} of {len(cells)} cells, time left not known until one is done"
    now_s = time.time() if now_s is None else now_s
    parts = []
    for stage in STAGES:
        of_stage = [cell for cell in cells if cell.stage == stage]
        seconds = [_left_s(cell, durations, now_s) for cell in of_stage if not cell.has_ended]
        if seconds:
            ended = f"{len(of_stage) - len(seconds)} of {len(of_stage)} {NAMES[stage]}"
            parts.append(f"{ended}, {_about(seconds, at_work)} left")
    to_come_s = _mean_to_come(cells, durations)
    for stage, number in (to_come or {}).items():
        most, name = (
            "up to " * (stage == SHARED),
            "main cells" if stage == MAIN else NAMES.get(stage, f"{stage} cells"),
        )
        parts.append(f"{most}{number} {name}, {_about([to_come_s] * number, at_work)}")
    return "; then ".join(parts)


def _keys(cell: CellTime) -> tuple[Hashable, ...]:
    """From what is most like a cell to all cells: main cells are evaluated, and those of a tuning are not."""
    return (cell.stage, cell.kind), cell.kind, None


def _durations(cells: Iterable[CellTime]) -> dict[Hashable, list[float]]:
    """Return by key the seconds that cells took which are done; of archived ones nobody knows."""
    durations: dict[Hashable, list[float]] = {}
    for cell in cells:
        if cell.state.name == "done" and 0 < cell.state.started_s < cell.state.finished_s:
            for key in _keys(cell):
                durations.setdefault(key, []).append(cell.state.finished_s - cell.state.started_s)
    return durations


def _left_s(cell: CellTime, durations: Mapping[Hashable, list[float]], now_s: float) -> float:
    whole_s = next(fmean(durations[key]) for key in _keys(cell) if key in durations)
    return max(0.0, whole_s - (now_s - cell.state.started_s)) if cell.state.name == "running" else whole_s


def _mean_to_come(cells: Sequence[CellTime], durations: Mapping[Hashable, list[float]]) -> float:
    """Seconds of a cell that is to come: slow kinds may be tuned last, and no cell beyond tuning has them."""
    kinds = {cell.kind for cell in cells} - {cell.kind for cell in cells if cell.stage != TUNE}
    return fmean([fmean(durations[kind]) for kind in kinds if kind in durations] or durations[None])


def _about(seconds: Sequence[float], at_work: int) -> str:
    """Time until the last has ended: shared evenly, and no less than the longest takes."""
    return f"about {duration(max(sum(seconds) / at_work, max(seconds, default=0.0)))}"
