"""Faults of the world, of the hub and of an installation: one line each."""

import errno
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.utils import httpx
from safetensors import SafetensorError

from base import errors, hub
from base.errors import (
    ADVICE,
    FAULTS,
    DeviceError,
    UsageError,
    WorldError,
    as_usage_error,
    fault_of,
    naming,
    run_cli,
)
from tests.cases import listed


# Faults of the world in one line each, whoever's exception tells of them.
@pytest.fixture
def told(capsys: pytest.CaptureFixture) -> Callable[[Callable[[], object]], str]:
    """Says what a command says that exits with status 2: one line."""

    def run(main: Callable[[], object]) -> str:
        with pytest.raises(SystemExit, match="2"):
            run_cli(lambda: main() and None)
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        return err

    return run


def raising(error: Exception) -> Callable[[], object]:
    return lambda: (_ for _ in ()).throw(error)


@pytest.mark.parametrize("number", FAULTS, ids=errno.errorcode.get)
def test_each_is_one_line_with_its_path(number: int, told) -> None:
    error = OSError(number, os.strerror(number), "runs/a.json")
    assert told(raising(error)).startswith("error: runs/a.json")


@pytest.mark.parametrize(
    ("error", "path"),
    [
        (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"), None),
        (Exception("No space left on device (os error 28)"), None),
        (OSError("1000 requested and 12 written"), None),
        (OSError("[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device"), None),
        (OSError(errno.ENOSPC, "No space left on device", "b.tmp-12", None, "b"), "b"),
    ],
)
def test_libraries_tell_of_a_full_disk_in_their_own_ways(error, path) -> None:
    fault = fault_of(error)
    assert fault is not None
    assert (fault.errno, fault.filename) == (errno.ENOSPC, path)


def test_what_it_was_raised_from_counts() -> None:
    error = RuntimeError("cannot save")
    error.__cause__ = OSError(errno.EROFS, "read-only", "x")
    assert "x: Read-only file system; mend that" in str(as_usage_error(error))


@pytest.mark.parametrize(("kind", "text", "advice"), listed(__file__, "failures of a GPU"))
def test_a_gpu_that_fails_is_told_in_one_line(kind, text, advice) -> None:
    error = getattr(torch, kind, None) or getattr(torch.distributed, kind, RuntimeError)
    error = error(f"{text}\nCUDA kernel errors might be asynchronously reported")
    told = as_usage_error(error)
    assert re.fullmatch(f"{re.escape(text.partition('. ')[0])}; .*{advice}.*", str(told))
    assert isinstance(told, DeviceError) == (kind != "OutOfMemoryError")


def test_after_a_failure_of_the_device_nothing_frees_what_is_on_it() -> None:
    """torch aborts there, and prints frames of C++."""
    code = """
import atexit, os
from base.errors import DeviceError, run_cli
atexit.register(os.abort)
def main():
    print("printed")
    raise DeviceError("gone")
run_cli(main)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "printed\n", "error: gone\n")


def test_defects_keep_their_traceback(tmp_path: Path) -> None:
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "a")
    made_twice = FileExistsError(errno.EEXIST, "File exists", str(tmp_path))
    for error in (missing, made_twice, KeyError("a"), RuntimeError("28")):
        assert as_usage_error(error) is error
        with pytest.raises(type(error)):
            run_cli(raising(error))


def test_a_mistake_of_the_user_keeps_its_line_even_where_a_fault_led_to_it() -> None:
    error = UsageError("(os error 28)")
    assert as_usage_error(error) is error
    error = UsageError("a.jsonl cannot be read; give another")
    error.__cause__ = OSError(errno.EACCES, "Permission denied", "a.jsonl")
    with pytest.raises(UsageError, match="give another"), naming(Path("runs")):
        raise error


def test_real_ones_of_the_system(tmp_path: Path, told) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "astray").symlink_to("/nowhere")
    calls = {
        "File exists": lambda: (tmp_path / "file").mkdir(exist_ok=True),
        "a link to /nowhere, which does not exist": lambda: (tmp_path / "astray").mkdir(exist_ok=True),
        "Not a directory": lambda: (tmp_path / "file" / "x").mkdir(parents=True),
        "Is a directory": lambda: tmp_path.write_text("x"),
        f"error: {'x' * 100}...: File name too long": lambda: Path("x" * 5000).write_text("x"),
        "Too many levels of symbolic links": lambda: (tmp_path / "loop").read_text(),
    }
    for words, call in calls.items():
        assert words in told(call)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "write", [lambda file: np.zeros(9999).tofile(file), lambda file: file.write("x" * 9999)]
)
def test_a_write_is_told_with_the_path(write, told) -> None:
    """On a device that refuses every byte as a full disk does."""

    def main() -> None:
        with naming(Path("runs/rows.bin")), Path("/dev/full").open("w") as file:
            write(file)

    assert told(main).startswith("error: runs/rows.bin: No space left on device; mend that")


# What only the full installation has is told in one line, and nothing else is taken for it.
ROOT = Path(__file__).parents[3]


def test_the_packages_are_those_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {re.split("[><=]", line)[0] for line in project["optional-dependencies"]["torch"]}
    distributions = {"sklearn": "scikit-learn"}  # all others are imported by their own names
    assert {distributions.get(name, name.replace("_", "-")) for name in errors.EXTRA_PACKAGES} == named
    assert not named & {re.split("[><=]", line)[0] for line in project["dependencies"]}


def test_what_is_not_installed_is_told_in_one_line(monkeypatch, told) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    error = ModuleNotFoundError("No module named 'sklearn'", name="sklearn.linear_model")
    assert told(raising(error)) == (
        'error: this needs sklearn, which is not installed; pip install "ffn-ablations[torch]" installs it\n'
    )
    for name in ("pretrain.trani", "numpy", "torchvision", None):  # ours, or of another package
        assert errors.missing_extra(ModuleNotFoundError("x", name=name)) is None


def test_what_is_a_defect_keeps_its_traceback() -> None:
    gone = ModuleNotFoundError("No module named 'torch.fx2'", name="torch.fx2")  # torch itself is there
    for error in (gone, ImportError("cannot import name 'x'", name="torch"), ValueError("torch")):
        assert errors.missing_extra(error) is None


# What is told of the hub's answers, and when it is left alone; nothing here asks it.
class Clock:
    """Stands in for the module ``time``."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock of the test's own, and a hub that may be asked."""
    own = Clock()
    monkeypatch.setattr(hub, "time", own)
    monkeypatch.setattr(hub, "is_offline_mode", lambda: False)
    monkeypatch.setattr(hub._Silence, "since_s", float("-inf"))
    return own


def answer(status: int, kind: type[HfHubHTTPError] = HfHubHTTPError) -> HfHubHTTPError:
    """What the client raises for an answer."""
    request = httpx.Request("GET", "https://hub.example/x")
    return kind("An answer.\nWith more lines.", response=httpx.Response(status, request=request))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (answer(429), "answers with status 429;"),
        (httpx.ConnectError("[Errno -3] no name"), "cannot be reached ([Errno -3] no name)"),
        (httpx.ReadTimeout(""), "cannot be reached (ReadTimeout)"),
        (ConnectionError("Couldn't reach it"), "cannot be reached (Couldn't reach it)"),
    ],
)
def test_a_hub_without_an_answer_is_left_alone_for_a_while(
    error: Exception, words: str, clock: Clock
) -> None:
    assert not hub.is_out_of_reach()
    wrapped = RuntimeError("something of a library")
    wrapped.__context__ = error
    told = hub.cannot_load("cannot load a/b", wrapped, "name a folder")
    assert isinstance(told, WorldError)
    assert words in str(told)
    assert str(told).startswith("cannot load a/b from the hub: ")
    assert str(told).endswith("or name a folder")
    assert hub.is_out_of_reach()
    assert str(hub.out_of_reach("cannot load a/b", "name a folder")) == str(told)
    clock.now_s += hub.SILENT_S + 1
    assert not hub.is_out_of_reach()


@pytest.mark.parametrize(
    "error", [answer(404), answer(401, RepositoryNotFoundError), ValueError("An answer.\nWith more lines.")]
)
def test_an_answer_that_stays_the_same_is_a_mistake(error: Exception) -> None:
    told = hub.cannot_load("cannot load a/b", error, "name a folder")
    assert type(told) is UsageError
    assert str(told).endswith(": An answer. With more lines; name a folder")
    assert not hub.is_out_of_reach()


def test_a_full_disk_is_no_fault_of_the_hub() -> None:
    wrapped = RuntimeError("something of a library")
    wrapped.__cause__ = OSError(errno.ENOSPC, "No space left on device", "/cache/x")
    told = hub.cannot_load("cannot load a/b", wrapped, "name a folder")
    assert isinstance(told, WorldError)
    assert str(told) == f"/cache/x: No space left on device; {ADVICE}"
    assert not hub.is_out_of_reach()
