"""Several seeds as people write them: ``1,2,3``, ``1-3``, ``1 2 3`` or ``[1, 2, 3]``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from base.errors import UsageError

SEED_END = 2**32
"""Seeds of training and fine-tuning are below it, as NumPy and Accelerate take no other."""
LONGEST_RANGE = 10_000


def parse_seeds(values: Iterable[object], label: str, example: str) -> tuple[int, ...]:
    """Read seeds, each a number or words with commas and ranges; a range holds both its ends.

    Args:
        values: What was given.
        label: What messages begin with, may be empty.
        example: How they are written where these are from.

    Raises:
        UsageError: If there is none, or one is no whole number from 0 to below ``SEED_END``; names those.
            Also for a range longer than anybody means.
    """
    seeds: list[int] = []
    wrong: list[str] = []
    for value in values:
        for word in filter(None, (part.strip() for part in str(value).split(","))):
            found = _numbers(word, f"{label} " if label else "")
            seeds += found
            wrong += [] if found else [word]
    if wrong or not seeds:
        told = " ".join([label, *wrong]).strip()
        raise UsageError(f"{told}{': ' if told else ''}give whole numbers below {SEED_END}, as in {example}")
    return tuple(seeds)


def note_on_one(text: str) -> str:
    """Say of ``--seeds 3`` that it is seed 3 and not three seeds; empty for all that means one thing."""
    if not re.fullmatch(r"\d{1,10}", text) or int(text) < 2:
        return ""
    return f"note: --seeds {text} is seed {text} alone; --seeds 1-{text} are {text} seeds"


def _numbers(word: str, label: str) -> range:
    """Read one number or one range; empty where it is neither, or a number is too large."""
    found = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", word)
    if found is None:
        return range(0)
    first, last = int(found[1]), int(found[2] or found[1])
    if last - first >= LONGEST_RANGE:
        many = last - first + 1
        raise UsageError(f"{label}{word} is a range of {many:,} seeds; give at most {LONGEST_RANGE:,}")
    return range(first, last + 1) if last < SEED_END else range(0)
