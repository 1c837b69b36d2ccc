"""A tuned study with real training, to which tuning runs are added that would decide."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from base.errors import UsageError

TUNE = {"optim.learning_rate": [1e-3, 1e-2], "seeds": [101], "widen": 1}


def told(study: Path) -> tuple[dict[str, Any], set[str], dict[str, Any]]:
    """What was tuned, which cells there are, and the comparison that the choice of values blurs."""
    tuning = json.loads((study / "tuning.json").read_text())
    cells = yaml.safe_load((study / "study.yaml").read_text())["cells"]
    report = json.loads((study / "report" / "report.json").read_text())
    (blurred,) = (x for x in report["comparisons"] if x["choice_error"] is not None)
    return tuning, set(cells), blurred


@pytest.mark.slow
def test_tuning_runs_that_would_decide_are_added_and_choose_nothing(
    tmp_path: Path,
    write_study: Callable[..., Path],
    run_study: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write_study(tmp_path, tune=TUNE, evaluation={"suites": []})
    study = tmp_path / "runs" / "study"

    def run(*flags: str) -> str:
        assert run_study(file, *flags) == 0
        return capsys.readouterr().out

    with pytest.raises(UsageError, match="4 of 4 cells of study are not done"):
        run("--decide", "1")
    run()
    tuning, cells, blurred = told(study)
    assert "to be tuned further" in run("--decide", "1", "--dry-run")
    assert told(study)[0] == tuning

    assert "to be tuned further: relu, " in run("--decide", "1")
    after, more_cells, sharper = told(study)
    (added,) = after["further"]
    assert (after["chosen"], after["rounds"]) == (tuning["chosen"], tuning["rounds"])
    assert added["seeds"] == [102, 103]
    assert np.isfinite(added["losses"]).all()
    assert len(more_cells) == len(cells) + 2 * len(added["values"])
    assert cells < more_cells
    assert sharper["choice_error"] < blurred["choice_error"]
    assert sharper["estimate"] == blurred["estimate"]
    assert "0 cells run" in run("--no-report")
