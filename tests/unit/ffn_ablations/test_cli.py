"""The one command: every command is there under its name, and what is mistyped is told."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from base.errors import UsageError
from base.files import PACKAGES
from ffn_ablations.cli import COMMANDS, find_command, main, overview

ROOT = Path(__file__).parents[3]


def test_the_first_help_has_every_command_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == main([]) == main(["study", "-h"]) == 0
    said = capsys.readouterr().out
    assert said == f"{overview()}\n" * 3
    lines = overview().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for words, command in COMMANDS.items():
        kind, _, what = words.partition(" ")
        line = (
            rf"  list (\w+\|)*{what}(\|\w+)*  +"
            if kind == "list"
            else rf"  {words}  +{re.escape(command.help)}$"
        )
        assert any(re.match(line, each) for each in lines)


@pytest.mark.parametrize("words", COMMANDS)
def test_the_help_of_each_calls_it_by_its_name(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words.split(), "--help"])
    said = capsys.readouterr().out
    assert ended.value.code in (0, None)
    assert re.match(rf"usage: ffn-ablations {words}[ \n]", said)
    assert "python -m" not in said


def test_no_module_but_two_runs_by_itself() -> None:
    """The command, and what a launcher of several processes starts."""
    running = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
    }
    assert running - {"slurm/worker.py"} == {"ffn_ablations/__main__.py", "pretrain/train.py"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("trani", "did you mean train?"),
        ("study sttus runs/x", "did you mean study status?"),
        ("status", "did you mean study status?"),
        ("sudy", "did you mean study run?"),
        ("xyzzy", "ffn-ablations --help lists all"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_closest(words: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        find_command(words.split())
    assert find_command(["train", *words.split()]) == (COMMANDS["train"], words.split())


def test_the_page_of_commands_lists_them_all() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `ffn-ablations ([\w -]+)` \| (.+) \|$", page, re.MULTILINE)
    assert rows == [(words, each.help) for words, each in COMMANDS.items()]


WITHOUT_ARGUMENTS = {words for words, command in COMMANDS.items() if words.startswith("list ")}


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - WITHOUT_ARGUMENTS))
def test_a_command_without_what_it_needs_says_so(command: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"usage|is missing: .+ --help says more|name .+") as caught:
        main(command.split())
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
