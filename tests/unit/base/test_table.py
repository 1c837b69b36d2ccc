"""Tables of text: where columns begin and end."""

from __future__ import annotations

import pytest

from base.printing import format_table


@pytest.mark.parametrize(
    "cells",
    [
        ("1,024", "7"),
        ("-0.1", "0.25"),
        ("3e-4", "nan"),
        ("97%", "-"),
        ("2.5+", ""),
        ("1.08x", "0.9x"),
        ("+3", "inf"),
    ],
)
def test_columns_of_numbers_end_together(cells: tuple[str, ...]) -> None:
    lines = format_table([("a longer header", "state"), *((cell, "done") for cell in cells)]).splitlines()
    assert [line.removesuffix("  done").removesuffix("  state") for line in lines] == [
        cell.rjust(15) for cell in ("a longer header", *cells)
    ]


@pytest.mark.parametrize(
    "cells",
    [
        ("12 done", "1 done, 3 failed"),
        ("2 h 00 min (a GPU)", "-"),
        ("1.5B", "gelu"),
        ("-", "-"),
        ("3-5", "1,024"),
    ],
)
def test_columns_of_words_begin_together_and_the_last_is_not_padded(cells: tuple[str, ...]) -> None:
    rows = [("study", "state"), *(("a", cell) for cell in cells)]
    assert format_table(rows).splitlines() == [f"{first.ljust(5)}  {second}" for first, second in rows]


def test_a_table_without_rows_is_its_header() -> None:
    assert format_table([("study", "state")]) == "study  state"
    assert format_table([]) == ""
