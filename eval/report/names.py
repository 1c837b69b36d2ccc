"""Names as a reader writes them, and as a file can carry them."""

from __future__ import annotations

import re

FAMILY_LABELS = {"gpt_neo": "GPT-Neo", "roberta": "RoBERTa", "t5": "T5"}


def family_label(family: str | None) -> str:
    """Name a family as a reader writes it; None is the average over families."""
    return "averaged" if family is None else FAMILY_LABELS.get(family, family)


def file_name(kind: str, benchmark: str) -> str:
    """Name a figure's file, whatever characters a table puts into a benchmark's name."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9._-]+', '-', benchmark)}"
