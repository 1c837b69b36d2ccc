"""Files and folders of whoever works somewhere, named as packages of this project are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

USES = "import ffn_ablations; print(ffn_ablations.compare.__module__)"


def in_folder(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.ci
def test_folders_of_its_names_do_no_harm(tmp_path: Path) -> None:
    for folder in ("report/figures", "report/paper", "scores/suites", "eval", "base/run"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "report/figures/forest.svg").touch()
    assert in_folder(tmp_path, "-c", USES).stdout == "ffn_ablations.comparing\n"
    assert in_folder(tmp_path, "-m", "ffn_ablations", "report", "--help").returncode == 0


@pytest.mark.parametrize("name", ["base.py", "report/__init__.py"])
def test_a_file_in_place_of_a_package_is_named_and_not_run(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("print('this was run')")
    done = in_folder(tmp_path, "-c", "import ffn_ablations")
    assert (done.returncode, done.stdout) == (1, "")
    said = f"{tmp_path / name} has the name of a package of ffn-ablations"
    assert said in done.stderr.splitlines()[-1]
    (line,) = in_folder(tmp_path, "-m", "ffn_ablations", "report", "--help").stderr.splitlines()
    assert said in line


def test_a_script_of_its_name_is_told_before_it_imports_itself(tmp_path: Path) -> None:
    (tmp_path / "report.py").write_text(f"print('begun')\n{USES}")
    done = in_folder(tmp_path, "report.py")
    assert done.stdout == "begun\n"
    assert done.stderr.splitlines()[-1].endswith("rename it")


@pytest.mark.ci
def test_a_table_has_its_report_beside_whoever_asks_under_its_own_name(
    repository: Path, tmp_path: Path
) -> None:
    """Not in ``report/``: in a clone that folder holds code."""
    done = in_folder(tmp_path, "-m", "ffn_ablations", "report", str(repository / "examples/scores.csv"))
    assert done.stdout.splitlines()[-1] == "scores-report/report.md"
    assert [path.name for path in tmp_path.iterdir()] == ["scores-report"]
