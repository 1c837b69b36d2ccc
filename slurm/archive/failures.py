"""Cells that had failed when a study was archived: reports count them, and they are not done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from base.records import read_record, write_record

_NAME = "failed.json"


def write_failures(archives: Path, errors: Mapping[str, str]) -> None:
    """Keep the errors of failed cells by run id; without any there is no file."""
    if errors:
        write_record(archives / _NAME, errors)
    else:
        (archives / _NAME).unlink(missing_ok=True)


def read_failures(archives: Path) -> dict[str, str]:
    """Return the errors of failed cells by run id."""
    return {str(run_id): str(error) for run_id, error in (read_record(archives / _NAME, dict) or {}).items()}
