"""Tables of simulations as markdown, printed row by row: each takes minutes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def print_table(title: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as they come, under the keys of the first."""
    print(f"\n{title}\n")
    for place, row in enumerate(rows):
        if place == 0:
            _print_row(list(row))
            _print_row(["---"] * len(row))
        _print_row([f"{value:.1f}" if isinstance(value, float) else value for value in row.values()])


def _print_row(cells: Sequence[object]) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
