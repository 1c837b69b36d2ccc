"""Cells handed in twice, or by commands that were killed: every run is finished once, with one report."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable

import pytest

from slurm.cluster import cells_name, report_name
from tests.slurm.cluster import Cluster
from tests.slurm.studies import SubmittedStudy, TinyStudy, assert_as_undisturbed

Make = Callable[..., SubmittedStudy]
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


def in_a_process(submitted: SubmittedStudy, *flags: object) -> multiprocessing.Process:
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
def test_killed_while_sbatch_is_called(
    on_cluster: Make, undisturbed: TinyStudy, monkeypatch: pytest.MonkeyPatch, how: str, at: int
) -> None:
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
def test_cells_that_were_handed_in_twice_are_run_once(
    on_cluster: Make, undisturbed: TinyStudy, stopped_queue
) -> None:
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
def test_the_report_waits_for_all_cells_and_is_replaced_where_it_was_cancelled(
    on_cluster: Make, stopped_queue
) -> None:
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
