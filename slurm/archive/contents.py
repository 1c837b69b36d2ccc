"""What of a study is archived: finished runs without their models, and what the study asked and chose."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import FileState, damage, write_atomically
from base.records import parse_record, record_text
from base.sentences import first_few
from eval.models.identity import weights_hash
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.manifest import Archived, lasting_states, read_completion
from slurm.archive.absent import write_absent
from slurm.archive.tar import SUFFIX, read_tar, write_tar
from slurm.archive.whole import check_whole, wrong_scores
from slurm.state.cell_state import CellState, read_state
from slurm.state.listing import read_listing

_PRIVATE = ("host", "command")
"""Of each session in a run's record."""


class Kept(NamedTuple):
    """What came of archiving a study, in lines."""

    done: str
    notes: list[str]
    """What was left out, or stays as it was."""
    has_damage: bool
    """Whether a finished run is damaged."""


def write_archives(study: StudyFolder, out: Path) -> Kept:
    """Write the archives of a study.

    Args:
        study: The study's folder.
        out: Folder for them.

    Raises:
        UsageError: If the folder holds no study or no finished run, or if what the study asked or chose is
            damaged: nothing is written then.
    """
    if not study.study_file.is_file():
        raise UsageError(f"{study.path} holds no study (it has no {study.study_file.name}); name its folder")
    _refuse_another(study, StudyFolder(out))
    # Runs that are no cells, as of a grid that was given up, are in no report.
    run_ids = read_listing(study.path).run_ids
    check_whole(study, "give the study's command again, which writes it anew")
    states = {run_id: read_state(study.path, run_id) for run_id in run_ids}
    runs = [study.run(run_id) for run_id in run_ids]
    finished = [run for run in runs if _has_ended(run, states[run.run_id])]
    if not finished:
        raise UsageError(f"{study.path} has no finished run; run the study first")
    kept, dropped = _archived_before(finished, out, run_ids)
    damaged = []
    for run in finished:
        own = kept[_place(run, out)]
        try:
            own[run.path.name] = _contents(run)
        except UsageError as error:
            is_kept = run.path.name in own
            damaged.append(f"{'kept as archived before' if is_kept else 'left out'}: {error}")
    num_changed = sum([write_tar(place, own) for place, own in kept.items() if own])
    failed = {name: state.error for name, state in states.items() if state.name == "failed"}
    here = {_run_id(place, name) for place, own in kept.items() for name in own}
    write_absent(
        out, failed, {name: states[name].name for name in run_ids if name not in here | failed.keys()}
    )
    for file in study.lasting_files():
        write_atomically(
            out / file.name, lambda temporary, file=file: temporary.write_bytes(file.read_bytes())
        )
    size, num_kept = (
        sum(place.stat().st_size for place, own in kept.items() if own) / 1000,
        sum(map(len, kept.values())),
    )
    done = f"{out}: {num_kept} runs in {len(kept)} archives, {size:,.0f} kB; {num_changed} of them changed"
    unfinished = [run.run_id for run in runs if run not in finished]
    gone = [f"dropped: {dropped} archived runs that are no cells of the study any more"] * bool(dropped)
    return Kept(done, [*damaged, *gone, *_left_out(unfinished), *_only_there(study, out)], bool(damaged))


def _only_there(study: StudyFolder, out: Path) -> list[str]:
    """Name files of an earlier archive that the study has not any more."""
    here = {file.name for file in study.lasting_files()}
    gone = [file.name for file in StudyFolder(out).lasting_files() if file.name not in here]
    return [f"kept as archived before: {name}, which {study.path} has no more" for name in gone]


def _refuse_another(study: StudyFolder, out: StudyFolder) -> None:
    """Refuse a folder that has the archives of another study."""
    if not out.study_file.is_file():
        return
    names = [read_yaml(folder.study_file).get("name") for folder in (study, out)]
    if names[0] != names[1]:
        raise UsageError(f"{out.path} has the archives of the study {names[1]!r}; name another folder")


def _has_ended(run: RunFolder, state: CellState) -> bool:
    """Whether a cell is done, its scores included, or its training diverged."""
    return run.has_diverged or (run.is_complete and state.name in ("done", "waiting"))


def _place(run: RunFolder, out: Path) -> Path:
    return out / run.family / f"{run.path.parent.name}{SUFFIX}"


def _run_id(place: Path, name: str) -> str:
    return f"{place.parent.name}/{place.name.removesuffix(SUFFIX)}/{name}"


def _archived_before(
    finished: Iterable[RunFolder], out: Path, run_ids: Container[str]
) -> tuple[dict[Path, dict[str, dict[str, bytes]]], int]:
    """Read by place what earlier archives have of the study, whether or not the runs' folders are here.

    Returns:
        That, and how many runs of them are none of the study any more.
    """
    kept, dropped = {}, 0
    for place in dict.fromkeys(_place(run, out) for run in finished):
        before = read_tar(place) if place.is_file() else {}
        kept[place] = {name: files for name, files in before.items() if _run_id(place, name) in run_ids}
        dropped += len(before) - len(kept[place])
    return kept, dropped


def _left_out(run_ids: Sequence[str]) -> list[str]:
    return [f"left out, not finished: {first_few(run_ids, 1)}"] if run_ids else []


def _contents(run: RunFolder) -> dict[str, bytes]:
    """Read what is kept of a run: its record without what is private, and a marker that fits it.

    Raises:
        UsageError: If a file is not as the run left it.
    """
    completion = read_completion(run)
    wrong = damage(run.path, lasting_states(run, completion)) if completion else {}
    wrong |= wrong_scores(run)
    if wrong:
        name, why = next(iter(wrong.items()))
        raise UsageError(f"{run.path / name} {why}; give the study's command again, which mends what it can")
    files = {path.relative_to(run.path).as_posix(): path.read_bytes() for path in run.lasting_files()}
    record = run.provenance_file.name
    if record not in files:
        raise UsageError(f"{run.provenance_file} is gone; remove the run's folder to train it anew")
    files[record] = _without_private(files[record])
    if completion:
        states = {**completion.files, record: FileState.of(files[record])}
        marker = asdict(replace(completion, files=states))
        files[run.completion_marker.name] = record_text(marker).encode()
        files.pop(run.archive_marker.name, None)  # of one that was brought back
        states = {name: FileState.of(content) for name, content in sorted(files.items())}
        archived = Archived(weights=weights_hash(run.path), files=states)
        files[run.archive_marker.name] = record_text(asdict(archived)).encode()
    return files


def _without_private(record: bytes) -> bytes:
    values = parse_record(record)
    sessions = [
        {name: value for name, value in session.items() if name not in _PRIVATE}
        for session in values.get("sessions", [])
    ]
    return record_text(values | {"sessions": sessions}).encode()
