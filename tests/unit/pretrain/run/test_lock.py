"""One process at a time in a run folder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from base.errors import UsageError
from pretrain.run import lock
from pretrain.run.lock import sole_writer


def test_a_second_writer_is_refused_and_a_dead_one_is_forgotten(tmp_path, capsys):
    code = (
        "import sys, time, pathlib; from pretrain.run.lock import sole_writer\n"
        "with sole_writer(pathlib.Path(sys.argv[1])): print('in', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"in\n"
        with pytest.raises(UsageError, match=f"another process \\({holder.pid} on "), sole_writer(tmp_path):
            pass
        os.kill(holder.pid, signal.SIGKILL)
    finally:
        holder.kill()
        holder.wait()
    began = time.monotonic()
    with sole_writer(tmp_path):
        assert time.monotonic() - began < 1  # on one host the system knows at once
    assert f"process {holder.pid} on {socket.gethostname()} ended without a word" in capsys.readouterr().out
    assert not (tmp_path / ".lock-holder").exists()


def test_what_a_killed_writer_left_goes_with_its_successor(tmp_path):
    left = tmp_path / "model.tmp-7"
    left.mkdir()
    with sole_writer(tmp_path):
        assert not left.exists()
        left.mkdir()
        with pytest.raises(UsageError), sole_writer(tmp_path):
            pass
        assert left.exists()  # whoever is kept out removes nothing


def leave_holder(path, beat):
    (path / ".lock-holder").write_text(json.dumps({"pid": 7, "host": "elsewhere", "beat": beat}))


def test_a_holder_on_another_host_is_refused_while_it_shows_life(tmp_path, monkeypatch):
    """The file system keeps locks to one host here: the lock itself is free."""
    monkeypatch.setattr(lock, "PATIENCE_S", 20.0)
    leave_holder(tmp_path, 3)
    sign = threading.Timer(0.3, leave_holder, (tmp_path, 4))
    sign.start()
    with pytest.raises(UsageError, match=r"another process \(7 on elsewhere\)"), sole_writer(tmp_path):
        pass
    sign.join()
    assert json.loads((tmp_path / ".lock-holder").read_text())["beat"] == 4  # its name stays


def test_a_silent_holder_on_another_host_is_taken_over(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lock, "PATIENCE_S", 0.5)
    leave_holder(tmp_path, 3)
    began = time.monotonic()
    with sole_writer(tmp_path):
        assert time.monotonic() - began >= 0.5
        assert json.loads((tmp_path / ".lock-holder").read_text())["pid"] == os.getpid()
    assert "process 7 on elsewhere ended without a word; this process takes over" in capsys.readouterr().out


def test_a_holder_shows_life(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT_S", 0.05)
    with sole_writer(tmp_path):
        deadline = time.monotonic() + 20
        while json.loads((tmp_path / ".lock-holder").read_text())["beat"] < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert not any(thread.name == "sole-writer" for thread in threading.enumerate())


def test_a_torn_holder_file_is_no_obstacle(tmp_path):
    (tmp_path / ".lock-holder").write_text('{"pid": 7')
    with sole_writer(tmp_path):
        pass


def test_of_two_holders_the_one_that_finds_the_others_name_stops(tmp_path, monkeypatch, capsys):
    """As after a night in which this host slept and another took over."""
    monkeypatch.setattr(lock, "BEAT_S", 0.05)
    told = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: told.set())
    try:
        with sole_writer(tmp_path):
            leave_holder(tmp_path, 1)
            assert told.wait(20)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "another process (7 on elsewhere) trains in this folder" in capsys.readouterr().out
    assert json.loads((tmp_path / ".lock-holder").read_text())["pid"] == 7
