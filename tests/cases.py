"""What several tests share: which long cases are in the fast set, and what is wrong with a run's files."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from typing import Any

import pytest

from base.files import damage
from base.run.folder_names import RunFolder
from base.run.manifest import read_completion


def run_damage(run: RunFolder) -> dict[str, str]:
    """By name what is wrong with the files of a finished run; empty for one that is not finished."""
    completion = read_completion(run)
    return damage(run.path, completion.files) if completion else {}


def first_is_fast(values: Iterable[Any]) -> list[Any]:
    """Cases of one value each, of which all but the first are slow."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.slow) for value in others)]


def diagonal_is_fast(*lists: Collection[Any]) -> list[Any]:
    """All combinations; all but so many are slow that every value of every list is in a fast one."""
    longest = max(map(len, lists))
    fast = {tuple(i % len(values) for values in lists) for i in range(longest)}
    places = itertools.product(*(range(len(values)) for values in lists))
    combinations = itertools.product(*lists)
    return [
        pytest.param(*values, marks=() if place in fast else pytest.mark.slow)
        for place, values in zip(places, combinations, strict=True)
    ]
