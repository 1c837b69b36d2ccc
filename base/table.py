"""Registries as text: rows aligned into columns, and what options there are."""

from __future__ import annotations

from collections.abc import Mapping

from base.options import Option

NUMBERS = ("F", "parameters", "FLOPs/token")
"""Columns that are aligned to the right."""


def format_table(rows: list[tuple[str, ...]]) -> str:
    """Align rows into columns, the header first; those of numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    numbers = {i for i, name in enumerate(rows[0]) if name in NUMBERS}
    lines = [
        "  ".join(
            cell.rjust(widths[i]) if i in numbers else cell.ljust(widths[i]) for i, cell in enumerate(row)
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def describe_options(name: str, options: Mapping[str, Option]) -> str:
    """List the options of one entry of a registry with their defaults."""
    if not options:
        return f"{name}: no options"
    lines = []
    for option_name, option in options.items():
        choices = f", one of {' '.join(option.choices)}" if option.choices else ""
        lines.append(f"  {option_name} = {option.default}: {option.help}{choices}")
    return "\n".join([f"{name}:", *lines])
