"""The studies in a folder of runs, with how many cells of each are done, running or failed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from base.errors import UsageError
from base.run.folders import StudyFolder
from base.wording import format_table
from slurm.state.listing import read_listing
from slurm.state.survey import survey


def studies_table(runs_dir: Path) -> str:
    """Return a line for each study in a folder, or that there is none.

    It reads small files, asks the queue, and waits for nothing.
    """
    studies = [path for path in sorted(runs_dir.iterdir()) if StudyFolder(path).study_file.is_file()]
    if not studies:
        return "no study; --runs-dir names another folder of runs"
    return format_table([("study", "cells", "state"), *map(_row, studies)])


def _row(study: Path) -> tuple[str, str, str]:
    try:
        run_ids = read_listing(study).run_ids
    except UsageError as error:
        return str(study), "-", str(error)
    counts = Counter(state.name for state in survey(study, run_ids).values())
    return str(study), str(len(run_ids)), ", ".join(f"{counts[name]} {name}" for name in sorted(counts))
