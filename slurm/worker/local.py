"""A worker of a study on this machine: ``python -m slurm.worker.local LOG``, its cells on standard input.

Its input stays open as long as the command lives that started it. However that one dies, the system closes
it, and the worker ends as by SIGTERM: a training saves first.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading

from base.errors import run_cli


def main(log: str) -> None:
    """Run the cells that the command wrote: a line with the number of bytes, and these bytes."""
    length = sys.stdin.buffer.readline() or b"0"  # nothing, if the command died before it wrote
    content = sys.stdin.buffer.read(int(length))
    threading.Thread(target=_end_with_command, daemon=True).start()

    from slurm.worker.cell import Worker, run_cells, tell_of_edited_code

    tell_of_edited_code()
    run_cells(pickle.loads(content), Worker(log=log))


def _end_with_command() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1]))
