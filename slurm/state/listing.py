"""Which cells a study has, by its folder alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.run.folders import StudyFolder
from scores.stages import TUNE, is_cut_off
from scores.tuning import read_tuning


@dataclass(frozen=True)
class StudyListing:
    """A study's cells.

    Args:
        run_ids: Their runs.
        note: What a reader must know of where they are from; empty where they are as submitted.
        goes_on: Whether there may be more later.
    """

    run_ids: tuple[str, ...]
    note: str = ""
    goes_on: bool = False


def read_listing(study: Path) -> StudyListing:
    """List the cells of a study, as its folder names them.

    Where its ``study.yaml`` does not name them they are those that were begun.

    Raises:
        UsageError: If the folder is not that of a submitted study.
    """
    file = StudyFolder(study).study_file
    begun = _begun(study)
    if not file.is_file() and not begun:
        raise UsageError(f"{study} holds no {file.name}; name a study's YAML file or its folder below runs/")
    content = _read(file)
    cells = content.get("cells")
    if (
        isinstance(cells, list)
        and cells
        and not is_cut_off(content)
        and all(isinstance(cell, str) for cell in cells)
    ):
        goes_on = content.get("until") is not None or _tunes(study, content)
        return StudyListing(tuple(cells), goes_on=goes_on)
    if not begun:
        raise UsageError(f"{file} names no cells, and none was begun; submit the study again")
    note = (
        f"note: {file} is missing or damaged, so these are the {len(begun)} cells that were begun; "
        "ffn-ablations study run writes it again"
    )
    return StudyListing(begun, note)


def read_levels(study: Path) -> dict[str, dict[str, str]]:
    """Read from a study's folder what folders of runs do not tell.

    Returns:
        By run id the level of its variant (``variant``), and its level on each axis by the axis's name;
        nothing for runs whose folder tells all, and where ``study.yaml`` is missing or damaged.
    """
    levels = _read(StudyFolder(study).study_file).get("levels")
    return {
        str(run_id): {str(axis): str(level) for axis, level in told.items()}
        for run_id, told in (levels.items() if isinstance(levels, dict) else ())
        if isinstance(told, dict)
    }


def read_to_come(study: Path) -> tuple[dict[str, str], dict[str, int]]:
    """Read from a study's folder which stages its cells are of, and what follows them.

    Returns:
        By run id its stage, for those that are not (only) of the main one; and by stage the number of cells
        that are due once the tuning has chosen. Both are empty where ``study.yaml`` says nothing of it.
    """
    content = _read(StudyFolder(study).study_file)
    stages, to_come = mapping(content.get("stages")), mapping(content.get("to_come"))
    of = {
        str(run_id): str(stage)
        for stage, run_ids in stages.items()
        for run_id in (run_ids if isinstance(run_ids, list) else ())
    }
    return of, {str(stage): number for stage, number in to_come.items() if isinstance(number, int)}


def tell_levels(run_id: str, levels: Mapping[str, str]) -> str:
    """Say what a run's folder does not: ``kan grid_size=3, size 0.1M``; empty where it tells all.

    Args:
        run_id: ``family/variant/run``.
        levels: Its variant's (``variant``), and those on axes by their names.
    """
    folder = run_id.split("/")[1:2]
    told = [
        level if axis == "variant" else f"{axis} {level}"
        for axis, level in levels.items()
        if axis != "variant" or [level] != folder
    ]
    return ", ".join(told)


def _tunes(study: Path, content: Mapping[str, Any]) -> bool:
    """Whether a study has not chosen all that it tunes."""
    if TUNE not in mapping(content.get("stages")):
        return False
    tuning = read_tuning(study)
    return tuning is None or not tuning.is_over


def _begun(study: Path) -> tuple[str, ...]:
    folder = StudyFolder(study)
    runs = (run.run_id for run in folder.run_folders() if run.is_run)
    return tuple(sorted({*folder.cell_files(), *runs}))


def _read(file: Path) -> dict[str, object]:
    try:
        return read_yaml(file)
    except UsageError:
        return {}
