"""Reading JSON that anybody may have written: whatever it is, what is wrong with it is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from base.errors import UsageError, first_line


def parse_json(text: str | bytes) -> Any:
    """Read JSON.

    Raises:
        ValueError: Saying why it is none, or none that anybody means: nested without end, or with a whole
            number of thousands of digits.
    """
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except RecursionError:
        raise ValueError("it is nested deeper than any data") from None
    except ValueError:  # by Python's limit
        raise ValueError("it has a whole number of thousands of digits") from None


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UsageError: If it cannot be read, or is not JSON.
    """
    try:
        return parse_json(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({first_line(error)}); was it cut off?") from None
