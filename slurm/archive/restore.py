"""Bring back a study from its archives: what its report reads, without models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from base.config_input import read_yaml
from base.errors import UsageError
from base.names import check_name
from pretrain.run.folders import StudyFolder
from slurm.archive.absent import read_failures, read_unfinished
from slurm.archive.placing import Placed, place_archive, place_failures, place_study_files
from slurm.archive.tar import SUFFIX
from slurm.archive.whole import check_whole
from slurm.state.listing import read_listing


def restore(folder: Path, runs_dir: Path) -> int:
    """Bring a study back; returns 2 where something is damaged or lacking, and the others are brought back.

    Args:
        folder: That of its archives.
        runs_dir: Folder of all runs; the study gets one in it, of its name.

    Raises:
        UsageError: If there are no archives, or nothing can be written.
    """
    found = StudyFolder(folder)
    archives = set(folder.glob(f"*/*{SUFFIX}"))
    if not archives or not found.study_file.is_file():
        raise UsageError(
            f"{folder} holds no archives of a study ({found.study_file.name} and "
            f"<family>/<variant>{SUFFIX}); name the folder that ffn-ablations study archive wrote"
        )
    study = StudyFolder(runs_dir / _name_of(found.study_file))
    cells = check_whole(found, "fetch it anew")
    failed, was_there = read_failures(found.path), study.study_file.is_file()
    expected = sorted(set(cells) - failed.keys() - read_unfinished(found.path).keys())
    by_archive = {archive: [] for archive in archives} | {
        folder / f"{variant}{SUFFIX}": list(run_ids)
        for variant, run_ids in groupby(expected, lambda run_id: run_id.rpartition("/")[0])
    }
    try:
        place_study_files(found, study)
        place_failures(failed, study)
    except OSError as error:
        raise UsageError(f"{study.path}: {error.strerror}; name another folder with --runs-dir") from None
    placed = [place_archive(path, study, failed, run_ids) for path, run_ids in sorted(by_archive.items())]
    wrong = [line for one in placed for line in one.wrong]
    for line in wrong:
        print(f"left out: {line}")
    restored, there = [run_id for one in placed for run_id in one.restored], sum(one.there for one in placed)
    beside = f"; {there} were there already" if there else ""
    print(f"{study.path}: {len(restored)} finished runs brought back, without their models{beside}")
    for note in _notes(study, found, placed, was_there):
        print(f"note: {note}")
    return 2 if wrong else 0


def _notes(
    study: StudyFolder, found: StudyFolder, placed: Sequence[Placed], was_there: bool
) -> Iterator[str]:
    """Say what a report or the study's command makes of what is there now."""
    if unfinished := [run_id for one in placed for run_id in one.unfinished]:
        yield (
            f"{len(unfinished)} of those that were there are not finished, such as {unfinished[0]}; the "
            "study's command goes on with them, or remove their folders and restore again"
        )
    if was_there and _report(study) != _report(found):
        yield f"{study.study_file} was there, asks otherwise than that of the archives, and stays"
    restored = {run_id for one in placed for run_id in one.restored}
    if others := restored - set(read_listing(study.path).run_ids):
        elsewhere = "; bring them back into another folder with --runs-dir" if was_there else ""
        yield f"{len(others)} of them are no cells of {study.study_file}: no report has them{elsewhere}"


def _name_of(study_file: Path) -> str:
    name = read_yaml(study_file).get("name")
    if name is None:
        raise UsageError(f"{study_file} names no study: it is empty or damaged; fetch it anew")
    try:
        return check_name(str(name))
    except ValueError as error:
        raise UsageError(f"{study_file}: {error}") from None


def _report(study: StudyFolder) -> object:
    return read_yaml(study.study_file).get("report")
