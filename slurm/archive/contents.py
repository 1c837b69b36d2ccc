"""What of a study is archived: finished runs without their models, and what the study asked and chose."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from base.checksums import FileState, damage
from base.config_input import read_yaml
from base.errors import UsageError
from base.files import write_atomically
from base.records import sealed, unsealed
from eval.models.identity import weights_hash
from eval.results.ledger import look
from pretrain.run.archived import Archived, lasting_states
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.manifest import read_completion
from slurm.archive.failures import write_failures
from slurm.archive.tar import SUFFIX, read_tar, write_tar
from slurm.listing import read_listing
from slurm.state import CellState, read_state

_PRIVATE = ("host", "command")
"""Of each session in a run's record."""


def write_archives(study: StudyFolder, out: Path) -> list[str]:
    """Write the archives of a study.

    Args:
        study: The study's folder.
        out: Folder for them.

    Returns:
        What was done and what was left out, in lines.

    Raises:
        UsageError: If the folder holds no study, or no finished run, or a finished run is damaged.
    """
    if not study.study_file.is_file():
        raise UsageError(f"{study.path} holds no study (it has no {study.study_file.name}); name its folder")
    _refuse_another(study, StudyFolder(out))
    # Runs that are no cells, as of a grid that was given up, are in no report.
    run_ids = read_listing(study.path).run_ids
    states = {run_id: read_state(study.path, run_id) for run_id in run_ids}
    runs = [study.run(run_id) for run_id in run_ids]
    finished = [run for run in runs if _has_ended(run, states[run.run_id])]
    if not finished:
        raise UsageError(f"{study.path} has no finished run; run the study first")
    kept: dict[Path, dict[str, dict[str, bytes]]] = {}
    damaged = []
    for run in finished:
        place = out / run.family / f"{run.path.parent.name}{SUFFIX}"
        kept.setdefault(place, _archived_before(place, run_ids))
        try:
            kept[place][run.path.name] = _contents(run)
        except UsageError as error:
            damaged.append(f"left out: {error}")
    num_changed = sum([write_tar(place, own) for place, own in kept.items() if own])
    write_failures(out, {name: state.error for name, state in states.items() if state.name == "failed"})
    gone = {file.name for file in StudyFolder(out).lasting_files()}
    for name in gone - {file.name for file in study.lasting_files()}:
        (out / name).unlink()
    for file in study.lasting_files():
        write_atomically(
            out / file.name, lambda temporary, file=file: temporary.write_bytes(file.read_bytes())
        )
    size, num_kept = (
        sum(place.stat().st_size for place, own in kept.items() if own) / 1000,
        sum(map(len, kept.values())),
    )
    done = f"{out}: {num_kept} runs in {len(kept)} archives, {size:,.0f} kB; {num_changed} of them changed"
    return [done, *damaged, *_left_out([run.run_id for run in runs if run not in finished])]


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


def _archived_before(place: Path, run_ids: Container[str]) -> dict[str, dict[str, bytes]]:
    """Runs of an earlier archive that the study has still, whether or not their folders are here."""
    if not place.is_file():
        return {}
    variant = f"{place.parent.name}/{place.name.removesuffix(SUFFIX)}"
    return {name: files for name, files in read_tar(place).items() if f"{variant}/{name}" in run_ids}


def _left_out(run_ids: Sequence[str]) -> list[str]:
    more = f" and {len(run_ids) - 1} more" if len(run_ids) > 1 else ""
    return [f"left out, not finished: {run_ids[0]}{more}"] if run_ids else []


def _contents(run: RunFolder) -> dict[str, bytes]:
    """Read what is kept of a run: its record without what is private, and a marker that fits it.

    Raises:
        UsageError: If a file is not as the run left it.
    """
    completion = read_completion(run)
    wrong = damage(run.path, lasting_states(run, completion)) if completion else {}
    wrong |= {f"{run.eval_dir.name}/{name}": why for name, why in look(run)[1].items()}
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
        files[run.completion_marker.name] = sealed(marker).encode()
        files[run.archive_marker.name] = sealed(asdict(Archived(weights=weights_hash(run.path)))).encode()
    return files


def _without_private(record: bytes) -> bytes:
    values = unsealed(record)
    sessions = [
        {name: value for name, value in session.items() if name not in _PRIVATE}
        for session in values.get("sessions", [])
    ]
    return sealed(values | {"sessions": sessions}).encode()
