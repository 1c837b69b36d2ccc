"""What of a study is archived: finished runs without their models, and what the study asked and chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from base.checksums import FileState, damage
from base.errors import UsageError
from base.files import write_atomically
from base.records import sealed, unsealed
from eval.models.identity import weights_hash
from eval.results.ledger import look
from pretrain.run.archived import Archived, lasting_states
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.manifest import read_completion
from slurm.archive.tar import SUFFIX, write_tar
from slurm.listing import read_listing

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
    # Runs that are no cells, as of a grid that was given up, are in no report.
    runs = [study.run(run_id) for run_id in read_listing(study.path).run_ids]
    finished = [run for run in runs if run.is_complete or run.has_diverged]
    if not finished:
        raise UsageError(f"{study.path} has no finished run; run the study first")
    kept: dict[Path, dict[str, dict[str, bytes]]] = {}
    for run in finished:
        place = out / run.family / f"{run.path.parent.name}{SUFFIX}"
        kept.setdefault(place, {})[run.path.name] = _contents(run)
    num_changed = sum([write_tar(place, own) for place, own in kept.items()])
    for file in study.lasting_files():
        write_atomically(
            out / file.name, lambda temporary, file=file: temporary.write_bytes(file.read_bytes())
        )
    size = sum(place.stat().st_size for place in kept) / 1000
    done = (
        f"{out}: {len(finished)} runs in {len(kept)} archives, {size:,.0f} kB; {num_changed} of them changed"
    )
    return [done, *_left_out([run.run_id for run in runs if run not in finished])]


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
