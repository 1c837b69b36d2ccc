"""What submitit runs, in a process that a script's shell started in the background."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import os, signal
from slurm.job import heed_interrupts
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
os.kill(os.getpid(), signal.SIGINT)
heed_interrupts()
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("ended")
"""


@pytest.mark.ci
def test_a_worker_that_inherited_to_ignore_interrupts_can_be_cancelled() -> None:
    called = ["sh", "-c", 'trap \'\' INT; exec "$0" -c "$1"', sys.executable, CODE]
    done = subprocess.run(called, capture_output=True, text=True, timeout=120)
    assert done.stdout == "ended\n", done.stderr
