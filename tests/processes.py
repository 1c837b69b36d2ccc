"""Processes forked from one that has imported everything: a command starts in 0.1 s, not with 5 s of imports.

What is tested of starting Python itself (the entry points, what an import costs) uses ``subprocess``.
"""

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import import_module
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from base.errors import run_cli
from ffn_ablations.cli import main

# Everything heavy that a command of this project comes to import, but for the commands themselves.
IMPORTS = [
    "eval.evaluate",
    "report.write",
    "matplotlib.figure",
    "pretrain.training.training_run",
    "pretrain.data.embedded",
    "pytest",
    "submitit",
    "transformers.models.gpt_neo.modeling_gpt_neo",
    "transformers.models.roberta.modeling_roberta",
    "transformers.models.t5.modeling_t5",
]

# Libraries that a command only loads for its own work, not where it reads flags, files or rows.
HEAVY = ("torch", "transformers", "datasets", "submitit", "sklearn", "lm_eval", "scipy.stats")
FRESH = """
import json, sys
from ffn_ablations.cli import run
try:
    run()
except SystemExit as end:
    loaded = [name for name in HEAVY if hasattr(sys.modules.get(name), "__file__")]
    print(json.dumps([end.code or 0, loaded]), file=sys.stderr)
"""


NUMBERS = ("numpy", "pandas", "pyarrow", "scipy", "matplotlib")


def run_fresh(*words: str, of: Sequence[str] = HEAVY) -> tuple[int, list[str]]:
    """Run a command in a process of its own; returns its exit status and what it loaded of these."""
    code = [sys.executable, "-c", FRESH.replace("HEAVY", repr(tuple(of))), *words]
    done = subprocess.run(code, capture_output=True, text=True, timeout=120, check=True)
    return tuple(json.loads(done.stderr.splitlines()[-1]))


WORDS = {
    "eval": "eval",
    "eval.explain": "explain",
    "eval.heads": "list heads",
    "eval.inspect": "inspect",
    "eval.push": "push",
    "report": "report",
    "eval.tasks": "list tasks",
    "ffn_ablations": "",
    "ffn_variants": "list variants",
    "ffn_variants.check": "check",
    "pretrain.generate": "generate",
    "pretrain.train": "train",
    "slurm.archive": "study archive",
    "slurm.cancel": "study cancel",
    "slurm.list": "list studies",
    "slurm.status": "study status",
    "slurm.submit": "study run",
}
"""What tests call each command by, for short."""


def words_of(command: str) -> list[str]:
    """The words of a command, behind ``ffn-ablations``."""
    return WORDS.get(command, command).split()


def forkserver() -> ForkServerContext:
    """Makes processes whose target must be found by its name, as the functions of a test file are."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTS)
    return context


def run_command(module: str, *args: object, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a command here, as ``subprocess.run`` would."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = _start(module, args, out, err)
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"{module} did not end in {timeout_s:g} s\n{out.read_text()}{err.read_text()}")
        return subprocess.CompletedProcess(
            [module, *map(str, args)], process.exitcode, out.read_text(), err.read_text()
        )


def write_output_to(out: Path, err: Path) -> None:
    """Add everything that this process and its children print to files."""
    for number, path in ((1, out), (2, err)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), number)


def _start(module: str, args: tuple[object, ...], out: Path, err: Path) -> ForkServerProcess:
    process = forkserver().Process(
        target=_command, args=(module, list(map(str, args)), out, err, Path.cwd(), dict(os.environ))
    )
    process.start()
    return process


def _command(
    module: str, args: list[str], out: Path, err: Path, folder: Path, environment: dict[str, str]
) -> None:
    write_output_to(out, err)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *args]
    try:
        if module.startswith("tests."):  # what a test runs in a process of its own, as tests.hub.read
            run_cli(import_module(module).main)
        else:
            run_cli(lambda: main([*words_of(module), *args]))
    except Exception:  # multiprocessing would print it in its own form
        traceback.print_exc()
        raise SystemExit(1) from None


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
