"""Cells that had failed when a study was archived: reports count them, and they are not done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from base.errors import UsageError
from base.records import unsealed, write_record
from slurm.archive.tar import is_run_id

_NAME = "failed.json"


def write_failures(archives: Path, errors: Mapping[str, str]) -> None:
    """Keep the errors of failed cells by run id; without any there is no file."""
    if errors:
        write_record(archives / _NAME, errors)
    else:
        (archives / _NAME).unlink(missing_ok=True)


def read_failures(archives: Path) -> dict[str, str]:
    """Return the errors of failed cells by run id.

    Raises:
        UsageError: If the file is damaged. It stays as it is, since it may be part of a repository.
    """
    file = archives / _NAME
    if not file.exists():
        return {}
    try:
        errors = unsealed(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{file} is damaged ({error}); fetch it anew") from None
    if odd := [run_id for run_id in errors if not is_run_id(run_id)]:
        raise UsageError(f"{file} is damaged ({odd[0][:40]!r} is no run); fetch it anew")
    return {run_id: str(error) for run_id, error in errors.items()}
