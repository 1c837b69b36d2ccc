"""Reading JSON that another tool wrote, with one line for what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from base.errors import UsageError, first_line


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UsageError: If it cannot be read, or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # bytes that are no text, numbers without an end
        raise UsageError(f"{path} is not JSON ({first_line(error)}); was it cut off?") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def damaged(path: Path, label: str, error: Exception) -> UsageError:
    """Build the error for a file that has not what its format says."""
    what = f"no {error}" if isinstance(error, KeyError) else first_line(error)
    return UsageError(f"{path} is not as {label} are ({what}); was it edited?")
