"""Studies from Python. What only reads a study's folder loads no torch."""

from __future__ import annotations

import html
import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import yaml

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import write_text
from base.other_names import OtherNames
from base.run.folder_names import StudyFolder
from ffn_ablations.comparing import Comparison, compare
from ffn_ablations.flags_as_keywords import (
    KeywordError,
    as_yaml,
    one_line_errors,
    read_keywords,
    typed_values,
)
from ffn_ablations.runs import Run, Runs, Trained, as_html, load_config
from ffn_ablations.wording import shown_briefly
from ffn_variants.names import names_file
from slurm.arguments import SubmitArgs, runs_dir_override
from slurm.cell_state import CellState, read_listing, survey
from slurm.commands import render, status_of


@one_line_errors()
def study(
    name: str | os.PathLike[str] | Mapping[str, Any],
    *,
    runs_dir: str | os.PathLike[str] | None = None,
    **sections: Any,
) -> Study:
    """Open a study, or write one.

    Args:
        name: The name of a shipped study (``"quickstart"``), the path of a study's YAML file, or its folder
            below ``runs/``; of a new one its name, or the content of its file as a mapping.
        runs_dir: Folder of all runs, in place of the one in the configuration.
        **sections: Of a new one, what its file holds, which is written as ``<name>.yaml``: ``families="tiny",
            variants=["gelu", "kan"], seeds="1-3"``; settings of ``train`` become its config, ``suites``
            its evaluation.

    Raises:
        UsageError: If there is no such study, a value in its file does not fit, or there is a file of another
            content.
    """
    if sections or isinstance(name, Mapping):
        name = _written(
            {**name, **sections} if isinstance(name, Mapping) else {"name": os.fspath(name), **sections}
        )
    if not isinstance(name, str | os.PathLike):
        raise UsageError(f"{shown_briefly(name)} names no study; give a name, a YAML file, or its content")
    path, runs = Path(name), None if runs_dir is None else Path(runs_dir)
    if path.is_dir():
        return Study(path, None, runs)
    return Study(_with_torch("study.study").folder_of(path, runs_dir_override(runs)), path, runs)


def _written(content: dict[str, Any]) -> Path:
    """Write the file of a study, which stays only if it is one.

    Raises:
        UsageError: If it is none, or there is a file of another content.
    """
    fields = _with_torch("study.study_config").StudyConfig.model_fields
    file = Path(f"{content.get('name')}.yaml")
    settings = {name: content.pop(name) for name in [*content] if name not in fields}
    for name in ("base", "model"):
        if isinstance(settings.get(name), str):
            content["families"] = settings.pop(name)
    if isinstance(content.get("seeds"), int):  # as train takes them
        content["seeds"] = list(range(1, content["seeds"] + 1))
    if suites := settings.pop("suites", None):
        content["evaluation"] = {"suites": [suites] if isinstance(suites, str) else list(suites)}
    for name in settings.keys() & SubmitArgs.model_fields.keys():
        raise KeywordError(f"{name} is a keyword of run: study({file.stem!r}).run({name}=...)")
    if settings:
        typed = typed_values(importlib.import_module("pretrain.config").RunConfig, settings, fields)
        content["config"] = typed.onto(content.get("config", {}))
    if isinstance(base := content.get("families"), str):
        content["families"] = {load_config(base).get("family", "gpt_neo"): base}
    if isinstance(variants := content.get("variants"), list | tuple):
        content["variants"] = variants = list(map(_place, variants))
        if any(map(callable, variants)):
            raise UsageError('a study takes a class from its file: variants=["gelu", "mine.py:MyFFN"]')
        own_values: Any = sys.modules.get("ffn_ablations.own_values")  # where a class may have been given
        for place in filter(names_file, map(str, variants)) if own_values else ():
            own_values.make_way(place)
    text = yaml.safe_dump(as_yaml(content), sort_keys=False)
    if file.exists() and read_yaml(file) == as_yaml(content):
        return file
    if file.exists():
        raise UsageError(f"{file} has another content; remove it, or give the study another name")
    try:
        write_text(file, text)
        _with_torch("study.study").load_study(file)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return file


def _place(variant: Any) -> Any:
    """Return where a class of a module in a file stands, ``mine.py:MyFFN``; anything else as it is."""
    file = getattr(sys.modules.get(getattr(variant, "__module__", "")), "__file__", None)
    is_a_users = callable(variant) and file and variant.__module__ != "__main__"  # a script would run again
    return f"{file}:{variant.__qualname__}" if is_a_users else variant


def _with_torch(module: str) -> Any:
    """Import a module of ``slurm`` that needs the full installation."""
    return importlib.import_module(f"slurm.{module}")


@dataclass(frozen=True, init=False, repr=False)
class Study(Trained):
    """A study: families, variants and seeds, of which every combination is a cell.

    Args:
        folder: Where its runs lie.
        file: Its YAML file, or the name of a shipped one; None where only its folder is known.
        runs_dir: What it was opened with.
    """

    folder: Path
    file: Path | None
    runs_dir: Path | None = None
    from_yaml = from_file = staticmethod(study)

    other_names: ClassVar = OtherNames("attribute of a study")

    def __init__(
        self, folder: Any = None, file: Path | None = None, runs_dir: Path | None = None, **others: Any
    ):
        if others or folder is None or not (file or Path(folder).is_dir()):  # what study(...) takes
            name = others.pop("name", folder)
            vars(self).update(vars(study({} if name is None else name, runs_dir=runs_dir, **others)))
        else:
            vars(self).update(folder=Path(folder), file=file, runs_dir=runs_dir)

    @one_line_errors()
    def run(self, cluster: str = "local", **settings: Any) -> StudyStatus:
        """Train and score what is missing, then write the report: what the command ``study run`` does.

        Args:
            cluster: ``"slurm"`` hands its cells to the cluster whose login node this is.
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
        given = {"study": self.file, "runs_dir": self.runs_dir, "cluster": cluster}
        options = read_keywords(SubmitArgs, {**given, **settings})
        if _with_torch("launch").launch(options):
            raise UsageError(f"not all are done ({self.status.summary}), see above; the same call goes on")
        return self.status

    def dry_run(self) -> StudyStatus:
        """Print what ``run`` would do and what it costs, and train nothing."""
        return self.run(dry_run=True)

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
    def frame(self) -> pd.DataFrame:
        """One row a run, as of ``Runs``."""
        return self.runs.frame

    @property
    def scores(self) -> pd.DataFrame:
        """Every score so far of every run as rows."""
        return self.runs.scores

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

    def __call__(self) -> StudyStatus:
        """Return itself, so that ``study.status()`` is ``study.status``."""
        return self

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
