"""A study on a real SLURM whose last job looks at the scores, and adds seeds to what is undecided."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.studies import CONFIG, SubmittedStudy


@pytest.mark.slow
def test_the_last_job_submits_what_the_next_look_needs(on_cluster: Callable[..., SubmittedStudy]) -> None:
    short = {"optim": {"max_steps": 20}, "train": CONFIG["train"] | {"save_steps": 20}}
    submitted = on_cluster(config=short, seeds={"first": 2, "most": 4})
    assert "submitted 4 cells in 1 jobs" in submitted.submit("--cells-per-job", 4)
    submitted.wait_until_over()

    words = submitted.last_words()
    assert "look 1 of 2, at 2 seeds" in words
    assert "gelu, relu go on to 4 seeds" in words  # two runs and four pairs decide nothing
    assert "4 cells are submitted for what comes next" in words
    assert "8 of 8 cells done" in words
    assert "look 2 of 2, at 4 seeds" in words
    assert submitted.status().splitlines()[-1] == "8 cells: 8 done"
    looks = json.loads((submitted.study.folder / "decisions.json").read_text())["looks"]
    assert [look["seeds"] for look in looks] == [2, 4]

    jobs = submitted.jobs().keys()
    assert "nothing to submit" in submitted.submit("--cells-per-job", 4)
    assert submitted.jobs().keys() == jobs


@pytest.mark.slow
def test_a_look_whose_job_was_lost_is_made_by_the_same_command(
    on_cluster: Callable[..., SubmittedStudy],
) -> None:
    short = {"optim": {"max_steps": 20}, "train": CONFIG["train"] | {"save_steps": 20}}
    submitted = on_cluster(config=short, seeds={"first": 2, "most": 4})
    submitted.submit("--cells-per-job", 4)
    last = max(submitted.jobs(), key=lambda job: int(job.split("_")[0]))
    submitted.cluster.run("scancel", last)
    submitted.wait_until_over()
    assert not (submitted.study.folder / "decisions.json").exists()

    said = submitted.submit("--cells-per-job", 4)
    assert "look 1 of 2, at 2 seeds" in said
    assert "submitted 4 cells in 1 jobs" in said
    submitted.wait_until_over()
    assert "look 2 of 2, at 4 seeds" in submitted.last_words()


@pytest.mark.slow
@pytest.mark.usefixtures("own_variants")
def test_seeds_are_added_to_a_variant_whose_file_is_gone(
    on_cluster: Callable[..., SubmittedStudy], repository: Path, tmp_path: Path
) -> None:
    """Jobs, the last one and those that it submits run what was read when the study was submitted."""
    mine = tmp_path / "mine.py"
    mine.write_text((repository / "examples/xielu.py").read_text())
    short = {"optim": {"max_steps": 20}, "train": CONFIG["train"] | {"save_steps": 20}}
    submitted = on_cluster(variants=("gelu", f"{mine}:XIELU"), config=short, seeds={"first": 2, "most": 4})
    said = submitted.submit("--cells-per-job", 4, "--trust-remote-code")
    assert "submitted 4 cells in 1 jobs" in said
    mine.unlink()
    submitted.wait_until_over()
    words = submitted.last_words()
    assert "gelu, my-xielu go on to 4 seeds" in words
    assert "8 of 8 cells done" in words
    assert submitted.status().splitlines()[-1] == "8 cells: 8 done"
