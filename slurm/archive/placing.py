"""Putting archived runs into their places, each whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from base.checksums import damage
from base.config_input import read_yaml
from base.errors import UsageError
from base.files import ABANDONED_S, mapping, remove_leftovers, write_atomically
from base.sentences import first_few
from pretrain.run.archived import lasting_states, read_archived
from pretrain.run.folders import FORMER_FILES, RunFolder, StudyFolder
from pretrain.run.manifest import mixed_up, read_completion
from slurm.archive.tar import SUFFIX, read_tar
from slurm.archive.whole import wrong_scores
from slurm.state.cell_state import CellState, read_state, write_state


@dataclass
class Placed:
    """What came of an archive."""

    restored: list[str] = field(default_factory=list)
    """Their ids."""
    there: int = 0
    """Runs that were in their places already."""
    unfinished: list[str] = field(default_factory=list)
    """Those of them that have not ended there."""
    wrong: list[str] = field(default_factory=list)
    """What cannot be brought back, and why, a sentence each."""


def place_study_files(archives: StudyFolder, study: StudyFolder) -> None:
    """Copy what a study asked, tuned and decided, unless it has begun here: then its own words stand."""
    if study.study_file.is_file():
        return
    if links := [file for file in archives.lasting_files() if file.is_symlink()]:
        raise UsageError(f"{links[0]} is a link; archives of a study are files; fetch them anew")
    # That file last: where this is killed, the next call copies all of them again.
    for file in reversed(archives.lasting_files()):
        content = file.read_bytes()
        write_atomically(study.path / file.name, lambda temporary, text=content: temporary.write_bytes(text))


def place_failures(failed: Mapping[str, str], study: StudyFolder) -> None:
    """Mark cells as failed, by run id with their errors, that had failed when the study was archived."""
    for run_id, error in failed.items():
        if read_state(study.path, run_id) == CellState():
            write_state(study.path, run_id, CellState(name="failed", error=error))


def place_archive(
    archive: Path, study: StudyFolder, failed: Container[str] = (), expected: Collection[str] = ()
) -> Placed:
    """Bring back the runs of one archive, ``<family>/<variant>.tar.xz``, those that failed as such.

    Args:
        archive: It.
        study: Where to.
        failed: Ids of cells that had failed.
        expected: Ids of the runs that it should hold.
    """
    placed = Placed()
    remove_leftovers(study.path, ABANDONED_S)
    try:
        runs = read_tar(archive)
    except (UsageError, OSError) as error:
        placed.wrong.append(str(error))
        return placed
    place = f"{archive.parent.name}/{archive.name.removesuffix(SUFFIX)}"
    if lacking := [name for run_id in expected if (name := run_id.rpartition("/")[2]) not in runs]:
        placed.wrong.append(f"{archive} lacks {first_few(lacking, 3)}; fetch the archive anew")
    aside = StudyFolder(study.path / f"restore.tmp-{os.getpid()}")
    try:
        for name, files in runs.items():
            run_id = f"{place}/{name}"
            run = study.run(run_id)
            if run.path.exists():
                placed.there += 1
                if not (run.is_complete or run.has_diverged):
                    placed.unfinished.append(run_id)
                continue
            try:
                kept = {file: content for file, content in files.items() if file not in FORMER_FILES}
                why = _write(kept, aside.run(run_id))
            except (NotADirectoryError, FileExistsError, IsADirectoryError) as error:
                why = f"its files have impossible names ({error.strerror})"
            if why:
                placed.wrong.append(f"{archive}: {name}: {why}; fetch the archive anew")
            elif _move(aside.run(run_id).path, run.path):
                if run_id not in failed:
                    write_state(study.path, run_id, CellState(name="done"))
                placed.restored.append(run_id)
            else:
                placed.there += 1
    finally:
        shutil.rmtree(aside.path, ignore_errors=True)
    return placed


def _write(files: Mapping[str, bytes], run: RunFolder) -> str | None:
    """Write the files of a run, and hold them against their checksums; says what is wrong."""
    for name, content in files.items():
        file = run.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return _what_is_wrong(run, files)


def _move(run: Path, target: Path) -> bool:
    """Move a run to its place whole; not where another command was there first."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        run.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        return False
    return True


def _what_is_wrong(run: RunFolder, files: Mapping[str, bytes]) -> str | None:
    known = {path.relative_to(run.path).as_posix() for path in run.lasting_files()}
    if extra := sorted(files.keys() - known):
        return f"{extra[0]} is no file of an archived run"
    try:
        config = read_yaml(run.config_file)
    except UsageError:
        return f"its {run.config_file.name} cannot be read"
    if (config.get("family"), mapping(config.get("model")).get("ffn")) != (run.family, run.path.parent.name):
        return "its config is of another family or variant than the archive"
    if (mixed := mixed_up(run)) or (run.has_diverged and not run.is_complete):
        return mixed
    completion, archived = read_completion(run), read_archived(run)
    if completion is None or archived is None:
        return "it is not finished, or no archived run"
    wrong = wrong_scores(run) or damage(run.path, lasting_states(run, completion) | archived.files)
    return next((f"{name} {why}" for name, why in wrong.items()), None)
