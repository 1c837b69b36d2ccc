"""One process at a time in a run folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.system import is_locked
from pretrain.run.run_folder import sole_writer


def test_a_second_writer_is_refused_and_a_dead_one_is_forgotten(tmp_path):
    code = (
        "import sys, time, pathlib; from pretrain.run.run_folder import sole_writer\n"
        "with sole_writer(pathlib.Path(sys.argv[1])): print('in', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        with pytest.raises(UsageError, match="another process trains in this folder"), sole_writer(tmp_path):
            pass
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    began = time.monotonic()
    with sole_writer(tmp_path):
        assert time.monotonic() - began < 1  # on one host the system knows at once


def test_what_a_killed_writer_left_goes_with_its_successor(tmp_path):
    left = tmp_path / "model.tmp-7"
    left.mkdir()
    with sole_writer(tmp_path):
        assert not left.exists()
        left.mkdir()
        with pytest.raises(UsageError), sole_writer(tmp_path):
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


def test_the_error_says_what_to_remove_where_the_system_has_no_locks(tmp_path):
    told = pytest.raises(UsageError, match=f"if there is none, remove {tmp_path}/.lock")
    with sole_writer(tmp_path), told, sole_writer(tmp_path):
        pass
