"""A small study on a real SLURM, from the command to its report, and what is asked of it meanwhile.

Every job imports torch and transformers anew, 8 s of a processor. So the fast tests hold one study alone,
whose job is killed and which arrives all the same, in ``test_study_disturbed.py``.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from base.errors import UsageError
from slurm.arguments import SubmitArgs
from slurm.cluster import ClusterPreset
from slurm.jobs import SlurmSubmitter
from tests.slurm.studies import MAX_STEPS, SHORT, SubmittedStudy, TinyStudy, assert_as_undisturbed, run_here

Make = Callable[..., SubmittedStudy]


@pytest.mark.ci
def test_a_step_has_the_cores_and_the_variables_of_its_preset(cluster, tmp_path, monkeypatch):
    """Nothing here binds tasks to cores, so it is only seen that srun was told how many a task has."""
    preset = ClusterPreset(
        gpus_per_node=0,
        cpus_per_task=2,
        setup=(f"export SCRATCH={tmp_path}/scratch", "export HF_HOME=$SCRATCH/hf"),
        additional_parameters={"reservation": None, "exclusive": False, "comment": "a b"},
    )
    submitter = SlurmSubmitter.__new__(SlurmSubmitter)
    study = SimpleNamespace(config=SimpleNamespace(name="s"), folder=tmp_path / "s")
    vars(submitter)["study"] = study  # as much of one as is asked
    submitter.preset, submitter.snapshot = preset, tmp_path
    submitter.options = SubmitArgs(study=Path("s"))
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    names = ("SRUN_CPUS_PER_TASK", "OMP_NUM_THREADS", "HF_HOME")
    code = f"[__import__('os').getenv(name) for name in {names}]"
    assert " on nodes n0" in submitter.first_start(4)
    assert not cluster.queue(running_only=True)
    job = submitter._cells_executor(1, []).submit(eval, code)
    cluster.wait_until(lambda: cluster.state(job.job_id) == "COMPLETED", 30, f"end of job {job.job_id}")
    assert job.result() == ["2", "2", f"{tmp_path}/scratch/hf"]
    for change in ({"partition": "none"}, {"cpus_per_task": 99}, {"gpus_per_node": 1}):
        submitter.preset = preset.model_copy(update=change)
        with pytest.raises(UsageError, match=r"sbatch failed: .*in the preset"):
            submitter.first_start(4)


@pytest.mark.slow
def test_an_array_is_throttled_and_a_second_command_submits_nothing(on_cluster, undisturbed):
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
def test_more_cells_than_the_site_takes_in_an_array_go_into_several(on_cluster, new_cluster):
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
def test_the_last_jobs_of_a_tuning_choose_and_hand_in_what_was_chosen(
    on_cluster: Make, tmp_path_factory: pytest.TempPathFactory, base_config: Path
) -> None:
    """The same comes out on this machine by one command."""
    tuned: dict[str, Any] = {
        "config": SHORT,
        "tune": {"optim.learning_rate": [1e-3, 1e-2], "seeds": [101], "widen": 1},
    }
    here = TinyStudy(tmp_path_factory.mktemp("here"), base_config, **tuned)
    run_here(here, "--cells-per-job", 6)
    submitted = on_cluster(**tuned)
    assert "submitted 4 cells in 2 jobs" in submitted.submit("--cells-per-job", 2)
    submitted.wait_until_over()
    assert told(submitted.study) == told(here)
    words = submitted.last_words()
    assert "cells are submitted for what comes next" in words
    assert "report.md" in words
    num_cells = len(told(here)["cells"])
    assert submitted.status().splitlines()[-1] == f"{num_cells} cells: {num_cells} done"
    jobs = submitted.jobs().keys()
    assert "nothing to submit" in submitted.submit("--cells-per-job", 2)
    assert submitted.jobs().keys() == jobs
