"""Writing the page of a study into its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from base.errors import UsageError
from base.files import write_text
from pretrain.run.folders import StudyFolder
from slurm.page.contents import read_contents
from slurm.page.html import render
from slurm.state.cell_state import CellState


def write_page(
    study: Path, states: Mapping[str, CellState], note: str = "", every_s: float = 10.0, left: str = ""
) -> None:
    """Write ``status.html`` whole, so that a browser never sees half of it, and print where it is.

    Args:
        study: The study's folder.
        states: Of every cell.
        note: What a reader must know of where the cells are from.
        every_s: Seconds after which the page loads itself again while cells are at work.
        left: How much is left, in words.

    Raises:
        UsageError: If the study has no folder yet.
    """
    if not study.is_dir():
        raise UsageError(f"{study} is not there, so the study has no page yet; run or submit it first")
    page = StudyFolder(study).status_page
    write_text(page, render(read_contents(study, states, left, note), str(study), every_s))
    print(f"page: {page}", flush=True)
