"""The throw-away cluster leaves nothing behind."""

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

from tests.slurm.leftovers import processes_of


def names_of(conf: Path) -> set[str]:
    """Of every process of a cluster its name, and of a ``sleep`` how long."""
    names = set()
    for process, _ in processes_of(conf):
        with contextlib.suppress(psutil.NoSuchProcess):
            name = process.name()
            names.add(" ".join(process.cmdline()) if name == "sleep" else name)
    return names


@pytest.mark.slow
def test_nothing_is_left_after_sigkill_of_whoever_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.slurm.cluster", "--dir", str(tmp_path / "c")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        conf = Path(process.stdout.readline().strip().removeprefix("export SLURM_CONF="))
        deadline = time.monotonic() + 30
        # Ignores SIGTERM and has left its session, so that only looking for it finds it.
        script = "trap '' TERM; setsid sleep 301 & sleep 302"
        environment = os.environ | {"SLURM_CONF": str(conf)}
        subprocess.run(["sbatch", "-o", tmp_path / "out", "--wrap", script], env=environment, check=True)
        wanted = {"munged", "slurmctld", "slurmd", "slurm_script", "sleep 301", "sleep 302"}
        while not names_of(conf) >= wanted:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(process.pid, signal.SIGKILL)
    while list(processes_of(conf)) or any(str(conf) in " ".join(p.info["cmdline"] or ()) for p in _all()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _all() -> list[psutil.Process]:
    return list(psutil.process_iter(["cmdline"]))
