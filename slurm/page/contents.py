"""What the page of a study shows, read from its folder; nothing in it stops at a damaged file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.json_text import parse_json
from eval.results.decisions import read_decisions
from eval.results.stages import MAIN, SHARED, TUNE
from eval.results.tuning import Tuning, read_tuning
from pretrain.run.folders import RunFolder, StudyFolder
from slurm.state.cell_state import CellState, as_result, describe, is_at_work, is_number
from slurm.state.listing import read_levels
from slurm.state.survey import is_followed

LONGEST_LOG = 4_000_000
"""Bytes of a log that are read, from its end."""


@dataclass(frozen=True, kw_only=True)
class PageCell:
    """A cell on the page."""

    run_id: str
    stage: str
    family: str
    variant: str
    """Its level's text."""
    places: tuple[tuple[str, str], ...]
    run: str
    """The name of its folder, which begins with its seed."""
    state: CellState
    doing: str = ""
    """Where one that runs stands."""

    @property
    def setting(self) -> str:
        """Family and places, as a reader is shown them."""
        return ", ".join([self.family, *(_place(axis, level) for axis, level in self.places)])

    @property
    def seed(self) -> str:
        """``seed3``, or the name that its user gave."""
        return self.run.partition("-")[0]


Curve = Sequence[tuple[float, float]]
"""Step and loss, steps growing."""


@dataclass(frozen=True, kw_only=True)
class Losses:
    """What the log of one run holds so far."""

    training: Curve = ()
    """Only where there are fewer than two held-out losses."""
    held_out: Curve = ()

    @property
    def last(self) -> float | None:
        """The newest held-out loss."""
        return self.held_out[-1][1] if self.held_out else None


@dataclass(frozen=True, kw_only=True)
class PageContents:
    """Everything that the page shows."""

    title: str
    cells: tuple[PageCell, ...]
    losses: Mapping[str, Losses] = field(default_factory=dict)
    """By run id, of runs that have logged any."""
    tuned: tuple[str, ...] = ()
    """Axes that only the tuning varies."""
    tuning: Tuning | None = None
    progress: tuple[str, ...] = ()
    """Where tuning and looks stand, in sentences."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """The newest report's numbers; empty where there is none."""
    reported_s: float | None = None
    """When it was written."""
    left: str = ""
    """How much is left and until when, in words."""
    notes: tuple[str, ...] = ()
    """What is amiss with the study's files."""
    is_running: bool = False
    """Whether a cell is at work, queued, or to come, so that the page will change."""


def read_contents(
    study: Path, states: Mapping[str, CellState], left: str = "", note: str = ""
) -> PageContents:
    """Read what the page shows.

    Args:
        study: The study's folder.
        states: Of every cell.
        left: How much is left, in words.
        note: What a reader must know of where the cells are from.
    """
    folder, notes = StudyFolder(study), [note] if note else []
    content = _content(folder)
    cells = tuple(_cells(folder, states, mapping(content.get("stages"))))
    progress: list[str] = []
    tuning = None
    for read in (read_tuning, read_decisions):
        try:
            found = read(study)
        except UsageError as error:
            notes.append(str(error))
            continue
        progress += [found.progress] if found else []
        tuning = found if isinstance(found, Tuning) else tuning
    report = _report(folder, notes)
    return PageContents(
        title=study.resolve().name,
        cells=cells,
        tuned=_tuned(cells, mapping(content.get("axes"))),
        losses={cell.run_id: found for cell in cells if (found := _losses(folder.run(cell.run_id)))},
        tuning=tuning,
        progress=tuple(progress),
        report=report,
        reported_s=folder.report_file.stat().st_mtime if report else None,
        left=left,
        notes=tuple(notes),
        is_running=is_at_work(states) or is_followed(study),
    )


def _content(folder: StudyFolder) -> Mapping[str, Any]:
    try:
        return read_yaml(folder.study_file)
    except UsageError:  # the listing says so
        return {}


def _tuned(cells: Sequence[PageCell], axes: Mapping[str, Any]) -> tuple[str, ...]:
    found = {
        axis: None for cell in cells if cell.stage == TUNE for axis, _ in cell.places if axis not in axes
    }
    return tuple(found)


def _cells(folder: StudyFolder, states: Mapping[str, CellState], stages: Mapping[str, Any]) -> list[PageCell]:
    levels = read_levels(folder.path)
    of_stage = {
        str(run_id): stage
        for stage in (SHARED, TUNE, MAIN)  # one that counts for two is in main
        if isinstance(named := stages.get(stage), list)
        for run_id in named
    }
    found = []
    for run_id, state in states.items():
        family, variant, run = [*run_id.split("/"), "", ""][:3]
        own, stage = levels.get(run_id, {}), of_stage.get(run_id, MAIN)
        state = as_result(state, folder.path / run_id, stage)
        found.append(
            PageCell(
                run_id=run_id,
                stage=stage,
                family=family,
                variant=own.get("variant", variant),
                places=tuple((axis, level) for axis, level in own.items() if axis != "variant"),
                run=run,
                state=state,
                doing=describe(state, folder.path / run_id) if state.name == "running" else "",
            )
        )
    return found


def _place(axis: str, level: str) -> str:
    return level if axis == "size" else f"{axis.rpartition('.')[2]} {level}"


def _losses(run: RunFolder) -> Losses | None:
    """Read held-out losses from a run's log, and those of training where there are not two of them yet.

    Lines that are cut off or no numbers are passed over.
    """
    try:
        with run.metrics_file.open("rb") as file:
            file.seek(max(0, run.metrics_file.stat().st_size - LONGEST_LOG))
            lines = file.read().splitlines()
    except OSError:
        return None
    held_out = _curve([line for line in lines if b'"eval_loss"' in line], "eval_loss")
    training = _curve(lines, "loss") if len(held_out) < 2 else ()
    return Losses(training=training, held_out=held_out) if training or held_out else None


def _curve(lines: Sequence[bytes], name: str) -> Curve:
    found: dict[float, float] = {}
    for line in lines:
        try:
            record = parse_json(line)
        except ValueError:
            continue
        if isinstance(record, dict) and is_number(record.get("step")) and is_number(record.get(name)):
            found[float(record["step"])] = float(record[name])
    return tuple(sorted(found.items()))


def _report(folder: StudyFolder, notes: list[str]) -> Mapping[str, Any]:
    file = folder.report_dir / "report.json"
    if not folder.report_file.is_file() or not file.is_file():
        return {}
    try:
        found = parse_json(file.read_bytes())
    except (OSError, ValueError):
        found = None
    if isinstance(found, dict):
        return found
    notes.append(f"{file} is damaged; ffn-ablations report {folder.path} writes it again")
    return {}
