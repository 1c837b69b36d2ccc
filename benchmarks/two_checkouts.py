"""Whether one checkout is as fast as another: both do the same work in turn, A B, B A, ..., as commands.

    make bench
    python -m benchmarks.two_checkouts v0.1.0
    python -m benchmarks.two_checkouts ../before ../after --rounds 9 --only step help

A checkout is a folder or a revision of git; without one, A is the last release, or before there is any, where
this branch left ``main``. It is run by its own ``.venv``, or where it has none by this Python. Measured are

    step      300 training steps of a tiny model: a run of 320 steps less one of 20
    blimp     scoring BLiMP, or where ../shared/data is missing the embedded pairs
    report    a report of 10,000 scores: 20 variants, 10 seeds, 50 tasks
    status    ``study status`` of the 680 runs archived in docs/zoo/runs, brought back
    help      ``ffn-ablations --help``
    flags     ``ffn-ablations train --help``

in seconds on one thread, each with the start of its process. The first round is not counted: it fills caches.
A ratio is the median over rounds of the second checkout's time over the first one's in the same round;
processor time bears it better than the clock when others use the machine. Prints markdown, and appends the
ratios with the machine, versions and date to a CSV table where one is named (``make bench``:
benchmarks/ratios.csv).
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import yaml

from benchmarks.big_report import made_up_scores
from benchmarks.ffn import machine
from tests.changed import ROOT, git, main_branch

DATA = Path(__file__).parents[2] / "shared" / "data" / "blimp"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class Seconds:
    """What a command took: of processor time (its children's too) and of the clock."""

    processor: float
    wall: float

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.processor - other.processor, self.wall - other.wall)


class Checkout:
    """A tree of this project, and a folder for what its commands write.

    Args:
        root: The tree.
        home: The folder, which is made.
    """

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root.resolve(), home
        python = self.root / ".venv" / "bin" / "python"
        self._command = [str(python) if python.exists() else sys.executable, "-m", "ffn_ablations"]
        home.mkdir()

    def time(self, *words: object) -> Seconds:
        """Give a command in the tree; a failure ends the comparison."""
        line = [*self._command, *map(str, words)]
        environment = ENVIRONMENT | {"PYTHONPATH": str(self.root)}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(line, cwd=self.root, env=environment, capture_output=True, text=True)
        after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        if done.returncode:
            raise SystemExit(f"in {self.root}: {' '.join(line)} ended with {done.returncode}\n{done.stderr}")
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Seconds(processor, ended - began)

    def train(self, name: str, steps: int) -> Seconds:
        """Train a tiny model of GPT-Neo under a name; an earlier run of it is deleted."""
        config = self.home / f"{name}.yaml"
        content = yaml.safe_load((self.root / "configs" / "tiny.yaml").read_text())
        content["optim"] |= {"max_steps": steps}
        content["data"] |= {"block_size": 128}  # BLiMP has texts of more than 64 tokens
        config.write_text(yaml.safe_dump(content))
        shutil.rmtree(self.run_folder(name), ignore_errors=True)
        return self.time("train", config, "--run-name", name, "--runs-dir", self.home / "runs")

    def run_folder(self, name: str) -> Path:
        """Where a run of that name is."""
        return self.home / "runs" / "default" / "gpt_neo" / "gelu" / name


def time_of_steps(checkout: Checkout) -> Seconds:
    """Train twice, which leaves the start out."""
    few = checkout.train("few", 20)
    return checkout.train("many", 320) - few


def time_of_blimp(checkout: Checkout) -> Seconds:
    """Score a copy of a trained run that has no scores."""
    if not checkout.run_folder("few").exists():
        checkout.train("few", 20)
    run = checkout.run_folder("scored")
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(checkout.run_folder("few"), run)
    what = ["blimp", "--blimp-dir", DATA, "--max-pairs", 100] if DATA.is_dir() else ["embedded-pairs"]
    return checkout.time("eval", run, "--suites", *what)


def time_of_report(checkout: Checkout) -> Seconds:
    """Report on a made-up table."""
    table = checkout.home / "scores.csv"
    if not table.exists():
        made_up_scores(20, 10, 5, 10).to_csv(table, index=False)
    return checkout.time("report", table, "--out", checkout.home / "report")


def time_of_status(checkout: Checkout) -> Seconds:
    """Ask for the state of a study of many runs, which is brought back first."""
    study = checkout.home / "archived" / "zoo"
    if not study.exists():
        words = (checkout.root / "docs" / "zoo" / "runs", "--runs-dir", study.parent)
        try:
            checkout.time("study", "restore", *words)
        except SystemExit:  # since then it is a flag of study archive
            checkout.time("study", "archive", *words, "--restore")
    return checkout.time("study", "status", study)


MEASURES: dict[str, Callable[[Checkout], Seconds]] = {
    "step": time_of_steps,
    "blimp": time_of_blimp,
    "report": time_of_report,
    "status": time_of_status,
    "help": lambda checkout: checkout.time("--help"),
    "flags": lambda checkout: checkout.time("train", "--help"),
}


def ratio(
    rounds: list[tuple[Seconds, Seconds]], of: Callable[[Seconds], float]
) -> tuple[float, float, float]:
    """Return the median, least and largest ratio of B to A."""
    ratios = [of(after) / of(before) for before, after in rounds]
    return statistics.median(ratios), min(ratios), max(ratios)


def print_row(name: str, rounds: list[tuple[Seconds, Seconds]]) -> None:
    """Print medians of both checkouts and of their ratio."""
    cells = [name]
    for of in (lambda seconds: seconds.processor, lambda seconds: seconds.wall):
        cells += [f"{statistics.median(of(pair[place]) for pair in rounds):.2f}" for place in (0, 1)]
        cells.append("{:.2f} ({:.2f} to {:.2f})".format(*ratio(rounds, of)))
    print(f"| {' | '.join(cells)} |", flush=True)


def last_release() -> str:
    """Return the last tag before this commit, or where this branch left ``main``, or the commit before."""
    tags = git(ROOT, "describe", "--tags", "--abbrev=0", "HEAD^")
    here = {"HEAD", *git(ROOT, "rev-parse", "HEAD")}
    return next(name for name in [*tags, main_branch(ROOT), "HEAD^"] if name not in here)


def described(revision: str) -> str:
    """Return a revision by its tag or its commit; what git does not know as it was given."""
    return next(iter(git(ROOT, "describe", "--tags", "--always", revision)), revision)


def unpack(checkout: str, folder: Path) -> Path:
    """Return the folder of a checkout, which for a revision of git is written below ``folder``."""
    if Path(checkout).is_dir():
        return Path(checkout)
    if not git(ROOT, "rev-parse", "--verify", "--quiet", f"{checkout}^{{commit}}"):
        raise SystemExit(f"{checkout!r} is neither a folder nor a revision of git; name one, such as HEAD^")
    folder.mkdir()
    archive = subprocess.run(["git", "archive", checkout], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def append(table: Path, names: tuple[str, str], case: str, rounds: list[tuple[Seconds, Seconds]]) -> None:
    """Add a ratio of processor times to a table, with what it depends on."""
    median, least, largest = ratio(rounds, lambda seconds: seconds.processor)
    row = {
        "date": datetime.date.today().isoformat(),
        "machine": machine("cpu"),
        "torch": importlib.metadata.version("torch"),
        "before": names[0],
        "after": names[1],
        "case": case,
        "ratio": round(median, 3),
        "least": round(least, 3),
        "largest": round(largest, 3),
        "rounds": len(rounds),
    }
    pd.DataFrame([row]).to_csv(table, mode="a", header=not table.exists(), index=False)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", nargs="?", help="the checkout A (default: the last release)")
    parser.add_argument("after", nargs="?", default=str(ROOT), help="the checkout B (default: this one)")
    parser.add_argument("--rounds", type=int, default=5, help="that are counted (default: 5)")
    parser.add_argument("--only", nargs="+", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument("--append", type=Path, metavar="CSV", help="a table to which the ratios are added")
    options = parser.parse_args()
    before = options.before or last_release()
    with tempfile.TemporaryDirectory() as home:
        trees = {
            name: unpack(of, Path(home, f"tree-{name}"))
            for name, of in {"a": before, "b": options.after}.items()
        }
        names = (described(before), described("--dirty" if options.after == str(ROOT) else options.after))
        pair = [Checkout(root, Path(home, name)) for name, root in trees.items()]
        columns = ["A", "B", "B over A"]
        print(f"A: {names[0]}. B: {names[1]}.\n")
        print(f"| | {' | '.join(f'{c}, processor' for c in columns)} | {' | '.join(columns)} |")
        print(f"|---{'|--:' * 6}|")
        for case in options.only:
            rounds = []
            for number in range(options.rounds + 1):
                order = pair if number % 2 else pair[::-1]
                times = {checkout.home.name: MEASURES[case](checkout) for checkout in order}
                rounds.append((times["a"], times["b"]))
            print_row(case, rounds[1:])
            if options.append:
                append(options.append, names, case, rounds[1:])


if __name__ == "__main__":
    main()
