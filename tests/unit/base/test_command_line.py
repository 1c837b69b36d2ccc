"""Mistakes on a command line, as a user reads them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from pydantic import Field

from base.command_line import Positional, parse_flags, read_flags
from base.errors import UsageError, run_cli
from base.sections import Section


class Inner(Section):
    """A part."""

    size: int = Field(8, ge=2)
    """How large."""
    is_round: bool = True
    """Have no corners."""


class Everything(Section):
    """One field of each type."""

    short_names: ClassVar = {("inner", "size"): "size"}

    place: Positional[Path]
    """Where to."""
    whole: int = Field(1, ge=0, lt=9)
    """How many."""
    number: float | None = Field(None, gt=0, le=2)
    text: str = ""
    switch: bool = False
    left_open: bool | None = None
    colour: Literal["red", "green"] = "red"
    several: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    pair: tuple[int, ...] = (3, 4)
    """Two numbers."""
    either: Literal["run"] | tuple[int, ...] | None = None
    options: dict[str, int | float | bool | str] | None = None
    inner: Inner = Inner()
    """What is inside."""


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("", {}),
        ("--whole 3 --whole 4", {"whole": 4}),
        ("--text=-a", {"text": "-a"}),
        ("--text [a],'b'", {"text": "[a],'b'"}),
        ("--number None", {"number": None}),
        ("--switch", {"switch": True}),
        ("--no-switch", {"switch": False}),
        ("--left-open False", {"left_open": False}),
        ("--several 1 --several=2", {"several": (1, 2)}),
        ("--words a,b 'c'", {"words": ("a,b", "'c'")}),
        ("--either run", {"either": "run"}),
        ("--either 1 2", {"either": (1, 2)}),
        ("--options a 1 b 1e-3 c True d x", {"options": {"a": 1, "b": 1e-3, "c": True, "d": "x"}}),
        ("--inner.size 3", {"inner": Inner(size=3)}),
        ("--size 3 --inner.no-is-round", {"inner": Inner(size=3, is_round=False)}),
    ],
)
def test_flags_are_read(line: str, given: dict[str, object]) -> None:
    read = parse_flags(Everything, ["here", *line.split()])
    assert read == Everything.model_validate({"place": "here", **given})
    assert {name for name in type(read).model_fields if name in given or name == "place"} == {
        path[0] for path in read_flags(Everything, ["here", *line.split()]).values
    }


def test_flags_are_those_of_the_process_where_no_others_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["a command", "here", "--whole", "3"])
    assert parse_flags(Everything) == Everything.model_validate({"place": "here", "whole": 3})


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "PLACE is missing: Where to. --help says more"),
        ("a b", "'b' is one word too many; --help lists all flags"),
        ("a --whole x", "--whole: must be a whole number (is x)"),
        ("a --whole -1", "--whole: must be at least 0 (is -1)"),
        ("a --whole 9", "--whole: must be less than 9 (is 9)"),
        ("a --whole", "--whole needs a value; one that begins with a dash is written --whole=-VALUE"),
        ("a --number 0", "--number: must be greater than 0 (is 0)"),
        ("a --number 3", "--number: must be at most 2 (is 3)"),
        ("a --number inf", "--number: must be a finite number (is inf)"),
        ("a --colour gren", "unknown value of --colour: 'gren'; did you mean 'green'? Available: red, green"),
        ("a --either x", "--either: must be 'run' or a whole number"),
        ("a --options b", "--options: b has no value; give names and values: NAME VALUE NAME VALUE"),
        ("a --switch --no-switch", "--no-switch: not allowed with argument --switch; --help says more"),
        ("a --left-open perhaps", "--left-open: must be true or false (is perhaps)"),
        ("a --wohle 3", "unknown flag --wohle, did you mean --whole?"),
        ("a --is-round", "unknown flag --is-round, did you mean --inner.is-round?"),
        ("a --zzz", "unknown flag --zzz, --help lists all flags"),
        ("a --size 1", "--inner.size: must be at least 2 (is 1)"),
        ("--words b tests", "tests was read as a value of --words; write it before the flags"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_allowed(line: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_flags(Everything, line.split())
    assert str(error.value) == told


@pytest.mark.parametrize("line", ["--help", "-h", "a --whole x --help", "--zzz --help"])
def test_help_goes_before_mistakes(line: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_flags(Everything, line.split(), prog="a command")
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert said.startswith("usage: a command PLACE [--FLAG VALUE ...]\n\nOne field of each type.\n")
    shown = set(re.findall(r"(?m)(?:^ *|, )(--?[a-z][\w.-]*)", said))
    fields = {f"--{name.replace('_', '-')}" for name in Everything.model_fields} - {"--place", "--inner"}
    assert shown == fields | {"-h", "--help", "--size", "--inner.size", "--inner.no-is-round"}
    assert "How many. (default: 1)" in said
    assert "Two numbers. (default: 3 4)" in said
    assert "Turns off: Have no corners." in said
    assert not re.search(r"default: [(T]", said), "a tuple, or what a switch is anyway"
    assert "null" not in said


@pytest.mark.ci
def test_a_reader_that_has_seen_enough_ends_a_command_without_a_word() -> None:
    command = [sys.executable, "-m", "ffn_ablations", "list", "variants"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 128 + signal.SIGPIPE


def test_a_pipe_that_breaks_elsewhere_is_a_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def main() -> None:
        raise BrokenPipeError("a worker's")

    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        with pytest.raises(BrokenPipeError, match="a worker's"):
            run_cli(main)


def test_a_message_does_not_repeat_thousands_of_characters(capsys: pytest.CaptureFixture) -> None:
    def main() -> None:
        raise UsageError(f"--seeds is {'9' * 5000}; give whole numbers, as 1-5")

    with pytest.raises(SystemExit, match="2"):
        run_cli(main)
    assert capsys.readouterr().err == f"error: --seeds is {'9' * 77}...; give whole numbers, as 1-5\n"
