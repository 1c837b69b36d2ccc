"""The last job of a study on a cluster: tries again what was killed, then writes the report."""

from __future__ import annotations

from slurm.report import write_study_report
from slurm.sbatch import SlurmSubmitter
from slurm.study import Cell
from slurm.submissions import sole_submitter
from slurm.survey import survey

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
                again = self.submitter.submit_cells(todo, self.round + 1)
                last = LastJob(self.submitter, self.round + 1)
                self.submitter.submit_last(last, again, self.round + 1)
                print(f"{len(todo)} cells were killed and are submitted again", flush=True)
        write_study_report(study)

    def _todo(self) -> list[Cell]:
        study = self.submitter.study
        states = survey(study.folder, [cell.run_id for cell in study.cells])
        return [cell for cell in study.cells if states[cell.run_id].may_retry]
