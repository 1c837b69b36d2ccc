"""What Linux and macOS do differently. macOS is simulated: what it lacks is taken away."""

import ast
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

import base
from base import system
from base.files import PACKAGES
from ffn_ablations.cli import COMMANDS

ROOT = Path(__file__).parents[3]
OURS = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
# What is not the same on Linux and macOS, or absent on one: looked for wherever it is not dealt with.
DIFFERS = {
    "fcntl", "resource", "termios", "pwd", "grp", "sched_getaffinity", "posix_fadvise", "memfd_create",
    "SIGUSR1", "SIGUSR2", "ru_maxrss", "fork", "poll", "epoll", "prctl", "statvfs", "boot_time",
}  # fmt: skip


def test_cores_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "linux":
        assert system.num_cores() == len(psutil.Process().cpu_affinity())
        monkeypatch.delattr(os, "sched_getaffinity")
    assert system.num_cores() == psutil.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert system.num_cores() == 1


def test_peak_memory_is_in_mib_on_both(monkeypatch: pytest.MonkeyPatch) -> None:
    resident = psutil.Process().memory_info().rss / 2**20
    assert 0.9 * resident < system.peak_memory_mb() < 100 * resident
    usage = type("Usage", (), {"ru_maxrss": 300 * 2**20})
    monkeypatch.setattr(system.resource, "getrusage", lambda _who: usage)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert system.peak_memory_mb() == 300


def test_a_pipe_is_unread_when_its_reader_is_gone(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream, (tmp_path / "file").open("w") as file:
        assert not system.is_unread(stream)
        os.set_blocking(writer, False)
        os.write(writer, bytes(1 << 22))  # more than it holds
        assert not system.is_unread(stream)
        os.close(reader)
        assert system.is_unread(stream)
        assert not system.is_unread(file)


def test_a_lock_is_seen_until_it_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    assert not system.is_locked(path)
    with FileLock(path):
        path.chmod(0o400)
        assert system.is_locked(path)
    assert not system.is_locked(path)

    def unable(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", unable)
    assert not system.is_locked(path)


def names_of(path: Path) -> set[str]:
    """What a file imports, and takes of modules that differ between systems."""
    named = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                named |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names) if not module.startswith(PACKAGES):
                named |= {module, *(alias.name for alias in names)}
            case ast.Attribute(value=ast.Name(id="os" | "signal" | "select" | "psutil"), attr=name):
                named.add(name)
    return named


def test_nothing_else_names_what_differs() -> None:
    """Else a Mac would meet it at an import or in the middle of a run."""
    found = {path.relative_to(ROOT).as_posix(): names_of(path) & DIFFERS for path in OURS}
    assert {"fcntl", "sched_getaffinity", "poll"} <= found.pop("base/system.py")
    assert not {path: names for path, names in found.items() if names}


ON_WINDOWS = """
import asyncio, runpy, subprocess, sys, zoneinfo  # parts of Python that look at the system once
import psutil, pydantic_settings, submitit.core.submission
sys.platform = "win32"
for absent in ("fcntl", "resource", "termios", "pwd"):
    sys.modules[absent] = None
for command in sys.argv[1:]:
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]
    try:
        runpy.run_module(command, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        print(command, end.code)
"""


@pytest.mark.ci
def test_every_command_says_that_windows_is_not_supported() -> None:
    """Each in one line with status 2, before it imports anything that Windows lacks."""
    modules = [each.function.partition(":")[0] for each in COMMANDS.values()] + ["ffn_ablations"]
    code = ON_WINDOWS.replace("PACKAGES", repr(PACKAGES))
    done = subprocess.run(
        [sys.executable, "-c", code, *modules], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.stdout.splitlines() == [f"{module} 2" for module in modules]
    assert done.stderr.splitlines() == [f"error: {base.WINDOWS}"] * len(modules)
    assert "WSL2" in base.WINDOWS
