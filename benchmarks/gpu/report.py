"""One command for the first person with a GPU: what was predicted, what is true, in one file to post.

python -m benchmarks.gpu.report                     # 20 to 40 minutes; writes gpu-report.md
python -m benchmarks.gpu.report --prediction-only   # needs no GPU: the table on paper

In this order: the prediction is written; the tests that need a GPU run; so do the benchmarks; the parts of a
training step are measured and stand beside the prediction. Each is a process of its own. One that fails, or
takes too long, is told in the file, and the next one starts. The file grows as they end.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

from base.errors import UsageError, run_cli

ROOT = Path(__file__).parents[2]
PACKAGES = ("torch", "triton", "transformers", "accelerate", "numpy")
LONGEST_OUTPUT = 20_000
"""Characters of a part's output that the file keeps, from its end; GitHub takes 65,536 an issue."""


@dataclass(frozen=True)
class Part:
    """One part of the report.

    Attributes:
        name: Its heading.
        command: What is run, after ``python -m``.
        limit_s: Seconds after which it is ended.
        needs: Files or folders without which it is left out.
    """

    name: str
    command: tuple[str, ...]
    limit_s: float
    needs: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How a part ended.

    Attributes:
        status: ``done``, or why not, in a few words.
        output: What it printed.
        seconds: How long it took.
    """

    status: str
    output: str
    seconds: float


def list_parts(device: str, quick: bool, data: Path, paper: Path) -> list[Part]:
    """The parts in their order; ``quick`` ones have the least sizes that still run all code.

    Args:
        device: ``cuda`` or ``cpu``.
        quick: Whether to try the command out only.
        data: Folder with GLUE, BLiMP and a tokenizer.
        paper: File for the predicted times.
    """
    on = ("--device", device)
    config = "configs/tiny.yaml" if quick else "configs/gpt-neo.yaml"
    rounds = ("--rounds", "1") if quick else ()
    rows = "64" if quick else "65536"
    dtype = "float32" if device == "cpu" else "bfloat16"
    least = ("--variants", "gelu", "kan", "--modes", "eager") if quick else ()
    texts = () if quick else ("--data.num-stories", "20000", "--train.mixed-precision", "bf16")
    tasks = ("--tasks", "rte") if quick else ()
    tokenizer, glue, blimp = data / "tokenizer-10k", data / "glue", data / "blimp" / "full"
    from_glue = ("--glue-dir", str(glue), "--tokenizer", str(tokenizer))
    from_blimp = ("--blimp", str(blimp), "--tokenizer", str(tokenizer))
    few = ("--rounds", "1", "--pairs", "2") if quick else ()
    return [
        Part("Prediction", ("benchmarks.gpu.prediction", "--json", str(paper)), 900),
        Part("Tests", ("pytest", "-m", "gpu", "tests/gpu", "-q", "-rs", "--tb=short", "--color=no"), 2400),
        Part(
            "Measured beside predicted",
            ("benchmarks.gpu.measured", *on, "--prediction", str(paper), *(("--quick",) * quick)),
            1200,
        ),
        Part("FFN layers", ("benchmarks.ffn", *on, "--rows", rows, "--dtype", dtype, *rounds, *least), 1200),
        Part(
            "Training steps",
            ("benchmarks.pretrain", config, "--cases", "trainer", "gelu", "kan", *rounds, *texts),
            1200,
        ),
        Part(
            "Fine-tuning",
            ("benchmarks.finetune", "configs/gpt-neo.yaml", *on, *from_glue, *rounds, *tasks),
            1200,
            (glue, tokenizer),
        ),
        Part(
            "Scoring",
            ("benchmarks.eval", "causal", "masked", *on, *from_blimp, *few),
            1200,
            (blimp, tokenizer),
        ),
    ]


def run_part(part: Part, device: str) -> Outcome:
    """Run a part in a process of its own; never raises."""
    if missing := [path for path in part.needs if not path.exists()]:
        return Outcome(f"left out: no {missing[0]}", "", 0.0)
    environment = {**os.environ, "GPU_TESTS_DEVICE": device, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    start = time.monotonic()
    try:
        ended = subprocess.run(
            [sys.executable, "-m", *part.command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            timeout=part.limit_s,
        )
        status = "done" if ended.returncode == 0 else f"FAILED with status {ended.returncode}"
        output = ended.stdout + (b"" if status == "done" else ended.stderr)
    except subprocess.TimeoutExpired as expired:
        status = f"FAILED: ended after {part.limit_s:.0f} s"
        output = (expired.stdout or b"") + (expired.stderr or b"")
    except OSError as error:
        status, output = f"FAILED: {error}", b""
    return Outcome(status, output.decode(errors="replace"), time.monotonic() - start)


def section(part: Part, outcome: Outcome) -> str:
    """A part as markdown: tables as they stand, all else as it was printed."""
    lines = ["", f"## {part.name}: {outcome.status}", ""]
    lines += [f"`python -m {shlex.join(part.command)}`, {outcome.seconds:.0f} s"]
    shown = without_names(without_progress(outcome.output))[-LONGEST_OUTPUT:]
    if outcome.status != "done" or part.command[0] == "pytest":
        lines += ["", "```text", shown.replace("```", "'''").strip(), "```"]
    else:
        lines += ["", shown.strip()]
    return "\n".join(lines) + "\n"


def without_progress(text: str) -> str:
    """Leave out what a later print on the same line replaced."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def without_names(text: str) -> str:
    """Leave out whose machine it is: paths are shown from the checkout or the home folder."""
    return text.replace(str(ROOT), ".").replace(str(Path.home()), "~")


def heading(device: str, argv: Sequence[str]) -> str:
    """The machine and the versions."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    rows = [
        ("command", f"`python -m benchmarks.gpu.report {shlex.join(argv)}`"),
        ("date", f"{datetime.datetime.now(datetime.UTC):%d %B %Y, %H:%M} UTC"),
        ("devices", "; ".join(devices(device))),
        ("driver", driver()),
        ("host", f"{os.cpu_count()} processors, {platform.machine()}, {platform.system()}"),
        ("versions", f"Python {platform.python_version()}, {versions}, CUDA {torch.version.cuda}"),
        ("commit", command_output("git", "-C", str(ROOT), "describe", "--always", "--dirty")),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"# Report of a GPU\n\n| what | value |\n| --- | --- |\n{table}\n"


def version(package: str) -> str:
    """Version of a package, or that it is absent."""
    try:
        # torch's wheel for CUDA has its CUDA in the second alone.
        return torch.__version__ if package == "torch" else metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(absent)"


def devices(device: str) -> list[str]:
    """Name, memory and compute capability of each GPU."""
    if device == "cpu":
        return ["none; run on the CPU"]
    found = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return [f"{one.name}, {one.total_memory / 2**30:.0f} GiB, sm_{one.major}{one.minor}" for one in found]


def driver() -> str:
    """What nvidia-smi says of driver, power limit and highest clock."""
    query = "--query-gpu=driver_version,power.limit,clocks.max.sm"
    return command_output("nvidia-smi", query, "--format=csv,noheader").replace("\n", "; ")


def command_output(*command: str) -> str:
    """Output of a command, or that there is none."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "(unknown)"
    return ended.stdout.strip() or "(unknown)"


def write_report(parts: Sequence[Part], path: Path, device: str, argv: Sequence[str]) -> int:
    """Run the parts one after the other, and write each down as it ends; returns how many failed."""
    path.write_text(heading(device, argv), encoding="utf-8")
    start, failed = time.monotonic(), []
    for number, part in enumerate(parts, start=1):
        print(f"[{number}/{len(parts)}] {part.name} ...", end="", flush=True)
        outcome = run_part(part, device)
        with path.open("a", encoding="utf-8") as file:
            file.write(section(part, outcome))
        print(f" {outcome.status}, {outcome.seconds:.0f} s", flush=True)
        if outcome.status.startswith("FAILED"):
            failed.append(part.name)
    minutes = (time.monotonic() - start) / 60
    told = f"{len(failed)} of {len(parts)} parts failed: {', '.join(failed)}" if failed else "no part failed"
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n## End\n\n{told}; {minutes:.1f} minutes in all.\n")
    print(f"{told}; {minutes:.1f} minutes. The report is {path}: please post it in an issue (gpu.yml)")
    return len(failed)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the flags."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--prediction-only", action="store_true", help="the table on paper; needs no GPU")
    parser.add_argument("--out", type=Path, default=Path("gpu-report.md"), help="the file to write")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the command out")
    parser.add_argument("--quick", action="store_true", help="least sizes, to try the command out")
    parser.add_argument(
        "--data", type=Path, default=ROOT.parent / "shared" / "data", help="GLUE, BLiMP and a tokenizer"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report; 1 where a part failed."""
    argv = sys.argv[1:] if argv is None else argv
    args = parse(argv)
    if args.device == "cuda" and not torch.cuda.is_available() and not args.prediction_only:
        raise UsageError(
            "there is no CUDA GPU here; --prediction-only writes the table on paper, which needs none"
        )
    parts = list_parts(args.device, args.quick, args.data, args.out.with_suffix(".json").resolve())
    if args.prediction_only:
        return int(write_report(parts[:1], args.out, "cpu", argv) > 0)
    return int(write_report(parts, args.out, args.device, argv) > 0)


if __name__ == "__main__":
    run_cli(main)
