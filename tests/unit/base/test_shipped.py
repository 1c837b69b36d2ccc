"""Which file a name means: an own one, or one that ships."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from base.config_input import FOLDERS, find_config, shipped
from base.errors import UsageError
from base.files import CODE_ROOT
from ffn_ablations.list_studies import main
from pretrain.resolution import load_config
from slurm.study.study import load_study


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_means_the_shipped_one_from_any_folder() -> None:
    assert find_config(Path("tiny"), "config") == CODE_ROOT / "configs/tiny.yaml"
    assert find_config(Path("thesis.yaml"), "study") == CODE_ROOT / "configs/studies/thesis.yaml"
    assert find_config(Path("one-gpu"), "preset") == CODE_ROOT / "configs/clusters/one-gpu.yaml"


def test_every_name_is_of_one_file() -> None:
    names = [name for kind in FOLDERS for name in shipped(kind)]
    assert len(set(names)) == len(names)
    assert len(names) == len(list((CODE_ROOT / "configs").rglob("*.yaml")))


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


def test_a_run_and_a_study_are_read_by_name() -> None:
    configs = CODE_ROOT / "configs"
    assert load_config(Path("tiny")) == load_config(configs / "tiny.yaml")
    assert load_study(Path("quickstart")).cells == load_study(configs / "studies/quickstart.yaml").cells


def test_an_own_study_names_shipped_configs_and_files_beside_it(here: Path) -> None:
    study = yaml.safe_load((CODE_ROOT / "configs/studies/quickstart.yaml").read_text())
    (here / "of").mkdir()
    file = here / "of" / "mine.yaml"
    (here / "of" / "own.yaml").write_text((CODE_ROOT / "configs/tiny-roberta.yaml").read_text())
    study["families"]["roberta"] = "own.yaml"
    file.write_text(yaml.safe_dump(study))
    assert load_study(file).cells == load_study(Path("quickstart")).cells


@pytest.mark.parametrize("name", [name for kind in FOLDERS for name in shipped(kind)])
def test_a_copy_is_the_file_itself_and_is_written_once(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([name])
    shown = capsys.readouterr().out
    main([name, "--copy"])
    assert capsys.readouterr().out == f"{name}.yaml\n"
    (original,) = (CODE_ROOT / "configs").rglob(f"{name}.yaml")
    assert (here / f"{name}.yaml").read_text() == original.read_text() == shown
    with pytest.raises(UsageError, match="exists here already"):
        main([name, "--copy"])


def test_the_list_has_every_name_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    listed = dict(line.split(None, 1) for line in lines)
    assert listed.keys() == {name for kind in FOLDERS for name in shipped(kind)}
    assert listed["quickstart"] == "A complete small study that needs no network and no data"
    assert max(map(len, listed.values())) <= 90
