"""Several seeds as people write them: ``1,2,3``, ``1-3``, ``1 2 3`` or ``[1, 2, 3]``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from base.errors import UsageError


def parse_seeds(values: Iterable[object], label: str, example: str) -> tuple[int, ...]:
    """Read seeds, each a number or words with commas and ranges; a range holds both its ends.

    Args:
        values: What was given.
        label: What messages begin with, may be empty.
        example: How they are written where these are from.

    Raises:
        UsageError: If there is none, or one is no whole number; names those.
    """
    seeds: list[int] = []
    wrong: list[str] = []
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool):
            seeds.append(value)
            continue
        for word in filter(None, (part.strip() for part in str(value).split(","))):
            found = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
            numbers = range(int(found[1]), int(found[2] or found[1]) + 1) if found else ()
            seeds += numbers
            wrong += [] if numbers else [word]
    if wrong or not seeds:
        told = " ".join([label, *wrong]).strip()
        raise UsageError(f"{told}{': ' if told else ''}give whole numbers, as in {example}")
    return tuple(seeds)
