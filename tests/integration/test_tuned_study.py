"""A tuned study with real training: killed in each stage and continued, it ends as if undisturbed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import ffn_ablations
from base.errors import UsageError

TUNE = {"optim.learning_rate": [1e-3, 1e-2], "seeds": [101], "widen": 1}


def told(folder: Path) -> dict[str, Any]:
    """What the study came to, without days and places."""
    study = folder / "runs" / "study"
    tuning = json.loads((study / "tuning.json").read_text())
    written = yaml.safe_load((study / "study.yaml").read_text())
    report = json.loads((study / "report" / "report.json").read_text())
    rounds = [{name: value for name, value in each.items() if name != "made"} for each in tuning["rounds"]]
    return {
        "rounds": rounds,
        "chosen": tuning["chosen"],
        "cells": written["cells"],
        "stages": written["stages"],
        "comparisons": report["comparisons"],
    }


def is_tuning(study: Path) -> bool:
    """Whether a tuning run has ended, and no round yet."""
    return bool(list(study.glob("*/*/seed101-*/COMPLETED"))) and not (study / "tuning.json").exists()


def is_in_main(study: Path) -> bool:
    """Whether a run at what was chosen has begun."""
    return bool(list(study.glob("*/*/seed1-*/metrics.jsonl")))


@pytest.mark.slow
def test_killed_in_a_stage_the_same_command_arrives_at_the_same_report(
    tmp_path: Path, write_study: Callable[..., Path]
) -> None:
    results = []
    for stage in (None, is_tuning, is_in_main):
        folder = tmp_path / str(len(results))
        folder.mkdir()
        file, study = write_study(folder, tune=TUNE), folder / "runs" / "study"
        if stage:
            command = [sys.executable, "-m", "ffn_ablations", "study", "run", str(file), "--workers", "1"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
            until = time.monotonic() + 300
            while not stage(study):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.02)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        status = ffn_ablations.study(file).run(workers=2)
        results.append(told(folder))
        assert results[-1] == results[0]
        assert status.summary == f"{len(results[0]['cells'])} done"


@pytest.mark.ci
def test_tuning_runs_that_would_decide_are_added_and_choose_nothing(
    tmp_path: Path,
    write_study: Callable[..., Path],
    run_study: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, study = write_study(tmp_path, tune=TUNE), tmp_path / "runs" / "study"

    def run(*flags: str) -> str:
        assert run_study(file, *flags) == 0
        return capsys.readouterr().out

    with pytest.raises(UsageError, match="4 of 4 cells of study are not done"):
        run("--decide", "1")
    run()
    before = told(tmp_path)
    kept = json.loads((study / "tuning.json").read_text())
    assert "to be tuned further" in run("--decide", "1", "--dry-run")
    assert json.loads((study / "tuning.json").read_text()) == kept

    said = run("--decide", "1")
    after, (added,) = told(tmp_path), json.loads((study / "tuning.json").read_text())["further"]
    assert "to be tuned further: relu, " in said
    assert (after["chosen"], after["rounds"]) == (before["chosen"], before["rounds"])
    assert added["seeds"] == [102, 103]
    assert np.isfinite(added["losses"]).all()
    assert len(after["cells"]) == len(before["cells"]) + 2 * len(added["values"])
    assert set(before["cells"]) < set(after["cells"])
    (was,), (now,) = (
        [x for x in each["comparisons"] if x["choice_error"] is not None] for each in (before, after)
    )
    assert now["choice_error"] < was["choice_error"]
    assert now["estimate"] == was["estimate"]
    assert "0 cells run" in run()
