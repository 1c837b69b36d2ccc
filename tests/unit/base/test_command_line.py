"""Mistakes on a command line, as a user reads them."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
import tyro
from pydantic import BaseModel, Field

from base.command_line import parse_flags
from base.errors import UsageError, run_cli
from tests.cases import first_is_fast


class Section(BaseModel):
    """A part."""

    size: int = Field(8, ge=2)
    """How large."""


@dataclass(frozen=True)
class Arguments:
    """A command."""

    place: tyro.conf.Positional[Path]
    """Where to."""
    config: Annotated[Section, tyro.conf.arg(name="")]
    """Fields without a prefix."""
    color: Literal["red", "green"] = "red"
    """Which colour."""
    workers: int = 2
    """How many."""


def test_flags_are_read() -> None:
    args = parse_flags(Arguments, ["here", "--size", "3", "--color", "green"])
    assert args == Arguments(Path("here"), Section(size=3), "green", 2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["here", "--color", "gren"],
            "unknown value of --color: 'gren'; did you mean 'green'? Available: red, green",
        ),
        (["here", "--colour", "red"], "unknown flag --colour, did you mean --color?"),
        (["here", "--sage", "3"], "unknown flag --sage, --help lists all flags"),
        (
            ["here", "--workers", "two"],
            "--workers: must be a whole number (is two)",
        ),
        (["here", "--size", "1"], "--size: must be at least 2 (is 1)"),
        ([], "PATH is missing: Where to. --help says more"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])  # tyro frames its messages accordingly
def test_a_mistake_is_one_line_that_says_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, encoding: str, args: list[str], message: str
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    with pytest.raises(UsageError) as error:
        parse_flags(Arguments, args)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "module", ["ffn_variants", "pretrain.train", "eval", "eval.report", "slurm.submit", "slurm.status"]
)
@pytest.mark.ci
def test_every_command_explains_itself(module: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0
    assert "usage:" in result.stdout


@pytest.mark.parametrize(
    "arguments", first_is_fast([["ffn_variants"], ["ffn_variants", "--help"], ["eval.tasks", "--help"]])
)
@pytest.mark.ci
def test_a_reader_that_has_seen_enough_ends_a_command_without_a_word(arguments: list[str]) -> None:
    command = [sys.executable, "-m", *arguments]
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


def test_a_name_too_long_for_a_file_is_told_in_one_line(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit, match="2"):
        run_cli(lambda: Path("x" * 5000).stat() and None)
    told = capsys.readouterr().err
    assert re.fullmatch(r"error: x{100}\.\.\.: too long for the name of a file\n", told)


def test_a_message_does_not_repeat_thousands_of_characters(capsys: pytest.CaptureFixture) -> None:
    def main() -> None:
        raise UsageError(f"--seeds is {'9' * 5000}; give whole numbers, as 1-5")

    with pytest.raises(SystemExit, match="2"):
        run_cli(main)
    assert capsys.readouterr().err == f"error: --seeds is {'9' * 77}...; give whole numbers, as 1-5\n"
