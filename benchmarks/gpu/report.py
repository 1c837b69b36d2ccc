"""One command for a person with a GPU: what works, how fast steps are, and one file to post.

python -m benchmarks.gpu.report                     # 15 minutes at most; writes gpu-report.md
python -m benchmarks.gpu.report --prediction-only   # prints what was predicted; needs nothing

The most telling parts come first. Each is a process of its own with so many minutes; what it prints is in the
file as it comes, so that one that fails or is ended leaves its rows. All texts are those that ship.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TextIO

from base.errors import UsageError, run_cli
from base.system import num_cores
from benchmarks.gpu.predicted import tables

ROOT = Path(__file__).parents[2]
PACKAGES = ("torch", "triton", "transformers", "accelerate", "numpy")
LONGEST_ERROR = 3000
"""Characters that the file keeps, from the end, of what a failing part wrote to standard error."""


@dataclass(frozen=True)
class Part:
    """One part of the report.

    Attributes:
        name: Its heading.
        minutes: After which it is ended.
        command: What is run, after ``python -m``.
    """

    name: str
    minutes: float
    command: tuple[str, ...]


def list_parts(device: str, quick: bool, folder: str) -> list[Part]:
    """The parts in their order; ``quick`` ones have the least sizes that still run all code.

    Args:
        device: ``cuda`` or ``cpu``.
        quick: Whether to try the command out only.
        folder: For runs.
    """
    on = ("--device", device)
    sizes = ("--modes", "eager", "--rows", "64") if quick else ("--modes", "compiled", "--rows", "65536")
    layers = ("gelu", "kan") if quick else ("kan", "fourier-kan", "rbf-kan", "gr-kan")
    shipped = ("configs/tiny.yaml",) if quick else ("configs/gpt-neo.yaml", "--data.source", "embedded")
    texts = () if quick else ("--data.num-stories", "20000", "--train.mixed-precision", "bf16")
    run = ("train", "tiny", *on, "--runs-dir", folder, "--run-name", "gpu-report")
    run += ("--optim.max-steps", "3", "--optim.warmup-steps", "0") if quick else ()
    scored = f"{folder}/default/gpt_neo/gelu/gpu-report"
    quick_tests = ("-k", "test_updates_are_those_of_the_cpu and gelu") if quick else ()
    cases = ("--rounds", "2", "--updates", "10", "--cases", "trainer", "gelu")
    # One process takes 15 minutes for them; each has a GiB of the GPU.
    workers = ("-n", str(min(10, num_cores())), "--dist", "worksteal")
    options = ("-q", "-rs", "--tb=short", "-p", "no:benchmark", *workers, *quick_tests)
    tests = ("pytest", "-m", "gpu", "tests/gpu", *options)
    return [
        Part("What works", 1, ("ffn_ablations", "doctor")),
        Part("Steps", 5, ("benchmarks.gpu.measured", *on, *(("--quick",) * quick))),
        Part("A run", 1, ("ffn_ablations", *run)),
        Part("Its scores", 1, ("ffn_ablations", "eval", scored, "--suites", "embedded-pairs", *on)),
        Part("Layers", 2, ("benchmarks.ffn", *on, "--rounds", "1", *sizes, "--variants", *layers)),
        Part("Beside Trainer", 2, ("benchmarks.pretrain", *shipped, *cases, *texts)),
        Part("Tests", 3, tests),
    ]


def run_part(part: Part, device: str, file: TextIO) -> str:
    """Run a part, with its lines in the file as they come; returns ``done``, or why not."""
    environment = {**os.environ, "GPU_TESTS_DEVICE": device, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    file.write(f"\n## {part.name}\n\n`python -m {without_names(shlex.join(part.command))}`\n\n")
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *part.command],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        timer = threading.Timer(60 * part.minutes, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            file.write(without_names(line.rstrip("\r\n").rpartition("\r")[2]) + "\n")
            file.flush()
        code = process.wait()
        timer.cancel()
        if code == 0:
            return "done"
        errors.seek(0)
        said = without_names(errors.read())[-LONGEST_ERROR:].replace("```", "'''").strip()
        file.write(f"\n```text\n{said}\n```\n")
    return (
        f"ENDED after {part.minutes:g} minutes" if code == -signal.SIGKILL else f"FAILED with status {code}"
    )


def without_names(text: str) -> str:
    """Leave out whose machine it is: paths are shown from the checkout or the home folder."""
    return text.replace(str(ROOT), ".").replace(str(Path.home()), "~")


def heading(argv: Sequence[str]) -> str:
    """The machine and the versions."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    rows = [
        ("command", f"`python -m benchmarks.gpu.report {shlex.join(argv)}`"),
        ("date", f"{datetime.datetime.now(datetime.UTC):%d %B %Y, %H:%M} UTC"),
        ("GPU", output("nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader")),
        ("host", f"{os.cpu_count()} processors, {platform.machine()}, {platform.system()}"),
        ("versions", f"Python {platform.python_version()}, {versions}"),
        ("commit", output("git", "-C", str(ROOT), "describe", "--always", "--dirty")),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"# Report of a GPU\n\n| what | value |\n| --- | --- |\n{table}\n"


def version(package: str) -> str:
    """Version of a package, or that it is absent."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(absent)"


def output(*command: str) -> str:
    """Output of a command in a line, or that there is none."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "(unknown)"
    return ended.stdout.strip().replace("\n", "; ") or "(unknown)"


def write_report(parts: Sequence[Part], path: Path, device: str, argv: Sequence[str]) -> int:
    """Run the parts one after the other; returns how many failed."""
    failed = []
    with path.open("w", encoding="utf-8") as file:
        file.write(heading(argv))
        for number, part in enumerate(parts, start=1):
            print(
                f"[{number}/{len(parts)}] {part.name}, {part.minutes:g} min at most ...", end="", flush=True
            )
            start = time.monotonic()
            status = run_part(part, device, file)
            seconds = time.monotonic() - start
            file.write(f"\n{status}, {seconds:.0f} s\n")
            print(f" {status}, {seconds:.0f} s", flush=True)
            failed += [part.name] if status != "done" else []
        told = f"not done: {', '.join(failed)}" if failed else "all parts are done"
        file.write(f"\n## End\n\n{told}\n")
    print(f"{told}. The report is {path}: please post it in an issue (gpu.yml)")
    return len(failed)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report; 1 where a part failed."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--prediction-only", action="store_true", help="print what was predicted")
    parser.add_argument("--out", type=Path, default=Path("gpu-report.md"), help="the file to write")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the command out")
    parser.add_argument("--quick", action="store_true", help="least sizes, to try the command out")
    args = parser.parse_args(argv)
    if args.prediction_only:
        print("\n".join(tables()))
        return 0
    if args.device == "cuda" and output("nvidia-smi", "-L") == "(unknown)":
        raise UsageError("there is no NVIDIA GPU here; --prediction-only prints what was predicted of some")
    with tempfile.TemporaryDirectory() as folder:
        return int(write_report(list_parts(args.device, args.quick, folder), args.out, args.device, argv) > 0)


if __name__ == "__main__":
    run_cli(main)
