"""How long the cells of a study that runs still take, by those that have ended."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from base.progress import duration
from eval.results.stages import MAIN, SHARED, STAGES, TUNE
from slurm.state.cell_state import CellState

NAMES = {TUNE: "tuning cells", MAIN: "cells", SHARED: "cells at the shared rate"}
"""What cells are called, by their stage."""
ANY = "any"
"""In place of a stage: cells of all of them."""
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

    @property
    def seconds(self) -> float | None:
        """How long it took; None where it is not done, or was done before anyone noted times."""
        state = self.state
        known = state.name == "done" and 0 < state.started_s < state.finished_s
        return state.finished_s - state.started_s if known else None


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

    Cells of later stages are taken to last as long as those that have ended do, of the kinds that have no
    cell beyond tuning yet: where the slow ones of forty variants are tuned last, theirs are still to come.

    Args:
        cells: All that are due.
        to_come: Stages that follow, and how many cells they will have.
        at_work: Cells at the same time; None takes those that are at work now.
        now_s: Seconds since the epoch.

    Returns:
        One line; empty where nothing is at work or left.
    """
    running = sum(cell.state.name == "running" for cell in cells)
    at_work = at_work or running
    left = [cell for cell in cells if not cell.has_ended]
    if not at_work or not (left or to_come):
        return ""
    lasting = Durations(cells)
    if not lasting.are_known:
        return f"{len(cells) - len(left)} of {len(cells)} cells, time left not known until one is done"
    now_s = time.time() if now_s is None else now_s
    parts = []
    for stage in STAGES:
        of_stage = [cell for cell in cells if cell.stage == stage]
        seconds = [lasting.left_s(cell, now_s) for cell in of_stage if not cell.has_ended]
        if seconds:
            ended = len(of_stage) - len(seconds)
            parts.append(f"{ended} of {len(of_stage)} {NAMES[stage]}, {_about(seconds, at_work)} left")
            # Of three sizes the small ones end first, and say little of how long the largest takes.
            guessed = sum(not cell.has_ended and lasting.is_guessed(cell) for cell in of_stage)
            parts[-1] += f" (a guess for {guessed}: none like them is done yet)" if guessed else ""
    beyond = {cell.kind for cell in cells if cell.stage != TUNE}
    mean_s = lasting.mean_s({cell.kind for cell in cells} - beyond)
    for stage, number in (to_come or {}).items():
        most = "up to " if stage == SHARED else ""
        seconds = [mean_s] * number
        parts.append(f"{most}{number} {_later(stage)}, {_about(seconds, at_work)}{lasting.beside(stage)}")
    return "; then ".join(parts)


def _later(stage: str) -> str:
    return "main cells" if stage == MAIN else NAMES.get(stage, f"{stage} cells")


def _about(seconds: Sequence[float], at_work: int) -> str:
    return f"about {duration(max(sum(seconds) / at_work, max(seconds, default=0.0)))}"


class Durations:
    """Mean durations of cells that are done: of one kind and stage, else of the kind, else of the stage.

    Args:
        cells: All of a study that are due.
    """

    def __init__(self, cells: Iterable[CellTime]) -> None:
        self._known: dict[tuple, list[float]] = {}
        for cell in cells:
            if (seconds := cell.seconds) is not None:
                for key in _keys(cell):
                    self._known.setdefault(key, []).append(seconds)
        self._stages = {key[0] for key in self._known if len(key) == 1}

    @property
    def are_known(self) -> bool:
        """Whether a cell is done."""
        return () in self._known

    def mean_s(self, kinds: Collection[tuple[str, ...]]) -> float:
        """Of these kinds, in seconds, each counted alike; of all cells, where none of them has ended."""
        of_kinds = [float(np.mean(self._known[ANY, kind])) for kind in kinds if (ANY, kind) in self._known]
        return float(np.mean(of_kinds or self._known[()]))

    def is_guessed(self, cell: CellTime) -> bool:
        """Whether no cell of its kind is done, so that its duration is that of others."""
        return (ANY, cell.kind) not in self._known

    def left_s(self, cell: CellTime, now_s: float) -> float:
        """Seconds that a cell still takes, where durations are known."""
        found = next(float(np.mean(self._known[key])) for key in _keys(cell) if key in self._known)
        if cell.state.name != "running":
            return found
        return max(0.0, found - (now_s - cell.state.started_s))

    def beside(self, stage: str) -> str:
        """What a stage's cells do that those that have ended did not: tuning runs are not evaluated."""
        return ", evaluation not counted" if stage != TUNE and self._stages == {TUNE} else ""


def _keys(cell: CellTime) -> tuple[tuple, ...]:
    """From what is most like a cell to all cells."""
    return (cell.stage, cell.kind), (ANY, cell.kind), (cell.stage,), ()
