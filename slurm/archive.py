"""Archive a study as one small file, everything that its report reads and no model; or bring it back.

    ffn-ablations study archive runs/zoo --out zoo.tar.xz
    ffn-ablations study archive zoo.tar.xz --restore
    ffn-ablations report runs/zoo --out report
    ffn-ablations study run zoo --add mine.py:SPEC --trust-remote-code

The third line writes the report again, from the same numbers. The fourth goes on with the study: what was
brought back is finished, and a newcomer is trained and judged like the others. Host names and command lines
are left out of an archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import shutil
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from base.command_line import Positional, parse_flags
from base.config_input import read_yaml
from base.errors import UsageError
from base.files import (
    ABANDONED_S,
    mapping,
    remove_leftovers,
    sha256_of,
    write_atomically,
    write_text,
)
from base.names import check_name
from base.records import peek_record
from base.run.folders import RunFolder, StudyFolder
from base.sections import Section
from base.wording import first_few
from slurm.state.cell_state import CellState
from slurm.state.survey import survey

if TYPE_CHECKING:
    from slurm.study.cells import Cell

CHECKSUMS = "SHA256SUMS"
"""The member of an archive that names all others with their checksums, as ``sha256sum -c`` reads them."""
FORMER = ".tar.xz"
"""In a folder of an older version: what the name of a variant's runs ends with, below that of its family."""
LARGEST = 4 * 2**30
"""Bytes of all members together; a hostile archive may promise any number."""
PRIVATE = ("host", "command")
"""Of each session in a run's record: what is left out."""


class ArchiveArgs(Section):
    """Archive a study: everything that its report reads, and no model; or bring it back."""

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
    options = parse_flags(ArchiveArgs, args, prog="ffn-ablations study archive", description=__doc__)
    if not options.restore:
        print(write_archive(StudyFolder(options.path), options.out))
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
        UsageError: If the folder holds no study or no finished run, or what the study asked or a run's record
            is damaged: nothing is written then.
    """
    if not study.study_file.is_file():
        raise UsageError(f"{study.path} holds no study (it has no {study.study_file.name}); name its folder")
    name, run_ids = _read_study(study)
    states = survey(study.path, run_ids)
    finished = [run_id for run_id in run_ids if _has_ended(study.run(run_id), states[run_id])]
    if not finished:
        raise UsageError(f"{study.path} has no finished run; run the study first")
    files = {path.name: path.read_bytes() for path in study.lasting_files()}
    for run_id in finished:
        files |= {f"{run_id}/{file}": content for file, content in _run_files(study.run(run_id)).items()}
    failed = {run_id: state.error for run_id, state in states.items() if state.name == "failed"}
    for run_id, state in _cell_states(finished, failed).items():
        files[study.cell_file(run_id).relative_to(study.path).as_posix()] = _json(state)
    out = out or Path(f"{name}.tar.xz")
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
        UsageError: If the archive is damaged or lacks something, or the study's folder is there.
    """
    if not archive.exists():
        raise UsageError(f"{archive} does not exist; name an archive that ffn-ablations study archive wrote")
    aside = runs_dir / f"restore.tmp-{os.getpid()}"
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        remove_leftovers(runs_dir, ABANDONED_S)
        study = _copy_former(archive, aside) if archive.is_dir() else _unpack(archive, aside)
        target = runs_dir / study.path.name
        if target.exists():
            raise UsageError(f"{target} is there; remove it, or name another folder with --runs-dir")
        study.path.rename(target)
    except OSError as error:
        raise UsageError(
            f"{error.filename or runs_dir}: {error.strerror}; name another folder with --runs-dir"
        ) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        with suppress(OSError):  # it has other studies
            runs_dir.rmdir()
    num_runs = sum(run.is_archived or run.has_diverged for run in StudyFolder(target).run_folders())
    return f"{target}: {num_runs} finished runs brought back, without their models"


def check_archived(cells: Iterable[Cell]) -> None:
    """Refuse to score runs whose models were left out: nothing can be measured of them.

    Args:
        cells: Those that are to be run.

    Raises:
        UsageError: Naming one of them, and how many there are.
    """
    if lacking := [cell for cell in cells if RunFolder(cell.run_dir).is_archived]:
        raise UsageError(
            f"{len(lacking)} runs were archived without their models and lack scores that the study asks "
            f"for, such as {lacking[0].run_dir}; ask for what they have, or remove their folders, and they "
            "are trained here"
        )


def _read_study(study: StudyFolder) -> tuple[str, list[str]]:
    """Return a study's name and the ids of its runs, from its file."""
    content = read_yaml(study.study_file)
    cells = content.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, str) for cell in cells):
        raise UsageError(f"{study.study_file} is damaged: it does not say which runs the study has")
    try:
        return check_name(str(content.get("name"))), cells
    except ValueError as error:
        raise UsageError(f"{study.study_file}: {error}") from None


def _has_ended(run: RunFolder, state: CellState) -> bool:
    """Whether a cell is done, its scores included, or its training diverged."""
    return run.has_diverged or (run.is_complete and state.name in ("done", "waiting"))


def _run_files(run: RunFolder) -> dict[str, bytes]:
    """Read what is kept of a run: its record without what is private, and what its model's weights were."""
    files = {path.relative_to(run.path).as_posix(): path.read_bytes() for path in run.lasting_files()}
    record = peek_record(run.provenance_file)
    if not record:
        raise UsageError(
            f"{run.provenance_file} is damaged or gone; remove the run's folder to train it anew"
        )
    sessions = [
        {name: value for name, value in session.items() if name not in PRIVATE}
        for session in record.get("sessions", [])
    ]
    files[run.provenance_file.name] = _json(record | {"sessions": sessions})
    if run.is_complete:
        from eval.identity import weights_hash  # loads torch, which --help and a restore do without

        files[run.archive_marker.name] = _json({"weights": weights_hash(run.path)})
    return files


def _cell_states(finished: Iterable[str], failed: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return by run id where cells stand; reports count those that failed."""
    states = {run_id: {"name": "done"} for run_id in finished}
    return states | {run_id: {"name": "failed", "error": error} for run_id, error in failed.items()}


def _json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode()


def _write_tar(path: Path, top: str, files: Mapping[str, bytes]) -> None:
    """Write files below one folder: the same bytes for the same files, and no owner and no time."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    checksums = "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode()
    with tarfile.open(path, "w:xz", preset=9) as tar:
        for name, content in {CHECKSUMS: checksums, **{name: files[name] for name in sums}}.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def _unpack(archive: Path, aside: Path) -> StudyFolder:
    """Unpack an archive beside the place of its study, and hold every file against its checksum."""
    _extract(archive, aside)
    folders = list(aside.iterdir())
    sums_file = folders[0] / CHECKSUMS if len(folders) == 1 else None
    if sums_file is None or not sums_file.is_file():
        raise UsageError(
            f"{archive} is no archive of a study; name one that ffn-ablations study archive wrote"
        )
    lines = (line.partition("  ") for line in sums_file.read_text(encoding="utf-8").splitlines())
    checksums = {name: digest for digest, _, name in lines}
    sums_file.unlink()
    _check(archive, folders[0], checksums)
    added = {path.relative_to(folders[0]).as_posix() for path in folders[0].rglob("*") if path.is_file()}
    if added := sorted(added - checksums.keys()):
        raise UsageError(f"{archive} holds {added[0]}, which is none of its files; fetch it anew")
    return StudyFolder(folders[0])


def _copy_former(archive: Path, aside: Path) -> StudyFolder:
    """Unpack what an older version wrote: a study's files in a folder, and a file for each variant's runs."""
    former = StudyFolder(archive)
    if not former.study_file.is_file():
        raise UsageError(f"{archive} holds no archive of a study; name a file that study archive wrote")
    name, run_ids = _read_study(former)
    study = StudyFolder(aside / name)
    study.path.mkdir(parents=True)
    for file in former.lasting_files():
        shutil.copyfile(file, study.path / file.name, follow_symlinks=False)
    for packed in archive.glob(f"*/*{FORMER}"):
        _extract(packed, study.path / packed.parent.name / packed.name.removesuffix(FORMER))
    failed = peek_record(archive / "failed.json")
    absent = failed.keys() | peek_record(archive / "unfinished.json").keys()
    if lacking := [run_id for run_id in run_ids if run_id not in absent and not study.run(run_id).is_run]:
        raise UsageError(f"{archive} lacks {first_few(lacking, 3)}; fetch it anew")
    _check(archive, study.path, _former_checksums(study))
    for run_id, state in _cell_states(set(run_ids) - absent, failed).items():
        write_text(study.cell_file(run_id), _json(state).decode())
    return study


def _former_checksums(study: StudyFolder) -> dict[str, str]:
    """Return the checksums of what the markers of its runs name, but for the models, which are left out."""
    return {
        f"{run.run_id}/{name}": str(mapping(state).get("sha256"))
        for run in study.run_folders()
        for name, state in mapping(peek_record(run.completion_marker).get("files")).items()
        if not name.startswith(f"{run.model_dir.name}/")
    }


def _extract(path: Path, into: Path) -> None:
    """Unpack a tar file; names that lead elsewhere, links to elsewhere and devices are refused.

    Raises:
        UsageError: If it is damaged, hostile or none.
    """
    if not hasattr(tarfile, "data_filter"):
        raise UsageError("--restore needs Python 3.11.4 or newer, which unpacks archives safely")
    try:
        with tarfile.open(path, "r:xz") as tar:
            size = sum(member.size for member in tar)
            if size <= LARGEST:
                tar.extractall(into, filter="data")
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError) as error:
        raise UsageError(f"{path} is damaged, or no archive of a study ({error}); fetch it anew") from None
    if size > LARGEST:
        raise UsageError(f"{path} holds more than {LARGEST / 2**30:g} GiB; it is no archive of a study")


def _check(archive: Path, folder: Path, checksums: Mapping[str, str]) -> None:
    """Refuse an archive of which a file is lacking, damaged, or another one."""
    wrong = [
        f"{name} is {'damaged' if (folder / name).is_file() else 'lacking'}"
        for name, digest in checksums.items()
        if not (folder / name).is_file() or sha256_of(folder / name) != digest
    ]
    if wrong:
        raise UsageError(f"{archive}: {first_few(wrong, 3)}; fetch it anew")
