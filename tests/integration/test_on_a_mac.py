"""Commands on a Mac, as far as Linux can be made to look like one: no test of macOS itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.processes import words_of

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="this is a Mac, and no simulation of one")

# Python imports it at its start, in the processes of a study too. psutil and what asks for proxies choose
# between systems at their import, so that is done before.
LIKE_A_MAC = '''
import asyncio, ctypes.util, os, pathlib, resource, sys, sysconfig, urllib.request, zoneinfo
import psutil

sysconfig.get_config_vars()
for name in ("sched_getaffinity", "sched_setaffinity", "posix_fadvise", "memfd_create"):
    delattr(os, name)

class Usage:
    """As of the system, but the peak is in bytes."""

    def __init__(self, who):
        self._of_linux = of_linux(who)

    def __getattr__(self, name):
        return getattr(self._of_linux, name) * (1024 if name == "ru_maxrss" else 1)

def read_text(path, *args, **kwargs):
    if str(path).startswith("/proc/"):
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return read_of_linux(path, *args, **kwargs)

def readlink(path, *args, **kwargs):
    if path == "/proc/self/ns/pid":
        raise FileNotFoundError(2, "No such file or directory", path)
    return readlink_of_linux(path, *args, **kwargs)

of_linux, resource.getrusage = resource.getrusage, Usage
read_of_linux, pathlib.Path.read_text = pathlib.Path.read_text, read_text
readlink_of_linux, os.readlink = os.readlink, readlink
sys.platform = "darwin"
'''


@pytest.fixture
def mac(tmp_path: Path, repository: Path) -> dict[str, str]:
    """The environment of a process that takes this system for a Mac."""
    (tmp_path / "mac").mkdir()
    (tmp_path / "mac" / "sitecustomize.py").write_text(LIKE_A_MAC, encoding="utf-8")
    return {**os.environ, "PYTHONPATH": f"{tmp_path / 'mac'}:{repository}"}


def run(mac: dict[str, str], folder: Path, command: str, *args: object) -> str:
    """Run a command; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "ffn_ablations", *words_of(command), *map(str, args)],
        env=mac,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.ci
def test_the_status_of_a_study(mac: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("cells: [gpt_neo/gelu/seed1-abc]\n")
    assert "1 waiting" in run(mac, tmp_path, "slurm.status", ".")


STUDY = """
name: tiny
families: {gpt_neo: %s/configs/tiny.yaml}
variants: [gelu, relu]
seeds: [1]
config:
  data: {num_stories: 300}
  train: {torch_compile: false}
  optim: {max_steps: 4}
evaluation: {suites: [perplexity]}
"""


@pytest.mark.slow
def test_a_study_is_trained_and_reported(mac: dict[str, str], tmp_path: Path, repository: Path) -> None:
    """By processes of their own, which are Macs too."""
    (tmp_path / "tiny.yaml").write_text(STUDY % repository)
    told = run(mac, tmp_path, "slurm.submit", "tiny.yaml", "--cluster", "local", "--workers", 2)
    assert (tmp_path / told.splitlines()[-1].split()[-1]).is_file()
    assert run(mac, tmp_path, "slurm.status", "runs/tiny").count("done") >= 2
    (record, _) = tmp_path.glob("runs/tiny/*/*/*/provenance.json")
    peak_mb = json.loads(record.read_text())["results"]["peak_memory_mb"]
    assert 50 < peak_mb < psutil.virtual_memory().total / 2**20
