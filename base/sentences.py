"""Words for a sentence of a message or a report."""

from __future__ import annotations

from collections.abc import Sequence


def first_few(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Join the first ``most`` names and count the others: ``"a, b and 3 more"``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more
