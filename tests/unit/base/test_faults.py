"""Faults of the world in one line each, whoever's exception tells of them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError

from base.errors import FAULTS, UsageError, as_usage_error, fault_of, naming, run_cli


def told(error: Exception, capsys: pytest.CaptureFixture) -> str:
    """What a command says that ends with this exception; it exits with status 2."""

    def main() -> None:
        raise error

    with pytest.raises(SystemExit, match="2"):
        run_cli(main)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("number", FAULTS, ids=errno.errorcode.get)
def test_each_is_one_line_with_its_path(number: int, capsys: pytest.CaptureFixture) -> None:
    assert told(OSError(number, os.strerror(number), "runs/a.json"), capsys).startswith("error: runs/a.json")


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


def test_defects_keep_their_traceback(tmp_path: Path) -> None:
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "a")
    made_twice = FileExistsError(errno.EEXIST, "File exists", str(tmp_path))
    for error in (missing, made_twice, KeyError("a"), RuntimeError("28")):
        assert as_usage_error(error) is error
        with pytest.raises(type(error)):
            run_cli(lambda error=error: (_ for _ in ()).throw(error))


def test_a_mistake_of_the_user_keeps_its_line_even_where_a_fault_led_to_it() -> None:
    error = UsageError("(os error 28)")
    assert as_usage_error(error) is error
    error = UsageError("a.jsonl cannot be read; give another")
    error.__cause__ = OSError(errno.EACCES, "Permission denied", "a.jsonl")
    with pytest.raises(UsageError, match="give another"), naming(Path("runs")):
        raise error


def test_real_ones_of_the_system(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    calls = {
        "File exists": lambda: (tmp_path / "file").mkdir(exist_ok=True),
        "Not a directory": lambda: (tmp_path / "file" / "x").mkdir(parents=True),
        "Is a directory": lambda: tmp_path.write_text("x"),
        f"error: {'x' * 100}...: File name too long": lambda: Path("x" * 5000).write_text("x"),
        "Too many levels of symbolic links": lambda: (tmp_path / "loop").read_text(),
    }
    for words, call in calls.items():
        with pytest.raises(SystemExit, match="2"):
            run_cli(lambda call=call: call() and None)
        err = capsys.readouterr().err
        assert words in err
        assert err.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "write", [lambda file: np.zeros(9999).tofile(file), lambda file: file.write("x" * 9999)]
)
def test_a_write_is_told_with_the_path(write, capsys: pytest.CaptureFixture) -> None:
    """On a device that refuses every byte as a full disk does."""

    def main() -> None:
        with naming(Path("runs/rows.bin")), Path("/dev/full").open("w") as file:
            write(file)

    with pytest.raises(SystemExit, match="2"):
        run_cli(main)
    assert capsys.readouterr().err.startswith("error: runs/rows.bin: No space left on device; mend that")
