"""Every command on inputs that it cannot work with: one line, exit status 2, and nothing written."""

import os
import shlex
from pathlib import Path

import pytest

from base.errors import run_cli
from ffn_ablations.cli import main
from tests.bad_inputs import CASES, DIGITS, LONG, files
from tests.processes import words_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that the cases name."""
    path = tmp_path_factory.mktemp("world")
    (path / "folder").mkdir()
    for name, content in files().items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of everything below a folder."""
    found = {}
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            state = os.lstat(os.path.join(parent, name))
            found[os.path.join(parent, name)] = state.st_size, state.st_mtime_ns
    return found


@pytest.mark.usefixtures("own_variants")
@pytest.mark.parametrize(
    ("line", "words"), CASES, ids=[f"{i}: {line[:90]}" for i, (line, _) in enumerate(CASES)]
)
@pytest.mark.ci
def test_it_is_told_in_one_line_and_nothing_is_written(world, line, words, monkeypatch, capsys):
    command, *args = [word.replace("{long}", LONG).replace("{digits}", DIGITS) for word in shlex.split(line)]
    before = tree(world)
    monkeypatch.chdir(world)
    with pytest.raises(SystemExit) as ended:
        run_cli(lambda: main([*words_of(command), *args]))
    said = capsys.readouterr()
    assert ended.value.code == 2, said.err
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert words in said.err
    assert len(said.err) < 1000
    assert tree(world) == before
