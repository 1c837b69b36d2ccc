"""The last job of a study on a cluster: tries killed cells again, writes the report, and adds seeds."""

from __future__ import annotations

from collections.abc import Sequence

from slurm.report import write_study_report
from slurm.sbatch import SlurmSubmitter
from slurm.study import Cell, Study
from slurm.submissions import sole_submitter
from slurm.survey import survey
from slurm.todo import find_todo

MAX_ROUNDS = 2
"""How often what died without a word is submitted again before a user has to look."""


class LastJob:
    """Runs when every cell's job has ended, however it did.

    Args:
        submitter: Submits again.
        round_: How often that was done before.
    """

    def __init__(self, submitter: SlurmSubmitter, round_: int = 0) -> None:
        self.submitter = submitter
        self.round = round_

    def __call__(self) -> None:
        study = self.submitter.study
        with sole_submitter(study.folder):
            todo = self._todo()
            if todo and self.round < MAX_ROUNDS:
                self._submit(self.submitter, todo, self.round + 1)
                print(f"{len(todo)} cells were killed and are submitted again", flush=True)
        write_study_report(study)
        later = study.now()
        if len(later.cells) > len(study.cells):
            self._go_on(later)

    def _go_on(self, study: Study) -> None:
        """Submit what the next look needs."""
        with sole_submitter(study.folder):
            study.write()
            # If this job was stopped before it ended, and runs again, they may be submitted.
            if cells := find_todo(study, retry_failed=False).cells:
                self._submit(self.submitter.of(study), cells, 0)
                print(f"{len(cells)} cells are submitted for the next look", flush=True)

    def _submit(self, submitter: SlurmSubmitter, cells: Sequence[Cell], round_: int) -> None:
        """Submit cells and the job that comes after them."""
        submissions = submitter.submit_cells(cells, round_)
        submitter.submit_last(LastJob(submitter, round_), submissions, round_)

    def _todo(self) -> list[Cell]:
        study = self.submitter.study
        states = survey(study.folder, [cell.run_id for cell in study.cells])
        return [cell for cell in study.cells if states[cell.run_id].may_retry]
