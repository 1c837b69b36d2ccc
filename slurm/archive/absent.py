"""Cells of which an archive holds no finished run: those that had failed, and those that had not ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from base.errors import UsageError
from base.records import parse_record, write_record
from slurm.archive.tar import is_run_id

_FAILED, _UNFINISHED = "failed.json", "unfinished.json"


def write_absent(archives: Path, failed: Mapping[str, str], unfinished: Mapping[str, str]) -> None:
    """Keep the errors of failed cells and the states of unfinished ones, by run id; no file without any."""
    for name, cells in ((_FAILED, failed), (_UNFINISHED, unfinished)):
        if cells:
            write_record(archives / name, cells)
        else:
            (archives / name).unlink(missing_ok=True)


def read_failures(archives: Path) -> dict[str, str]:
    """Return the errors of failed cells by run id; reports count them, and they are not done.

    Raises:
        UsageError: If the file is damaged. It stays as it is, since it may be part of a repository.
    """
    return _read(archives / _FAILED)


def read_unfinished(archives: Path) -> dict[str, str]:
    """Return where cells stood that had not ended, by run id; older archives do not say.

    Raises:
        UsageError: If the file is damaged.
    """
    return _read(archives / _UNFINISHED)


def _read(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    try:
        cells = parse_record(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{file} is damaged ({error}); fetch it anew") from None
    if odd := [run_id for run_id in cells if not is_run_id(run_id)]:
        raise UsageError(f"{file} is damaged ({odd[0][:40]!r} is no run); fetch it anew")
    return {run_id: str(text) for run_id, text in cells.items()}
