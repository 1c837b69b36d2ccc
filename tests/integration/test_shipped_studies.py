"""Every shipped study in a folder that has nothing beside it: its plan, and what a run needs first."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from base.errors import AbsentError
from slurm.commands import study_run

STUDIES = sorted((Path(__file__).parents[2] / "configs" / "studies").glob("*.yaml"))
SLOW = ("zoo", "grids", "tuned")
"""Those of hundreds of cells."""


def local_places(study: Path) -> set[str]:
    """The files and folders of data that a study's file names, first of each kind."""
    content = yaml.safe_load(study.read_text())
    data, evaluation = content.get("config", {}).get("data", {}), content.get("evaluation", {})
    places = set(data.get("train_files", [])[:1])
    suites = evaluation.get("suites", [])
    if "babylm23" in suites and "blimp_dir" in evaluation:
        places.add(f"{evaluation['blimp_dir']}/filtered")
    if "glue" in suites and "glue_dir" in evaluation:
        places.add(evaluation["glue_dir"])
    return places


@pytest.mark.ci
@pytest.mark.parametrize(
    "study",
    [
        pytest.param(study, id=study.stem, marks=[pytest.mark.slow] if study.stem in SLOW else [])
        for study in STUDIES
    ],
)
def test_a_plan_needs_no_data_and_a_run_says_which(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert study_run([study.stem, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "in all " in printed
    needed = [line for line in printed.splitlines() if line.startswith("needed before it runs: ")]
    assert {line.split(": ")[1] for line in needed} == local_places(study)
    assert all("put it there, or link your copy" in line for line in needed)
    if needed:
        with pytest.raises(AbsentError, match="link your copy") as caught:
            study_run([study.stem])
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
