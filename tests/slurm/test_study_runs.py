"""A small study on a real SLURM, from the command to its report, and what is asked of it meanwhile."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from studies import MAX_STEPS, SubmittedStudy, TinyStudy, assert_as_undisturbed, run_command

Make = Callable[..., SubmittedStudy]


def test_a_study_arrives_at_its_report_without_accounting(on_cluster: Make, undisturbed: TinyStudy) -> None:
    submitted = on_cluster()
    environment = submitted.cluster.environment()
    assert subprocess.run(["sacct"], env=environment, capture_output=True).returncode != 0

    command = (submitted.study.file, "--runs-dir", submitted.study.runs, *submitted.flags())
    said = run_command("slurm.submit", *command, environment=environment)
    assert "submitted 2 cells in 2 jobs" in said
    submitted.wait_until_over()

    assert_as_undisturbed(submitted.study, undisturbed)
    assert submitted.status().splitlines()[-1] == "2 cells: 2 done"
    assert "2 of 2 cells done" in submitted.last_words()
    assert (submitted.study.folder / "report" / "report.md").is_file()


def test_an_array_is_throttled_and_a_second_command_submits_nothing(
    on_cluster: Make, undisturbed: TinyStudy
) -> None:
    submitted = on_cluster()
    submitted.submit("--max-running", 1, "--no-report")
    first = submitted.hold("gelu")
    waiting = [job for job in submitted.jobs().values() if job.reason == "JobArrayTaskLimit"]
    assert [job.state for job in waiting] == ["PENDING"]

    jobs, queue = submitted.jobs(), submitted.cluster.queue()
    said = submitted.submit("--max-running", 1)
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
    assert "left alone, as it failed before (--retry-failed tries it again): gpt_neo/silu/seed1" in said
    assert "nothing to submit" in said
