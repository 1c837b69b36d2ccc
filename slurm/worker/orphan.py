"""A worker whose command was killed goes on with its cells; the one that ends the last writes the report."""

from __future__ import annotations

from pathlib import Path

from base.errors import UsageError
from eval.report.write import write_report
from pretrain.run.folders import StudyFolder
from slurm.queue.submissions import sole_submitter
from slurm.state.launcher import read_note
from slurm.state.listing import StudyListing, read_listing
from slurm.state.survey import survey


def finish_for_dead_launcher(study_dir: Path) -> None:
    """Write the report where the command that would have is dead and every cell of its study has ended.

    A study that adds seeds, or has not chosen what it tunes, is left to the same command.
    """
    launcher = read_note(study_dir)
    if launcher is None or not launcher.report or not launcher.is_dead:
        return
    try:
        listing = read_listing(study_dir)
        if not _is_over(study_dir, listing):
            return
        with sole_submitter(study_dir):
            write_report(study_dir, StudyFolder(study_dir).report_dir)
            print(f"its command was killed, so this worker wrote the report of {study_dir}", flush=True)
    except (UsageError, OSError) as error:  # among others: the same command was given again and does it
        print(f"no report by this worker: {error}", flush=True)


def _is_over(study_dir: Path, listing: StudyListing) -> bool:
    if listing.note or listing.goes_on:
        return False
    states = survey(study_dir, listing.run_ids)
    return all(state.name in ("done", "failed") for state in states.values())
