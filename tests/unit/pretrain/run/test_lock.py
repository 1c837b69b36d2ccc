"""One process at a time in a run folder."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.system import is_locked
from pretrain.run.run_folder import sole_writer


def test_a_second_writer_is_refused_until_the_first_is_killed(tmp_path):
    code = (
        "import sys, filelock\nwith filelock.FileLock(sys.argv[1]): print('in', flush=True); sys.stdin.read()"
    )
    holder = [sys.executable, "-c", code, str(RunFolder(tmp_path).lock_file)]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        with pytest.raises(UsageError, match="another process trains in this folder"), sole_writer(tmp_path):
            pass
        process.kill()
    with sole_writer(tmp_path):
        assert is_locked(RunFolder(tmp_path).lock_file)


def test_what_a_killed_writer_left_goes_with_its_successor(tmp_path):
    left = tmp_path / "model.tmp-7"
    left.mkdir()
    with sole_writer(tmp_path):
        assert not left.exists()
        left.mkdir()
        with (
            pytest.raises(UsageError, match=f"if there is none, remove {tmp_path}/.lock"),
            sole_writer(tmp_path),
        ):
            pass
        assert left.exists()  # whoever is kept out removes nothing


def test_asking_keeps_no_writer_out(tmp_path):
    """Whoever asks takes the lock for a moment."""
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            is_locked(RunFolder(tmp_path).lock_file)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(50):
            with sole_writer(tmp_path):
                pass
    finally:
        ended.set()
        asking.join()
