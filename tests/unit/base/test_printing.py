"""What is printed: progress, tables and sentences."""

import io
import sys
import types

import pytest

from base.printing import ProgressBar, duration, first_few, format_table


# What is shown while something takes long.
class Terminal(io.StringIO):
    """Text that was written to a terminal."""

    def isatty(self) -> bool:
        return True


def test_durations_have_their_units() -> None:
    found = [duration(seconds) for seconds in (-1, 0, 59.6, 61, 125, 3599.4, 3600, 3725, 90_000)]
    assert found == [
        "0 s", "0 s", "1 min 00 s", "1 min 01 s", "2 min 05 s", "59 min 59 s", "1 h 00 min", "1 h 02 min",
        "25 h 00 min",
    ]  # fmt: skip


@pytest.mark.parametrize("to_stderr", [False, True])
def test_outside_of_a_terminal_there_are_lines_alone(capsys, to_stderr) -> None:
    bar = ProgressBar(9, "cell", name="study", to_stderr=to_stderr)
    bar.advance(2)
    bar.show_beside("step 1")
    bar.say("one is done")
    bar.close()
    told = capsys.readouterr()
    assert (told.err, told.out) == (("one is done\n", "") if to_stderr else ("", "one is done\n"))


def test_a_terminal_has_a_bar_and_lines_that_stay_of_one_process(monkeypatch, capsys) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    for shown in (False, True):
        assert (terminal.getvalue(), capsys.readouterr().out) == ("", "")
        bar = ProgressBar(9, "cell", done=3, name="study", shown=shown)
        bar.advance(2)
        bar.show_beside("step 1")
        bar.say("one is done")
        bar.close()
    last = terminal.getvalue().split("\r")[-1]
    assert last.startswith("study:")
    assert "5/9" in last
    assert "step 1" in last
    assert capsys.readouterr().out == "one is done\n"


def test_a_notebook_has_a_bar_and_shows_results_as_objects(monkeypatch, capsys) -> None:
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(ProgressBar, "is_quiet", True)
    bar = ProgressBar(9, "cell", done=3, name="study")
    bar.advance(2)
    bar.say("one is done")
    bar.say("a result", is_result=True)
    bar.close()
    output = capsys.readouterr()
    assert output.out == "one is done\n"
    drawn = [text for text in output.err.split("\r") if text.strip()]
    assert drawn[-1].startswith("study:")
    assert "\n" not in drawn[-1]  # the next one takes its line
    assert "5/9" in output.err


# Tables of text: where columns begin and end.
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


# Words for a sentence.
def test_others_are_counted():
    said = {"": "", "a": "a", "ab": "a; b", "abc": "a; b and 1 more", "wxyz": "w; x and 2 more"}
    assert {names: first_few(list(names), 2, "; ") for names in said} == said
