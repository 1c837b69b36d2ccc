"""What is shown while something takes long."""

from __future__ import annotations

import io
import sys
import types

import pytest

from base.progress import ProgressBar, duration


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


def test_a_terminal_has_a_bar_and_lines_that_stay(monkeypatch, capsys) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    bar = ProgressBar(9, "cell", done=3, name="study")
    bar.advance(2)
    bar.show_beside("step 1")
    bar.say("one is done")
    bar.close()
    shown = terminal.getvalue().split("\r")[-1]
    assert shown.startswith("study:")
    assert "5/9" in shown
    assert "step 1" in shown
    assert capsys.readouterr().out == "one is done\n"


def test_another_process_shows_nothing(monkeypatch, capsys) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    bar = ProgressBar(9, "step", shown=False)
    bar.advance()
    bar.say("one is done")
    bar.close()
    assert (terminal.getvalue(), capsys.readouterr().out) == ("", "")


class _Kernel:
    """What IPython is asked for in a notebook: a shell with a kernel, and a place that can be drawn again."""

    def __init__(self) -> None:
        self.shown: dict[str, list[str]] = {}
        self.display = self

    def get_ipython(self) -> object:
        return types.SimpleNamespace(kernel=object())

    def __call__(self, data: dict[str, str], raw: bool, display_id: bool) -> object:
        self.shown["bar"] = [data["text/plain"]]
        return types.SimpleNamespace(display_id="bar")

    def update_display(self, data: dict[str, str], raw: bool, display_id: str) -> None:
        self.shown[display_id].append(data["text/plain"])


def test_a_notebook_has_a_bar_that_stays_in_its_place(monkeypatch, capsys) -> None:
    kernel = _Kernel()
    tools = types.SimpleNamespace(display=kernel, update_display=kernel.update_display)
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", tools)
    bar = ProgressBar(9, "cell", done=3, name="study", to_stderr=True)
    bar.advance(2)
    bar.show_beside("step 1")
    bar.say("one is done")
    bar.close()
    assert list(kernel.shown) == ["bar"]
    assert kernel.shown["bar"][0].startswith("study:")
    assert "5/9" in kernel.shown["bar"][-1]
    assert "step 1" in kernel.shown["bar"][-1]
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "one is done\n")  # nothing of the bar itself
