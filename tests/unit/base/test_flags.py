"""The flags that are read are those that tyro's help shows, and no mistake is told in pydantic's words."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from pydantic import Field

from base.command_line import Section, parse_flags
from base.errors import UsageError
from base.flags import list_flags
from eval.__main__ import EvaluateArgs
from eval.report.__main__ import ReportArgs
from pretrain.training.arguments import TrainArgs
from slurm.arguments import SubmitArgs


@pytest.mark.parametrize("kind", [TrainArgs, EvaluateArgs, SubmitArgs])
def test_flags_are_those_of_the_help(
    kind: type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("COLUMNS", "100")  # one column
    with pytest.raises(SystemExit):
        parse_flags(kind, ["--help"])
    shown = set(re.findall(r"(?m)(?:^[│|]? *|, )(--?[a-z][\w.-]*)", capsys.readouterr().out))
    flags = [flag for flag in list_flags(kind) if not flag.is_positional]
    listed = {name for flag in flags for name in (*flag.names, *flag.opposites)}
    assert shown - {"-h", "--help"} == listed


class Everything(Section):
    """One field of each type."""

    whole: int = Field(1, ge=0, lt=9)
    number: float | None = Field(None, gt=0, le=2)
    text: str = ""
    switch: bool = False
    left_open: bool | None = None
    word: Literal["a", "b"] = "a"
    several: tuple[int, ...] = ()
    either: Literal["run"] | tuple[int, ...] | None = None
    options: dict[str, int | float | bool | str] | None = None


@pytest.mark.parametrize(
    "args",
    [
        *("--whole x", "--whole -1", "--whole 9", "--whole 1.5", "--whole", "--whole None", "--number 0"),
        *("--number 3", "--number x", "--word c", "--several x", "--several 1 x", "--either x"),
        *(
            "--either 1 x",
            "--options a",
            "--switch --no-switch",
            "--switch=maybe",
            "--left-open",
            "--left-open perhaps",
            "--text",
            "--wohle 3",
        ),
        "stray",
    ],
)
def test_mistakes_are_told_in_plain_words(args: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_flags(Everything, args.split())
    foreign = r"Input should|validation error|type=|literal\[|NoneType|is not allowed\b"
    assert not re.search(foreign, str(told.value))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(("word", "value"), [("True", True), ("False", False), ("None", None)])
def test_a_choice_that_may_be_left_open_takes_a_word(word: str, value: bool | None) -> None:
    assert parse_flags(Everything, ["--left-open", word]).left_open is value


@pytest.mark.parametrize(
    ("args", "source", "contrasts"),
    [
        (["scores.csv"], "scores.csv", ()),
        (["scores.csv", "--contrast", "a - b", "--contrast=c - d"], "scores.csv", ("a - b", "c - d")),
        (["--contrast", "a - b", "scores.csv", "--contrast", "-c+d"], None, None),
        (["--contrast", "a - b", "scores.csv", "--contrast=-c+d"], "scores.csv", ("a - b", "-c+d")),
        (["scores.csv", "--contrast", "a - b", "--contrast"], None, None),
        (["scores.csv", "--contrast", "a - b", "c - d"], None, None),
    ],
)
def test_a_flag_may_be_given_several_times(
    args: list[str], source: str | None, contrasts: tuple[str, ...] | None
) -> None:
    if contrasts is None:
        with pytest.raises(UsageError, match=r"--contrast needs a value|one word too many"):
            parse_flags(ReportArgs, args)
    else:
        read = parse_flags(ReportArgs, args)
        assert (str(read.source), read.contrast) == (source, contrasts)


def test_a_value_that_begins_with_a_dash_says_how_it_is_written() -> None:
    with pytest.raises(UsageError, match=r"--text needs a value; if it is -a, write --text=-a$"):
        parse_flags(Everything, ["--text", "-a"])
    assert parse_flags(Everything, ["--text=-a"]).text == "-a"
