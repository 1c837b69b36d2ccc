"""Archive a study as one small file, and bring it back."""

from __future__ import annotations

import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from base.command_line import Positional, parse_flags
from base.config_input import find_study_folder, near_study, read_yaml
from base.errors import UsageError
from base.files import ABANDONED_S, remove_leftovers, write_atomically
from base.options import check_name
from base.printing import first_few
from base.records import peek_record, record_text
from base.run.folder_names import RunFolder, StudyFolder
from base.sections import Section
from slurm.cell_state import CellState, read_listing, survey

PACKED = ".tar.xz"
"""In the folder of an older version: what the name of a variant's runs ends with."""
PRIVATE = ("host", "command")
"""Of each session in a run's record: what is left out."""


class ArchiveArgs(Section):
    """Archive a study as one small file, everything that its report reads and no model; or bring it back.

        ffn-ablations study archive runs/zoo --out zoo.tar.xz
        ffn-ablations study archive zoo.tar.xz --restore
        ffn-ablations report runs/zoo --out report
        ffn-ablations study run zoo --add mine.py:SPEC

    The third line writes the report again, from the same numbers. The fourth goes on with the study: what was
    brought back is finished, and a newcomer is trained and judged like the others. Host names and command
    lines are left out of an archive.
    """

    path: Positional[Path]
    """The study's folder, such as runs/zoo; with --restore the archive."""
    out: Path | None = None
    """The archive to be written (default: zoo.tar.xz here, of the study's name)."""
    restore: bool = False
    """Bring a study back from its archive."""
    runs_dir: Path = Path("runs")
    """With --restore: the folder of all runs; the study gets one in it, of its name."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_flags(ArchiveArgs, args, prog="ffn-ablations study archive")
    if not options.restore:
        print(write_archive(StudyFolder(find_study_folder(options.path)), options.out))
    elif options.out is not None:
        raise UsageError("--out is for archiving, and --restore takes --runs-dir; leave one of them out")
    else:
        print(restore(options.path, options.runs_dir))


def write_archive(study: StudyFolder, out: Path | None = None) -> str:
    """Write the archive of a study and return what came of it, in one line.

    Args:
        study: The study's folder.
        out: The file; None takes the study's name.

    Raises:
        UsageError: If the folder holds no study or no finished run, or a run's record is damaged: nothing is
            written then.
    """
    if not study.study_file.is_file():
        raise UsageError(
            f"{study.path} holds no study (it has no {study.study_file.name}); name its folder. "
            + near_study(study.path, study.path)
        )
    name, run_ids = _read_study(study)
    states = survey(study.path, run_ids)
    finished = [run_id for run_id in run_ids if _has_ended(study.run(run_id), states[run_id])]
    if not finished:
        raise UsageError(f"{study.path} has no finished run; run the study first")
    files = {path.name: path.read_bytes() for path in study.lasting_files()}
    for run_id in finished:
        files |= {f"{run_id}/{file}": content for file, content in _run_files(study.run(run_id)).items()}
    for run_id, state in states.items():
        if state.name == "failed":  # reports count them
            place = study.cell_file(run_id).relative_to(study.path).as_posix()
            files[place] = record_text({"name": "failed", "error": state.error}).encode()
    out = out or Path(f"{name}{PACKED}")
    write_atomically(out, lambda temporary: _write_tar(temporary, name, files))
    unfinished = [run_id for run_id in run_ids if run_id not in finished]
    left_out = f"; left out, not finished: {first_few(unfinished, 1)}" if unfinished else ""
    return f"{out}: {len(finished)} runs, {out.stat().st_size / 1000:,.0f} kB{left_out}"


def restore(archive: Path, runs_dir: Path) -> str:
    """Bring a study back, whole or not at all, and return what came of it, in one line.

    Args:
        archive: A file of ``write_archive``, or the folder that an older version wrote.
        runs_dir: Folder of all runs.

    Raises:
        UsageError: If the archive is damaged or none, or the study's folder is there.
    """
    if not archive.exists():
        raise UsageError(f"{archive} does not exist; name an archive that ffn-ablations study archive wrote")
    aside = runs_dir / f"restore.tmp-{os.getpid()}"
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        remove_leftovers(runs_dir, ABANDONED_S)
        study = _unpack_folder(archive, aside) if archive.is_dir() else _unpack(archive, aside)
        name, _ = _read_study(StudyFolder(study))
        target = runs_dir / name
        if target.exists():
            raise UsageError(f"{target} is there; remove it, or name another folder with --runs-dir")
        study.rename(target)
    except OSError as error:
        raise UsageError(f"{error.filename or runs_dir}: {error.strerror}; name another --runs-dir") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        with suppress(OSError):  # it has other studies
            runs_dir.rmdir()
    num_runs = sum(run.is_archived or run.has_diverged for run in StudyFolder(target).run_folders())
    return f"{target}: {num_runs} finished runs brought back, without their models"


def _read_study(study: StudyFolder) -> tuple[str, tuple[str, ...]]:
    """Return a study's name and the ids of its runs, from its file."""
    run_ids = read_listing(study.path).run_ids
    try:
        return check_name(str(read_yaml(study.study_file).get("name"))), run_ids
    except ValueError as error:
        raise UsageError(f"{study.study_file}: {error}") from None


def _has_ended(run: RunFolder, state: CellState) -> bool:
    """Whether a cell is done, its scores included, or its training diverged."""
    return run.has_diverged or (run.has_marker and state.name in ("done", "waiting"))


def _run_files(run: RunFolder) -> dict[str, bytes]:
    """Read a run's files: its record without private fields, and for its model the hash of the weights."""
    files = {path.relative_to(run.path).as_posix(): path.read_bytes() for path in run.lasting_files()}
    record = peek_record(run.provenance_file)
    if not record:
        raise UsageError(f"{run.provenance_file} is damaged or gone; remove its folder to train it anew")
    sessions = [
        {name: value for name, value in session.items() if name not in PRIVATE}
        for session in record.get("sessions", [])
    ]
    files[run.provenance_file.name] = _json(record | {"sessions": sessions})
    if run.has_marker:
        from eval.identity import weights_hash  # loads torch, which --help and a restore do without

        files[run.archive_marker.name] = _json({"weights": weights_hash(run.path)})
    return files


def _json(values: Mapping[str, Any]) -> bytes:
    return record_text(values).encode()


def _write_tar(path: Path, top: str, files: Mapping[str, bytes]) -> None:
    """Write files below one folder: the same bytes for the same files, and no owner and no time.

    The format has a checksum over every block, so a damaged archive cannot be read.
    """
    with tarfile.open(path, "w:xz", preset=9) as tar:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def _unpack(archive: Path, aside: Path) -> Path:
    """Unpack an archive beside the place of its study; returns the study's folder."""
    _extract(archive, aside)
    folders = list(aside.iterdir())
    if len(folders) != 1 or not StudyFolder(folders[0]).study_file.is_file():
        raise UsageError(f"{archive} is no archive of a study; name one that study archive wrote")
    return folders[0]


def _unpack_folder(archive: Path, aside: Path) -> Path:
    """Unpack what an older version wrote: a study's files in a folder, and a file for each variant's runs."""
    if not StudyFolder(archive).study_file.is_file():
        raise UsageError(f"{archive} holds no archive of a study; name a file that study archive wrote")
    study = shutil.copytree(archive, aside / "study")
    for packed in sorted(study.glob(f"*/*{PACKED}")):
        _extract(packed, packed.with_name(packed.name.removesuffix(PACKED)))
        packed.unlink()
    return study


def _extract(path: Path, into: Path) -> None:
    """Unpack a tar file; names that lead elsewhere, links to elsewhere and devices are refused.

    Raises:
        UsageError: If it is damaged, hostile or none.
    """
    if not hasattr(tarfile, "data_filter"):
        raise UsageError("--restore needs Python 3.11.4 or newer, which unpacks archives safely")
    try:
        with tarfile.open(path, "r:xz") as tar:
            tar.extractall(into, filter="data")
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError) as error:
        raise UsageError(f"{path} is damaged, or no archive of a study ({error}); fetch it anew") from None
