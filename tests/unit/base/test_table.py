"""Tables of text: where columns begin and end."""

from __future__ import annotations

from base.printing import format_table


def test_columns_of_numbers_end_together() -> None:
    columns = ("1,024", "7"), ("-0.1", "0.25"), ("3e-4", "nan"), ("97%", "-"), ("2.5+", ""), ("1.08x", "+3")
    for cells in columns:
        rows = [("a longer header", "state"), *((cell, "done") for cell in cells)]
        lines = [line.rsplit("  ", 1)[0] for line in format_table(rows).splitlines()]
        assert lines == [cell.rjust(15) for cell in ("a longer header", *cells)]


def test_columns_of_words_begin_together_and_the_last_is_not_padded() -> None:
    for cells in (("12 done", "1 done, 3 failed"), ("1.5B", "gelu"), ("-", "-"), ("3-5", "1,024")):
        rows = [("study", "state"), *(("a", cell) for cell in cells)]
        assert format_table(rows).splitlines() == [f"{first.ljust(5)}  {second}" for first, second in rows]


def test_a_table_without_rows_is_its_header() -> None:
    assert format_table([("study", "state")]) == "study  state"
    assert format_table([]) == ""
