"""What is said of another tool's file that has not what its format says."""

from __future__ import annotations

from pathlib import Path

from base.errors import UsageError, first_line


def damaged(path: Path, label: str, error: Exception) -> UsageError:
    """Build the error for a file that has not what its format says."""
    what = f"no {error}" if isinstance(error, KeyError) else first_line(error)
    return UsageError(f"{path} is not as {label} are ({what}); was it edited?")
