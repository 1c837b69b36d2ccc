"""From the labels of a data set to integers from 0, and to a 0 or 1 for each where several are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from base.errors import UsageError
from base.wording import first_few

Label = str | int
NUM_SHOWN = 24


def plain(value: Any) -> Any:
    """Return 1 for 1.0, which tables make of integers, and anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def list_labels(labels: Iterable[Label]) -> str:
    """Name labels for a message, the first few where there are many."""
    return first_few([str(label) for label in labels], NUM_SHOWN)


def label_positions(labels: tuple[Label, ...]) -> dict[Label, int]:
    """Return which integer stands for a label.

    Where labels are declared by name, the data may have their positions instead, as on the hub; not where
    a name is itself a number, since 1 could then be the first name or the second. The names true and false
    are what a Boolean is called.
    """
    positions: dict[Label, int] = {label: place for place, label in enumerate(labels)}
    names = {str(label).lower(): place for place, label in enumerate(labels)}
    if names.keys() & {"true", "false"}:
        return positions | {name == "true": names[name] for name in ("true", "false") if name in names}
    if all(isinstance(label, str) and not label.lstrip("-").isdigit() for label in labels):
        positions |= {place: place for place in range(len(labels))}
    return positions


def most_frequent(votes: Any) -> Any:
    """Return what most annotators say, a value that is not a list as it is, and None for a tie."""
    if not isinstance(votes, list):
        return votes
    ranked = Counter(map(plain, votes)).most_common(2)
    tie = len(ranked) == 2 and ranked[0][1] == ranked[1][1]
    return ranked[0][0] if ranked and not tie else None


def encode_label(value: Any, positions: dict[Label, int], num_labels: int, many: bool) -> int | list[int]:
    """Return the integer of a label, or with ``many`` a 0 or 1 for each label.

    Raises:
        KeyError: With what is no label.
    """
    if not many:
        return _position(value, positions)
    if not isinstance(value, list):
        raise KeyError(value)
    found = {_position(member, positions) for member in value}
    return [int(place in found) for place in range(num_labels)]


def _position(value: Any, positions: dict[Label, int]) -> int:
    value = plain(value)
    if not isinstance(value, str | int) or value not in positions:
        raise KeyError(value)
    return positions[value]


def find_labels(values: Iterable[Any], many: bool, source: str) -> tuple[Label, ...]:
    """Return the labels of a training set for which none are declared: integers from 0, or names in order.

    Args:
        values: What its examples have as labels; lists of labels with ``many``.
        many: Whether an example has several.
        source: The training set, for the error message.

    Raises:
        UsageError: For labels of several types, or integers that do not run from 0 without a gap.
    """
    found: set[Any] = set()
    for number, value in enumerate(values, start=1):
        for label in value if many and isinstance(value, list) else [value]:
            if isinstance(label, list):
                raise UsageError(
                    f"{source}, row {number}: label {label!r} is a list; set multi_label: true in the task's "
                    "file"
                )
            if not isinstance(plain(label), str | int):
                raise UsageError(f"{source}, row {number}: label {label!r} is neither a name nor an integer")
            found.add(plain(label))
    names = sorted(label for label in found if isinstance(label, str))
    numbers = sorted(int(label) for label in found if not isinstance(label, str))
    if names and numbers:
        raise UsageError(
            f"{source}: some labels are names ({list_labels(names[:3])}) and some integers "
            f"({list_labels(numbers[:3])}); make them one or the other"
        )
    if numbers != list(range(len(numbers))):
        raise UsageError(
            f"{source}: labels {list_labels(numbers)} do not run from 0 without a gap; declare them in the "
            f"task's file: labels: [{list_labels(numbers)}]"
        )
    return tuple(names or numbers)
