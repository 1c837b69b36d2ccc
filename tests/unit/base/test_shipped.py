"""Which file a name means: an own one, or one that ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.config_input import FOLDERS, find_config, shipped
from base.errors import UsageError
from base.files import CODE_ROOT
from ffn_ablations.list_studies import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_means_the_shipped_one_from_any_folder() -> None:
    assert find_config(Path("tiny"), "config") == CODE_ROOT / "configs/tiny.yaml"
    assert find_config(Path("thesis.yaml"), "study") == CODE_ROOT / "configs/studies/thesis.yaml"
    assert find_config(Path("one-gpu"), "preset") == CODE_ROOT / "configs/clusters/one-gpu.yaml"


def test_an_own_file_goes_before_and_a_folder_does_not(here: Path) -> None:
    (here / "tiny").mkdir()
    assert find_config(Path("tiny"), "config") == CODE_ROOT / "configs/tiny.yaml"
    (here / "tiny.yaml").touch()
    assert find_config(Path("tiny"), "config") == Path("tiny.yaml")
    assert find_config(Path("tiny.yaml"), "config") == Path("tiny.yaml")
    (here / "gpt-neo").touch()
    assert find_config(Path("gpt-neo"), "config") == Path("gpt-neo")
    assert find_config(Path("tiny"), "config", here / "tiny") == CODE_ROOT / "configs/tiny.yaml"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tinny", "config tinny does not exist; did you mean tiny? The shipped ones are: gpt-neo, "),
        ("zzz.yaml", "config zzz.yaml does not exist; the shipped ones are: gpt-neo, "),
        ("elsewhere/tiny", "config elsewhere/tiny does not exist; "),
        ("x" * 5000, "does not exist; the shipped ones are"),
        (".", "config . is a folder; the shipped ones are"),
    ],
)
def test_what_is_nowhere_is_told_with_what_there_is(name: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_config(Path(name), "config")
    assert told in str(caught.value)
    assert len(str(caught.value)) < 400


NAMES = [name for kind in FOLDERS for name in shipped(kind)]


def test_a_copy_is_the_file_itself_and_is_written_once(here, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        main([name])
        shown = capsys.readouterr().out
        main([name, "--copy"])
        assert capsys.readouterr().out == f"{name}.yaml\n"
        (original,) = (CODE_ROOT / "configs").rglob(f"{name}.yaml")
        assert (here / f"{name}.yaml").read_text() == original.read_text() == shown
    with pytest.raises(UsageError, match="exists here already"):
        main([NAMES[0], "--copy"])


def test_the_list_has_every_name_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    listed = dict(line.split(None, 1) for line in lines)
    assert listed.keys() == set(NAMES)
    assert len(NAMES) == len(set(NAMES)) == len(list((CODE_ROOT / "configs").rglob("*.yaml")))
    assert listed["quickstart"] == "A complete small study that needs no network and no data"
    assert max(map(len, listed.values())) <= 90
