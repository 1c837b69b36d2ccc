"""Names as a reader writes them, and as a file can carry them."""

from __future__ import annotations

import re

from base import families
from eval.significance.factor import split_family, stratum


def family_label(label: str | None) -> str:
    """Name a family as a reader writes it, with its FFN variant if any; None is the average over families."""
    if label is None:
        return "averaged"
    family, variant = split_family(label)
    return stratum(families.family_label(family), variant)


def file_name(kind: str, benchmark: str) -> str:
    """Name a figure's file, whatever characters a table puts into a benchmark's name."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9._-]+', '-', benchmark)}"
