"""A study on a real SLURM whose last job looks at the scores, and adds seeds to what is undecided."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.studies import SHORT, SubmittedStudy

LOOKS: dict[str, Any] = {"config": SHORT, "seeds": {"first": 2, "most": 4}}
PACKED = ("--cells-per-job", 4)


@pytest.mark.slow
@pytest.mark.usefixtures("own_variants")
def test_the_last_job_submits_what_the_next_look_needs(
    on_cluster: Callable[..., SubmittedStudy], repository: Path, tmp_path: Path
) -> None:
    """Jobs, the last one and those that it submits run the variant that was read when it was submitted."""
    mine = tmp_path / "mine.py"
    mine.write_text((repository / "examples/xielu.py").read_text())
    submitted = on_cluster(variants=("gelu", f"{mine}:XIELU"), **LOOKS)
    assert "submitted 4 cells in 1 jobs" in submitted.submit(*PACKED, "--trust-remote-code")
    mine.unlink()
    submitted.wait_until_over()

    words = submitted.last_words()
    assert "look 1 of 2, at 2 seeds" in words
    assert "gelu, my-xielu go on to 4 seeds" in words  # two runs and four pairs decide nothing
    assert "4 cells are submitted for what comes next" in words
    assert "8 of 8 cells done" in words
    assert "look 2 of 2, at 4 seeds" in words
    assert submitted.status().splitlines()[-1] == "8 cells: 8 done"
    looks = json.loads((submitted.study.folder / "decisions.json").read_text())["looks"]
    assert [look["seeds"] for look in looks] == [2, 4]


@pytest.mark.slow
def test_a_look_whose_job_was_lost_is_made_by_the_same_command(
    on_cluster: Callable[..., SubmittedStudy],
) -> None:
    submitted = on_cluster(**LOOKS)
    submitted.submit(*PACKED)
    last = max(submitted.jobs(), key=lambda job: int(job.split("_")[0]))
    submitted.cluster.run("scancel", last)
    submitted.wait_until_over()
    assert not (submitted.study.folder / "decisions.json").exists()

    said = submitted.submit(*PACKED)
    assert "look 1 of 2, at 2 seeds" in said
    assert "submitted 4 cells in 1 jobs" in said
    submitted.wait_until_over()
    assert "look 2 of 2, at 4 seeds" in submitted.last_words()
    jobs = submitted.jobs().keys()
    assert "nothing to submit" in submitted.submit(*PACKED)
    assert submitted.jobs().keys() == jobs
