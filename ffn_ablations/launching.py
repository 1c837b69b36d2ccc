"""What of a study needs torch: reading its file, and running it."""

from __future__ import annotations

from pathlib import Path

from slurm.arguments import runs_dir_override
from slurm.launch import launch
from slurm.study import study

__all__ = ["cells_of", "folder_of", "launch"]


def folder_of(file: Path, runs_dir: Path | None) -> Path:
    """Return the folder of a study, by its file; nothing that it names is run."""
    return study.folder_of(file, runs_dir_override(runs_dir))


def cells_of(file: Path, runs_dir: Path | None) -> tuple[str, ...]:
    """Return the run ids of a study's cells, by its file."""
    return tuple(cell.run_id for cell in study.load_study(file, runs_dir_override(runs_dir)).cells)
