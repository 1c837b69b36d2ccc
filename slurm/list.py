"""List the studies in a folder of runs, with how many cells of each are done, running or failed.

python -m slurm.list
python -m slurm.list /scratch/me/runs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from base.command_line import parse_flags
from base.errors import UsageError, run_cli
from base.table import format_table
from pretrain.run.folders import StudyFolder
from slurm.state.listing import read_listing
from slurm.state.survey import survey


@dataclass(frozen=True, kw_only=True)
class ListArgs:
    """List the studies in a folder of runs."""

    runs_dir: Positional[Path] = Path("runs")
    """Folder of all runs."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command; it reads small files and asks the queue, and waits for nothing."""
    options = parse_flags(ListArgs, args, prog="python -m slurm.list", description=__doc__)
    if not options.runs_dir.is_dir():
        raise UsageError(f"no folder {options.runs_dir}; name the folder of all runs, as --runs-dir does")
    studies = [path for path in sorted(options.runs_dir.iterdir()) if StudyFolder(path).study_file.is_file()]
    if not studies:
        raise UsageError(f"{options.runs_dir} holds no study; name the folder that studies' folders lie in")
    print(format_table([("study", "cells", "state"), *map(_row, studies)]))


def _row(study: Path) -> tuple[str, str, str]:
    try:
        run_ids = read_listing(study).run_ids
    except UsageError as error:
        return str(study), "-", str(error)
    counts = Counter(state.name for state in survey(study, run_ids).values())
    return str(study), str(len(run_ids)), ", ".join(f"{counts[name]} {name}" for name in sorted(counts))


if __name__ == "__main__":
    run_cli(main)
