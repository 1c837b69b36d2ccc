"""Studies from Python. What only reads a study's folder loads no torch."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from base.errors import UsageError
from base.run.folders import StudyFolder
from ffn_ablations import html
from ffn_ablations.comparing import Comparison, compare
from ffn_ablations.errors import named, told
from ffn_ablations.runs import Run, Runs
from slurm.arguments import SubmitArgs
from slurm.cell_state import CellState
from slurm.commands import details, render
from slurm.survey import read_listing, survey


@told()
def study(name: str | os.PathLike[str], *, runs_dir: str | os.PathLike[str] | None = None) -> Study:
    """Open a study.

    Args:
        name: The name of a shipped study (``"quickstart"``), the path of a study's YAML file, or its folder
            below ``runs/``.
        runs_dir: Folder of all runs, in place of the one in the configuration.

    Raises:
        UsageError: If there is no such study, or a value in its file does not fit.
    """
    if not isinstance(name, str | os.PathLike):
        raise UsageError(f"{named(name)} is no study: give a name, or the path of its file or its folder")
    path, runs = Path(name), None if runs_dir is None else Path(runs_dir)
    if path.is_dir():
        return Study(path, None, runs)
    launching: Any = importlib.import_module("ffn_ablations.launching")
    return Study(launching.folder_of(path, runs), path, runs)


@dataclass(frozen=True)
class Study:
    """A study: families, variants and seeds, of which every combination is a cell.

    Args:
        folder: Where its runs lie.
        file: Its YAML file, or the name of a shipped one; None where only its folder is known.
        runs_dir: What it was opened with.
    """

    folder: Path
    file: Path | None
    runs_dir: Path | None = None

    @told()
    def run(
        self,
        *,
        workers: int = 2,
        cells_per_job: int = 1,
        retry_failed: bool = False,
        include_path: Iterable[str | os.PathLike[str]] = (),
        trust_remote_code: bool = False,
    ) -> StudyStatus:
        """Train and score on this machine what is missing, then write the report; the command ``study run``.

        Args:
            workers: Cells that run at the same time, each in a process of its own.
            cells_per_job: Cells that share one process, which saves its start.
            retry_failed: Also try cells again that ended with an error of their own.
            include_path: Folders of task files that the study names and you trust.
            trust_remote_code: Run the files of FFN variants that the study names, which are code.

        Returns:
            Where it stands then.

        Raises:
            UsageError: For a mistake, or where cells are not done at the end. After that, and after Ctrl-C,
                the same call goes on.
        """
        if self.file is None:
            raise UsageError(
                f"{self.folder} is a folder; open the study by its name or its YAML file to run it"
            )
        for name, value in (("workers", workers), ("cells_per_job", cells_per_job)):
            if not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} is {named(value)}; it must be 1 or more")
        options = SubmitArgs(
            study=self.file,
            workers=workers,
            cells_per_job=cells_per_job,
            runs_dir=self.runs_dir,
            include_path=tuple(map(Path, include_path)),
            retry_failed=retry_failed,
            trust_remote_code=trust_remote_code,
        )
        launching: Any = importlib.import_module("ffn_ablations.launching")
        if launching.launch(options):
            counts = ", ".join(f"{count} {name}" for name, count in sorted(self.status.counts.items()))
            raise UsageError(
                f"not all cells are done ({counts}); the reasons stand above, and the same call goes on"
            )
        return self.status

    @property
    def status(self) -> StudyStatus:
        """Where every cell stands, as the command ``study status`` shows it."""
        with told():
            if StudyFolder(self.folder).study_file.is_file() or self.file is None:
                listing = read_listing(self.folder)
                run_ids, note = listing.run_ids, listing.note
            else:
                launching: Any = importlib.import_module("ffn_ablations.launching")
                run_ids, note = launching.cells_of(self.file, self.runs_dir), ""
            return StudyStatus(self.folder, survey(self.folder, run_ids), note)

    @property
    def runs(self) -> Runs:
        """Every run of it that is trained."""
        folders = StudyFolder(self.folder).run_folders()
        return Runs([Run(run.path) for run in folders if run.is_run and (run.has_model or run.is_archived)])

    @property
    def report(self) -> Comparison:
        """What its report says, computed from what is done so far."""
        return compare(self.folder)

    def __repr__(self) -> str:
        return f"Study({os.fspath(self.folder)!r})\n{self.status!r}"

    def _repr_html_(self) -> str:
        return self.status._repr_html_()


@dataclass(frozen=True)
class StudyStatus:
    """Where the cells of a study stand.

    Args:
        folder: The study's.
        states: Of every cell by its run's id.
        note: What is amiss with the list of cells.
    """

    folder: Path
    states: Mapping[str, CellState]
    note: str = ""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many cells are waiting, queued, running, done, failed or missing."""
        return Counter(str(state.name) for state in self.states.values())

    @property
    def frame(self) -> pd.DataFrame:
        """One row a cell: run_id, state, and in words what is to be said of it."""
        rows = [
            (run_id, state.name, details(state, self.folder / run_id))
            for run_id, state in self.states.items()
        ]
        return pd.DataFrame(rows, columns=["run_id", "state", "details"])

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self.note, render(self.folder, self.states)]))

    def _repr_html_(self) -> str:
        counted = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        title = f"{self.folder}: {len(self.states)} cells: {counted} {self.note}"
        return html.table(("run", "state", ""), self.frame.itertuples(index=False), title)
