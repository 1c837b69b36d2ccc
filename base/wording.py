"""Words for a sentence of a message or a report, and tables of text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from base.options import Option


def first_few(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Join the first ``most`` names and count the others: ``"a, b and 3 more"``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


NUMBER = re.compile(r"[+-]?(\d[\d,]*(\.\d+)?(e[+-]?\d+)?[%x+]?|nan|inf)")
"""A whole cell: ``1,024``, ``-0.1``, ``3e-4``, ``97%``, and ``2.5+`` of what is at least as much."""
NO_NUMBER = ("-", "")
"""What stands in a column of numbers where there is none."""


def format_table(rows: Sequence[tuple[str, ...]]) -> str:
    """Align rows into columns, the header first; columns of numbers to the right."""
    columns = [_aligned(column) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*columns, strict=True))


def _aligned(column: tuple[str, ...]) -> list[str]:
    width, numbers = max(map(len, column)), [cell for cell in column[1:] if cell not in NO_NUMBER]
    if numbers and all(map(NUMBER.fullmatch, numbers)):
        return [cell.rjust(width) for cell in column]
    return [cell.ljust(width) for cell in column]


def describe_options(name: str, options: Mapping[str, Option]) -> str:
    """List the options of one entry of a registry with their defaults."""
    if not options:
        return f"{name}: no options"
    lines = []
    for option_name, option in options.items():
        choices = f", one of {' '.join(option.choices)}" if option.choices else ""
        lines.append(f"  {option_name} = {option.default}: {option.help}{choices}")
    return "\n".join([f"{name}:", *lines])
