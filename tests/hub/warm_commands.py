"""A process with the client's variables, which forks a command for each line that it reads.

``huggingface_hub`` reads ``HF_ENDPOINT`` and its like when it is imported; the processes of the tests have
imported it without them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests import processes

ROOT = Path(__file__).parents[2]


class WarmCommands:
    """Runs commands in an environment of their own; a context manager.

    Args:
        variables: Of the environment, beside those of this process.
    """

    def __init__(self, variables: dict[str, str]) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env={**environment, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> WarmCommands:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate(timeout=60)

    def __call__(self, module: str, *args: object) -> subprocess.CompletedProcess[str]:
        """Run ``python -m module ARGS``."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([module, *map(str, args)]) + "\n")
        self._process.stdin.flush()
        status, out, err = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess([module, *map(str, args)], status, out, err)


def error_of(done) -> str:
    """Return the one line that a command ended with."""
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2, done.stderr
    return line


def main() -> None:
    """Run what standard input names, a command a line, and answer each with its status and its output."""
    processes.IMPORTS.append("datasets")
    for line in sys.stdin:
        done = processes.run_command(*json.loads(line), timeout_s=500)
        print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)


if __name__ == "__main__":
    main()
