"""A small study on a real SLURM, from the command to its report, and what is asked of it meanwhile.

Every job imports torch and transformers anew, 8 s of a processor. So the fast tests hold one study alone,
whose job is killed and which arrives all the same, in ``test_study_disturbed.py``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from safetensors.numpy import load

from tests.slurm.cluster import Cluster
from tests.slurm.studies import (
    MAX_STEPS,
    SubmittedStudy,
    TinyStudy,
    assert_as_undisturbed,
)

Make = Callable[..., SubmittedStudy]


@pytest.mark.slow
def test_an_array_is_throttled_and_a_second_command_submits_nothing(
    on_cluster: Make, undisturbed: TinyStudy
) -> None:
    submitted = on_cluster()
    submitted.submit("--max-running", 1, "--no-report")
    first = submitted.hold("gelu")
    waiting = [job for job in submitted.jobs().values() if job.reason == "JobArrayTaskLimit"]
    assert [job.state for job in waiting] == ["PENDING"]

    jobs, queue = submitted.jobs(), submitted.cluster.queue()
    said = submitted.submit("--max-running", 1, "--no-report")
    assert "1 queued, 1 running" in said
    assert "nothing to submit" in said
    assert submitted.cluster.queue() == queue
    status = submitted.status()
    assert f"/{MAX_STEPS}, loss" in status
    assert status.splitlines()[-1] == "2 cells: 1 queued, 1 running"

    submitted.release(first)
    submitted.wait_until_over()
    assert_as_undisturbed(submitted.study, undisturbed)
    assert submitted.jobs().keys() == jobs.keys()
    # One began after the other had ended, although the node has a processor for each.
    states = sorted(submitted.study.states().values(), key=lambda state: state["started_s"])
    assert states[0]["finished_s"] < states[1]["started_s"]


@pytest.mark.slow
def test_a_cell_that_cannot_succeed_stops_no_other_and_is_named(
    on_cluster: Make, undisturbed: TinyStudy
) -> None:
    diverging = {"variants": {"silu": {"optim": {"learning_rate": 50.0}}}}
    submitted = on_cluster(variants=("gelu", "silu", "relu"), config=diverging)
    submitted.submit("--cells-per-job", 3)
    submitted.wait_until_over()

    assert_as_undisturbed(submitted.study, undisturbed)
    words = submitted.last_words()
    assert "2 of 3 cells done" in words
    assert "not done: gpt_neo/silu/seed1: failed: " in words
    assert "had to stay below" in words
    assert (submitted.study.folder / "report" / "report.md").is_file()
    assert submitted.study.states()["silu"]["attempts"] == 1

    said = submitted.submit()
    assert "not done: gpt_neo/silu/seed1" in said
    assert "nothing to submit" in said


@pytest.mark.slow
def test_more_cells_than_the_site_takes_in_an_array_go_into_several(
    on_cluster: Make, new_cluster: Callable[..., Cluster]
) -> None:
    small = new_cluster(1, options={"MaxArraySize": 3})  # indices 0 and 1
    submitted = on_cluster(small, variants=("gelu", "relu", "silu"))
    assert "submitted 3 cells in 3 jobs" in submitted.submit("--max-running", 2, "--no-report")
    arrays = Counter(job.split("_")[0] for job in submitted.jobs())
    assert sorted(arrays.values()) == [1, 2]
    submitted.wait_until_over()
    assert submitted.status().splitlines()[-1] == "3 cells: 3 done"
    # The bound holds for all of them together: the second array began after the first had ended.
    states = sorted(submitted.study.states().values(), key=lambda state: state["started_s"])
    assert max(state["finished_s"] for state in states[:2]) < states[2]["started_s"]


@pytest.mark.slow
def test_cells_of_a_job_run_at_the_same_time(on_cluster: Make, undisturbed: TinyStudy) -> None:
    submitted = on_cluster()
    said = submitted.submit("--cells-per-job", 2, "--cells-at-once", 2, "--no-report")
    assert "submitted 2 cells in 1 jobs" in said
    held = submitted.hold("gelu")
    submitted.cluster.wait_until(lambda: submitted.study.steps("relu"), 60, "cell that trains meanwhile")
    submitted.release(held)
    submitted.wait_until_over()
    assert_as_undisturbed(submitted.study, undisturbed)
    one, other = submitted.study.states().values()
    assert one["pid"] != other["pid"]


@pytest.mark.slow
def test_a_cell_on_two_nodes_trains_as_one_process_does(
    on_cluster: Make, new_cluster: Callable[..., Cluster], undisturbed: TinyStudy
) -> None:
    """Each process takes half of a step's rows, so what comes out differs by rounding alone."""
    # The nodes of this cluster are names of one host, which does not know them.
    preset = {"nodes": 2, "environment": {"MASTER_ADDR": "127.0.0.1"}}
    submitted = on_cluster(new_cluster(2), preset, variants=("gelu",))
    submitted.submit("--no-report")
    submitted.wait_until_over()
    assert submitted.status().splitlines()[-1] == "1 cells: 1 done"
    provenance = json.loads((submitted.study.run_dir("gelu") / "provenance.json").read_text())
    assert provenance["num_processes"] == 2
    one, two = (load(study.weights("gelu")) for study in (undisturbed, submitted.study))
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=0, atol=1e-5, err_msg=name)
    assert len(submitted.study.rows("gelu")) == len(undisturbed.rows("gelu"))
