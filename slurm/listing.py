"""Which cells a study has, by its folder alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from base.config_input import read_yaml
from base.errors import UsageError
from pretrain.run.folders import StudyFolder


@dataclass(frozen=True)
class StudyListing:
    """A study's cells.

    Args:
        run_ids: Their runs.
        note: What a reader must know of where they are from; empty where they are as submitted.
        adds_seeds: Whether there may be more later.
    """

    run_ids: tuple[str, ...]
    note: str = ""
    adds_seeds: bool = False


def read_listing(study: Path) -> StudyListing:
    """List the cells of a study, as its folder names them.

    Where its ``study.yaml`` is damaged they are those that were begun.

    Raises:
        UsageError: If the folder is not that of a submitted study.
    """
    file = StudyFolder(study).study_file
    begun = _begun(study)
    if not file.is_file() and not begun:
        raise UsageError(f"{study} holds no {file.name}; name a study's YAML file or its folder below runs/")
    content = _read(file)
    cells = content.get("cells")
    if isinstance(cells, list) and cells and all(isinstance(cell, str) for cell in cells):
        return StudyListing(tuple(cells), adds_seeds=content.get("until") is not None)
    if not begun:
        raise UsageError(f"{file} names no cells, and none was begun; submit the study again")
    note = (
        f"note: {file} is missing or damaged, so these are the {len(begun)} cells that were begun; "
        "slurm.submit writes it again"
    )
    return StudyListing(begun, note)


def _begun(study: Path) -> tuple[str, ...]:
    folder = StudyFolder(study)
    runs = (run.run_id for run in folder.run_folders() if run.is_run)
    return tuple(sorted({*folder.cell_files(), *runs}))


def _read(file: Path) -> dict[str, object]:
    try:
        return read_yaml(file)
    except UsageError:
        return {}
