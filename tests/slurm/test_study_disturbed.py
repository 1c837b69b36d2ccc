"""What clusters and commands do to jobs: every study arrives once, as an undisturbed run does."""

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from pathlib import Path

import psutil
import pytest

from slurm.cluster import cells_name, report_name
from tests.slurm.cluster import Cluster
from tests.slurm.studies import SubmittedStudy, TinyStudy, assert_as_undisturbed, is_idle, is_told_to_stop

Make = Callable[..., SubmittedStudy]
# With two cells in one job, what happens to the first must not lose the second.
ONE_JOB = ("--cells-per-job", 2)


def job_of(submitted: SubmittedStudy, variant: str) -> str:
    return submitted.study.states()[variant]["job"]


def assert_resumed(submitted: SubmittedStudy, variant: str = "gelu") -> None:
    """Its last session began at a checkpoint, not at the start."""
    sessions = submitted.study.resumed_from(variant)
    assert sessions[0] == 0
    assert sessions[-1] >= 20


@pytest.mark.slow
def test_out_of_time(on_cluster: Make, undisturbed: TinyStudy) -> None:
    """SLURM looks every half a minute for jobs that may need the signal before it looks again.

    Of the 180 s, 40 to 70 s pass until it does: Python has started by then, even where much else runs.
    """
    submitted = on_cluster(preset={"time": "3", "signal_delay_s": 110})
    submitted.submit(*ONE_JOB, "--no-report")
    process = submitted.hold("gelu")
    submitted.cluster.wait_until(lambda: is_told_to_stop(process), 120, "signal that time runs out")
    submitted.release(process)
    submitted.wait_until_over()
    assert_as_undisturbed(submitted.study, undisturbed)
    assert_resumed(submitted)
    log = submitted.study.states()["gelu"]["log"]
    assert "this job is timed-out" in Path(log).read_text()


@pytest.mark.slow
def test_cancelled_while_running_and_while_pending(on_cluster: Make, undisturbed: TinyStudy) -> None:
    submitted = on_cluster()
    submitted.submit("--max-running", 1)
    process = submitted.hold("gelu")
    running = job_of(submitted, "gelu")
    (pending,) = (job.job_id for job in submitted.jobs().values() if job.reason == "JobArrayTaskLimit")
    submitted.cluster.run("scancel", pending)
    submitted.cluster.run("scancel", running)
    submitted.release(process)
    submitted.wait_until_over()
    # Somebody wanted it so: nothing is submitted again, and what is missing is named.
    words = submitted.last_words()
    assert "not done: gpt_neo/gelu/seed1: missing: " in words
    assert "not done: gpt_neo/relu/seed1: missing: its job left the queue before it started" in words
    assert "0 of 2 cells done" in words
    assert submitted.status().splitlines()[-1] == "2 cells: 2 missing"

    assert "submitted 2 cells in 1 jobs" in submitted.submit(*ONE_JOB, "--no-report")
    submitted.wait_until_over()
    assert_as_undisturbed(submitted.study, undisturbed)
    assert_resumed(submitted)


@pytest.mark.ci
def test_killed(on_cluster: Make, undisturbed: TinyStudy) -> None:
    """As by the kernel when memory runs out; the job's second cell had not begun."""
    submitted = on_cluster()
    environment = submitted.cluster.environment()
    assert subprocess.run(["sacct"], env=environment, capture_output=True).returncode != 0  # no accounting
    assert "submitted 2 cells in 1 jobs" in submitted.submit(*ONE_JOB)
    submitted.hold("gelu").kill()
    submitted.wait_until_over()
    assert "2 cells were killed and are submitted again" in submitted.last_words()
    assert "2 of 2 cells done" in submitted.last_words()
    assert_as_undisturbed(submitted.study, undisturbed)
    assert_resumed(submitted)
    assert submitted.study.states()["gelu"]["attempts"] == 2
    assert submitted.status().splitlines()[-1] == "2 cells: 2 done"
    assert (submitted.study.folder / "report" / "report.md").is_file()


@pytest.mark.slow
def test_a_node_that_is_lost_but_runs_on(on_cluster, new_cluster, undisturbed):
    """The job really runs twice: on the node that SLURM no longer sees, and where it was queued again."""
    cluster = new_cluster(2, cpus_per_node=1)
    submitted = on_cluster(cluster)
    submitted.submit(*ONE_JOB)
    first = submitted.hold("gelu")
    job = job_of(submitted, "gelu")
    node = submitted.jobs()[job].node
    cluster.kill_slurmd(node)
    cluster.run("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")
    (other,) = {"n0", "n1"} - {node}

    def attempts() -> list[psutil.Process]:
        return [process for process in cluster.job_processes(other) if process.name().startswith("python")]

    cluster.wait_until(attempts, 60, "second attempt")
    (second,) = attempts()
    cluster.wait_until(lambda: second.cpu_times().user > 2 and is_idle(second), 90, "one that waits")
    assert first.is_running()
    assert second.is_running()
    assert first != second

    submitted.release(first)
    submitted.wait_until_over()
    assert_as_undisturbed(submitted.study, undisturbed)
    assert "2 of 2 cells done" in submitted.last_words()
    assert submitted.study.resumed_from("gelu") == [0]


SBATCH = """\
#!/bin/sh
number=$(cat {folder}/count 2>/dev/null || echo 0)
echo $((number + 1)) > {folder}/count
[ $((number + 1)) = {at} ] || exec {real} "$@"
case {how} in
    before) kill -9 $PPID ;;
    after) {real} "$@" > /dev/null; kill -9 $PPID ;;
esac
"""


@pytest.fixture
def stopped_queue(cluster: Cluster):
    """No job starts inside the test before it calls this."""
    cluster.run("scontrol", "update", "partitionname=debug", "state=down")
    yield lambda: cluster.run("scontrol", "update", "partitionname=debug", "state=up")
    cluster.run("scontrol", "update", "partitionname=debug", "state=up")


def wrap_sbatch(submitted: SubmittedStudy, monkeypatch: pytest.MonkeyPatch, how: str, at: int) -> None:
    """Put a program named sbatch before SLURM's on the PATH."""
    folder = submitted.study.file.with_name("bin")
    folder.mkdir()
    program = folder / "sbatch"
    program.write_text(SBATCH.format(folder=folder, how=how, at=at, real="/usr/bin/sbatch"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def in_a_process(submitted: SubmittedStudy, *flags: object) -> ForkProcess:
    process = multiprocessing.get_context("fork").Process(target=submitted.submit, args=flags)
    process.start()
    return process


def assert_finished_once(submitted: SubmittedStudy, undisturbed: TinyStudy) -> None:
    """One session trained each run, weights and scores are the undisturbed study's, and a report says so."""
    submitted.wait_until_over()
    assert_as_undisturbed(submitted.study, undisturbed)
    for variant in ("gelu", "relu"):
        assert submitted.study.resumed_from(variant) == [0]
    assert submitted.status().splitlines()[-1] == "2 cells: 2 done"
    assert submitted.last_words().count("2 of 2 cells done") == 1
    assert (submitted.study.folder / "report" / "report.md").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "at"), [("before", 1), ("after", 1), ("before", 2), ("after", 2)])
def test_killed_while_sbatch_is_called(on_cluster, undisturbed, monkeypatch, how, at):
    """The first call has the cells, the second the report."""
    submitted = on_cluster()
    wrap_sbatch(submitted, monkeypatch, how, at)
    process = in_a_process(submitted, "--cells-per-job", 2)
    process.join(timeout=120)
    assert process.exitcode == -signal.SIGKILL
    submitted.submit("--cells-per-job", 2)
    assert len(submitted.ids(report_name(submitted.study.folder), "-t", "PENDING")) == 1
    assert_finished_once(submitted, undisturbed)


@pytest.mark.slow
def test_cells_that_were_handed_in_twice_are_run_once(on_cluster, undisturbed, stopped_queue):
    """By two commands at once whose lock does not reach each other's machine, the second knows of no job."""
    submitted = on_cluster()
    for _ in range(2):
        submitted.submit("--cells-per-job", 2)
        for file in (submitted.study.folder / "cells").glob("*.json"):
            file.unlink()
    study = submitted.study.folder
    assert len(submitted.ids(cells_name(study))) == 2
    assert len(submitted.ids(report_name(study), "-t", "PENDING")) == 1
    stopped_queue()
    assert_finished_once(submitted, undisturbed)
    logs = "".join(path.read_text() for path in (study / "jobs").glob("*/*_log.out"))
    assert logs.count(": finished") == 2


@pytest.mark.slow
def test_the_report_waits_for_all_cells_and_is_replaced_where_it_was_cancelled(on_cluster, stopped_queue):
    submitted = on_cluster()
    study = submitted.study.folder

    def pending_reports() -> list[str]:
        return submitted.ids(report_name(study), "-t", "PENDING")

    submitted.submit()
    assert "nothing to submit" in submitted.submit()
    (first,) = pending_reports()
    submitted.cluster.run("scancel", first)
    assert "the report comes after them" in submitted.submit()
    (second,) = pending_reports()

    content = submitted.study.file.read_text()
    submitted.study.file.write_text(content.replace("- relu", "- relu\n- silu"))
    assert "submitted 1 cells" in submitted.submit()
    (third,) = pending_reports()
    assert third != second
    awaited = submitted.cluster.run("squeue", "-h", "-j", third, "-o", "%E")
    arrays = {job.split("_")[0] for job in submitted.ids(cells_name(study), "-t", "PENDING")}
    assert len(arrays) == 2
    assert all(f"afterany:{array}" in awaited for array in arrays)
