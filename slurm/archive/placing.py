"""Putting archived runs into their places, each whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from base.checksums import damage
from base.errors import UsageError
from base.files import write_atomically
from eval.results.ledger import look
from pretrain.run.archived import lasting_states
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.manifest import mixed_up, read_completion
from slurm.archive.tar import SUFFIX, read_tar
from slurm.state import CellState, write_state


@dataclass
class Placed:
    """What came of an archive."""

    restored: int = 0
    there: int = 0
    """Runs that were in their places already, whatever is in them."""
    wrong: list[str] = field(default_factory=list)
    """What cannot be brought back, and why, a sentence each."""


def place_study_files(archives: StudyFolder, study: StudyFolder) -> None:
    """Copy what a study asked, tuned and decided, unless it has begun here: then its own words stand."""
    if study.lasting_files():
        return
    for file in archives.lasting_files():
        content = file.read_bytes()
        write_atomically(study.path / file.name, lambda temporary, text=content: temporary.write_bytes(text))


def place_archive(archive: Path, study: StudyFolder) -> Placed:
    """Bring back the runs of one archive, ``<family>/<variant>.tar.xz``."""
    placed = Placed()
    try:
        runs = read_tar(archive)
    except UsageError as error:
        placed.wrong.append(str(error))
        return placed
    parent = study.path / archive.parent.name / archive.name.removesuffix(SUFFIX)
    for name, files in runs.items():
        target = RunFolder(parent / name)
        if target.path.exists():
            placed.there += 1
        elif why := _place(files, target):
            placed.wrong.append(f"{archive}: {name}: {why}")
        else:
            write_state(study.path, target.run_id, CellState(name="done"))
            placed.restored += 1
    return placed


def _place(files: Mapping[str, bytes], target: RunFolder) -> str | None:
    """Write a run beside its place, hold it against its checksums, and move it there; says what is wrong."""
    beside = RunFolder(target.path.with_name(f"{target.path.name}.tmp-{os.getpid()}"))
    try:
        for name, content in files.items():
            file = beside.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        if why := _what_is_wrong(beside, files):
            return why
        beside.path.rename(target.path)
    finally:
        shutil.rmtree(beside.path, ignore_errors=True)
    return None


def _what_is_wrong(run: RunFolder, files: Mapping[str, bytes]) -> str | None:
    known = {path.relative_to(run.path).as_posix() for path in run.lasting_files()}
    if extra := sorted(files.keys() - known):
        return f"{extra[0]} is no file of an archived run"
    if run.has_diverged:
        return None
    completion = read_completion(run)
    if completion is None or not run.is_archived:
        return "it is not finished, or no archived run"
    wrong = damage(run.path, lasting_states(run, completion))
    wrong |= {f"{run.eval_dir.name}/{name}": why for name, why in look(run)[1].items()}
    return next((f"{name} {why}" for name, why in wrong.items()), mixed_up(run))
