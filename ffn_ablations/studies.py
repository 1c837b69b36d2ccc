"""Studies from Python. What only reads a study's folder loads no torch."""

from __future__ import annotations

import html
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from base.errors import UsageError
from base.run.folder_names import StudyFolder
from ffn_ablations.comparing import Comparison, compare
from ffn_ablations.flags_as_keywords import one_line_errors, read_keywords
from ffn_ablations.runs import Run, Runs, as_html
from ffn_ablations.wording import shown_briefly
from slurm.arguments import SubmitArgs, runs_dir_override
from slurm.cell_state import CellState, read_listing, survey
from slurm.commands import render, status_of


@one_line_errors()
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
        raise UsageError(f"{shown_briefly(name)} names no study; write it to a YAML file and give its path")
    path, runs = Path(name), None if runs_dir is None else Path(runs_dir)
    if path.is_dir():
        return Study(path, None, runs)
    return Study(_with_torch("study.study").folder_of(path, runs_dir_override(runs)), path, runs)


def _with_torch(module: str) -> Any:
    """Import a module of ``slurm`` that needs the full installation."""
    return importlib.import_module(f"slurm.{module}")


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

    @one_line_errors()
    def run(self, **settings: Any) -> StudyStatus:
        """Train and score what is missing, then write the report: what the command ``study run`` does.

        Args:
            **settings: What is a flag of the command, with underscores: ``workers=2``, ``cells_per_job=4``,
                ``retry_failed=True``, ``trust_remote_code=True``.

        Returns:
            Where it stands then.

        Raises:
            UsageError: For a mistake, or where cells are not done at the end. After that, and after Ctrl-C,
                the same call goes on.
        """
        if self.file is None:
            raise UsageError(f"{self.folder} is a folder; open the study by its name or its YAML file")
        options = read_keywords(SubmitArgs, {"study": self.file, "runs_dir": self.runs_dir, **settings})
        if _with_torch("launch").launch(options):
            raise UsageError(f"not all are done ({self.status.summary}), see above; the same call goes on")
        return self.status

    @property
    def status(self) -> StudyStatus:
        """Where every cell stands, as the command ``study status`` shows it."""
        with one_line_errors():
            if StudyFolder(self.folder).study_file.is_file() or self.file is None:
                run_ids = read_listing(self.folder).run_ids
            else:
                load_study = _with_torch("study.study").load_study
                cells = load_study(self.file, runs_dir_override(self.runs_dir)).cells
                run_ids = tuple(cell.run_id for cell in cells)
            return StudyStatus(self.folder, survey(self.folder, run_ids))

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
    """

    folder: Path
    states: Mapping[str, CellState]

    @property
    def summary(self) -> str:
        """How many cells are waiting, queued, running, done, failed or missing."""
        _, notes = status_of(self.folder, self.states)
        return notes[-1].partition(": ")[2]

    @property
    def frame(self) -> pd.DataFrame:
        """One row a cell: run_id, its levels, state, and in words what is to be said of it."""
        rows, _ = status_of(self.folder, self.states)
        return pd.DataFrame(rows, columns=["run_id", "levels", "state", "details"])

    def __repr__(self) -> str:
        return render(self.folder, self.states)

    def _repr_html_(self) -> str:
        title = f"{self.folder}: {len(self.states)} cells: {self.summary}"
        return f"<p>{html.escape(title)}</p>{as_html(self.frame)}"
