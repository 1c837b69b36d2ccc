"""The throw-away cluster does what the tests of studies rely on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.leftovers import processes_of


def submit(cluster: Cluster, folder: Path, script: str, *flags: str) -> str:
    """Submit a shell script; returns the job's id."""
    return cluster.run("sbatch", "--parsable", "-o", folder / "%A_%a.out", *flags, "--wrap", script).strip()


def command_lines() -> list[str]:
    """Of every process, what it was started with."""
    return [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]


def names_of(conf: Path) -> set[str]:
    """Of every process of a cluster its name, and of a ``sleep`` how long."""
    names = set()
    for process, _ in processes_of(conf):
        with contextlib.suppress(psutil.NoSuchProcess):
            name = process.name()
            names.add(" ".join(process.cmdline()) if name == "sleep" else name)
    return names


def test_a_job_runs_with_nothing_of_another_job_in_its_environment(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "7")
    monkeypatch.setenv("SBATCH_TIMELIMIT", "0:01")
    job = submit(cluster, tmp_path, "env > env.txt", f"--chdir={tmp_path}")
    cluster.wait_until(lambda: cluster.state(job) == "COMPLETED", 20, f"end of job {job}")
    variables = dict(
        line.split("=", 1) for line in (tmp_path / "env.txt").read_text().splitlines() if "=" in line
    )
    assert variables["SLURM_JOB_ID"] == job
    assert not {"SLURM_ARRAY_TASK_ID", "SBATCH_TIMELIMIT"} & set(variables)


def test_nothing_is_left_after_stop(tmp_path: Path) -> None:
    with Cluster() as cluster:
        # Ignores SIGTERM and has left its session, so that only looking for it finds it.
        submit(cluster, tmp_path, "trap '' TERM; setsid sleep 301 & sleep 302")
        wanted = {"munged", "slurmctld", "slurmd", "slurm_script", "sleep 301", "sleep 302"}
        cluster.wait_until(lambda: names_of(cluster.conf) >= wanted, 20, "process that is to be ended")
    assert list(processes_of(cluster.conf)) == []
    assert not cluster.folder.exists()


@pytest.mark.slow
def test_nothing_is_left_after_sigkill_of_whoever_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.slurm.cluster", "--dir", str(tmp_path / "c")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        conf = Path(process.stdout.readline().strip().removeprefix("export SLURM_CONF="))
        assert names_of(conf) >= {"munged", "slurmctld", "slurmd"}
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while list(processes_of(conf)) or any(str(conf) in line for line in command_lines()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
