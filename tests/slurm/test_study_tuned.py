"""A study on a real SLURM that tunes first: its last jobs choose, and hand in what was chosen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.slurm.studies import SHORT, SubmittedStudy, TinyStudy, run_here

TUNED: dict[str, Any] = {
    "config": SHORT,
    "tune": {"optim.learning_rate": [1e-3, 1e-2], "seeds": [101], "widen": 1},
}
PACKED = ("--cells-per-job", 2)
NEWCOMER = """
from torch import nn
from ffn_variants import FFNSpec

BEND = FFNSpec(name="bend", kind="activation", build=lambda width: nn.Softplus(), formula="ln(1 + e^x)",
               reference="Dugas et al. 2001", multiply_adds=lambda d, f: 2 * d * f)
"""


def told(study: TinyStudy) -> dict[str, Any]:
    """What the study came to, without days and places: its cells, what was tried and chosen, and losses."""
    tuning = json.loads((study.folder / "tuning.json").read_text())
    written = yaml.safe_load((study.folder / "study.yaml").read_text())
    ends = sorted(study.folder.glob("*/*/*/COMPLETED"))
    losses = {path.parent.name: json.loads(path.read_text())["results"]["eval_loss"] for path in ends}
    rounds = [{name: value for name, value in each.items() if name != "made"} for each in tuning["rounds"]]
    return {
        "cells": sorted(written["cells"]),
        "stages": {stage: sorted(ids) for stage, ids in written["stages"].items()},
        "rounds": sorted(rounds, key=json.dumps),  # they end in any order where variants are tuned apart
        "chosen": sorted(tuning["chosen"], key=json.dumps),
        "losses": losses,
    }


@pytest.mark.slow
def test_the_last_jobs_choose_and_hand_in_what_was_chosen_and_a_newcomer_joins_by_jobs_of_its_own(
    on_cluster: Callable[..., SubmittedStudy], tmp_path_factory: pytest.TempPathFactory, base_config: Path
) -> None:
    """The same comes out on this machine by one command. The newcomer lies in a file."""
    here = TinyStudy(tmp_path_factory.mktemp("here"), base_config, **TUNED)
    run_here(here, "--cells-per-job", 6)
    submitted = on_cluster(**TUNED)
    assert "submitted 4 cells in 2 jobs" in submitted.submit(*PACKED)
    submitted.wait_until_over()
    assert told(submitted.study) == told(here)
    words = submitted.last_words()
    assert "cells are submitted for what comes next" in words
    assert "report.md" in words
    num_cells = len(told(here)["cells"])
    assert submitted.status().splitlines()[-1] == f"{num_cells} cells: {num_cells} done"
    jobs = submitted.jobs().keys()
    assert "nothing to submit" in submitted.submit(*PACKED)
    assert submitted.jobs().keys() == jobs

    mine = tmp_path_factory.mktemp("mine") / "mine.py"
    mine.write_text(NEWCOMER)
    flags = ("--add", f"{mine}:BEND", "--trust-remote-code")
    before = {path: path.stat().st_mtime_ns for path in submitted.study.folder.glob("*/*/*/COMPLETED")}
    run_here(here, "--cells-per-job", 6, *flags)
    submitted.submit(*PACKED, *flags)
    submitted.wait_until_over()
    assert told(submitted.study) == told(here)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert {cell.split("/")[1] for cell in told(here)["cells"]} == {"gelu", "relu", "bend"}
    assert "`bend`" in (submitted.study.folder / "report" / "report.md").read_text()
