"""Going on from stage to stage, wherever a study runs: what was tuned is chosen, a report is written."""

from __future__ import annotations

from collections.abc import Callable

from slurm.run.choose import choose
from slurm.run.report import write_study_report
from slurm.run.todo import find_todo
from slurm.study.cells import Cell
from slurm.study.study import Study


class Growing:
    """A study that tunes while its cells run: a round that has ended is followed at once by the next.

    Where several variants or settings are tuned apart, none waits for the others.

    Args:
        study: The study.
        say: Prints a line.
    """

    def __init__(self, study: Study, say: Callable[[str], None] = print) -> None:
        self.study, self._say = study, say

    def __call__(self) -> list[Cell]:
        """Return the cells that follow from those that have ended since the last call."""
        if self.study.tuning is None or self.study.tuning.is_over:
            return []
        choose(self.study, self._say, is_end=False)
        before, later = {cell.run_id for cell in self.study.cells}, self.study.now()
        if len(later.cells) == len(before):
            return []
        self.study = later
        later.write()
        return [cell for cell in find_todo(later, retry_failed=False).cells if cell.run_id not in before]


def end_stage(study: Study, report: bool = True) -> Study:
    """Record what follows from cells that have ended, and write the report where no tuning run comes first.

    Args:
        study: The study; its cells have ended, well or not.
        report: Whether a report is wanted.

    Returns:
        The study with the cells that are due now; as many as before where nothing follows.
    """
    choose(study)
    later = study.now()
    if len(later.cells) > len(study.cells) or not report:
        return later
    write_study_report(study)
    return study.now()
