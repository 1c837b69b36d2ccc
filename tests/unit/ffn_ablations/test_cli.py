"""The one command: every command is there under its name, and what is mistyped is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from base import command_line
from base.errors import UsageError
from ffn_ablations.cli import find_command, load_main, main, overview
from ffn_ablations.commands import COMMANDS

ROOT = Path(__file__).parents[3]
IN_ITS_OWN_WORDS = "lm-eval"
"""Has the help of lm-eval, which takes seconds to import."""


@pytest.fixture(autouse=True)
def _as_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_line, "SPOKEN", {})


def test_the_first_help_has_every_command_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == main([]) == main(["study", "-h"]) == 0
    said = capsys.readouterr().out
    assert said == f"{overview()}\n" * 3
    lines = overview().splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100
    for command in COMMANDS.values():
        assert any(re.match(rf"  {command.words}  +{re.escape(command.help)}$", line) for line in lines)


@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - {IN_ITS_OWN_WORDS}))
def test_the_help_of_each_calls_it_by_its_name(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words.split(), "--help"])
    said = capsys.readouterr().out
    assert ended.value.code in (0, None)
    assert re.match(rf"usage: ffn-ablations {words} \[-h\]", said)
    assert "python -m" not in said


def test_by_its_module_a_command_is_called_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load_main(COMMANDS["study status"])(["--help"])
    assert capsys.readouterr().out.startswith("usage: python -m slurm.status [-h]")


def test_names_are_told_from_those_that_begin_alike() -> None:
    command_line.speak_as({"python -m eval": "E", "python -m eval.report": "R"})
    text = "python -m eval. python -m eval.report x; python -m eval.tasks, python -m evaluate"
    spoken = "E. R x; python -m eval.tasks, python -m evaluate"
    assert command_line._spoken(text) == spoken


def test_every_module_that_runs_as_a_command_has_a_name_here() -> None:
    """And of none but these: what submitit starts, and the files behind `eval.explain` and its likes."""
    found = set()
    for package in ("ffn_variants", "pretrain", "eval", "slurm", "ffn_ablations"):
        for path in (ROOT / package).rglob("*.py"):
            if re.search(r"^    run_cli\(main\)$", path.read_text(encoding="utf-8"), re.MULTILINE):
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                found.add(name.removesuffix(".__main__").replace("eval.commands.", "eval."))
    behind = {name for name in found if name.startswith(("eval.interpretation.", "eval.classification."))}
    inner = {"ffn_ablations.cli"}
    assert found - behind - inner == {command.module for command in COMMANDS.values()}


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        ("study run quickstart --workers 2", "study run", ["quickstart", "--workers", "2"]),
        ("train study run", "train", ["study", "run"]),
        ("eval", "eval", []),
    ],
)
def test_the_other_words_are_the_command_s_own(words: str, command: str, rest: list[str]) -> None:
    assert find_command(words.split()) == (COMMANDS[command], rest)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("trani", "did you mean train?"),
        ("reports", "did you mean report?"),
        ("study sttus runs/x", "did you mean study status?"),
        ("status", "did you mean study status?"),
        ("sudy", "did you mean study run?"),
        ("xyzzy", "ffn-ablations --help lists all"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_closest(words: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        find_command(words.split())


def test_the_page_of_commands_lists_them_all() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `ffn-ablations ([\w -]+)` \| `([^`]+)` \| (.+) \|$", page, re.MULTILINE)
    assert rows == [(each.words, each.elsewhere, each.help) for each in COMMANDS.values()]


@pytest.mark.parametrize(
    "command",
    [
        "study run", "study status", "study cancel", "study list", "study archive",
        "train", "generate", "eval", "check", "push", "report", "inspect", "explain",
    ],
)  # fmt: skip
def test_a_command_without_what_it_needs_says_so(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"usage|is missing: .+ --help says more|name .+") as caught:
        main(command.split())
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
