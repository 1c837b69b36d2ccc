"""Kills commands at random moments, gives the same command again, and says whether everything came out once.

    python -m benchmarks.kills --home /tmp/kills                             # 20 kills of each subject
    python -m benchmarks.kills --home /tmp/kills --subjects train slurm --cases 5

Subjects:

    train     a training, its corpus already tokenised
    tokenise  a training whose corpus is tokenised first, in several parts
    score     an evaluation of a finished run: minimal pairs and fine-tuning
    study     a study of four short runs on this machine, and its report
    slurm     the same study on a SLURM that is started here (make slurm-packages); in turn one kills the
              command that submits, a job's processes, a node with its jobs, restarts slurmctld, or lets two
              submit at once

A case begins in a copy of a prepared folder. Every process of the command is killed (SIGKILL) at a random
moment between its first write and its usual end; then the same command is given until it ends with 0. Right
is: every run is finished, one report, weights, losses, scores and the report's numbers equal to those of an
undisturbed command, no traceback.

A line of ``HOME/kills.jsonl`` is a case; cases that stand there are not repeated, so a campaign that is
stopped goes on with the same command. Ends with 1 where a case went wrong, and leaves its folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.goldens import COMMAND, ENVIRONMENT, ROOT, scored

SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TEXT = {"source": "embedded", "num_stories": 200, "vocab_size": 400, "block_size": 64}
TRAIN = {"batch_size": 8, "save_steps": 10, "logging_steps": 1, "eval_steps": 50, "torch_compile": False}
CONFIG = {"model": SIZES, "data": TEXT, "optim": {"max_steps": 200}, "train": TRAIN}
SUITES = ("embedded-pairs", "embedded-glue")
EVALUATION = {"suites": list(SUITES), "max_pairs": 4, "finetune": {"num_train_epochs": 1}}
SCORED_ON = ("--suites", *SUITES, "--max-pairs", 4, "--finetune.num-train-epochs", 1)
"""The same, in words of a command."""
PRESET = {"gpus_per_node": 0, "cpus_per_task": 1, "time": "10"}
MACHINE_TIME = ("hours", "tokens_per_s", "peak_memory_mb", "trained_with", "time_s")
MACHINE_TIME += ("versions", "command")
"""Words in the names of a report's fields that differ when the same is done again."""


@dataclass(frozen=True)
class Subject:
    """What is killed.

    Attributes:
        words: Of the command, in a case's folder.
        finished: Whether a finished run lies in the folder before.
        has_corpus: Whether the tokenised corpus does.
        num_runs: How many runs there are in the end.
        has_report: Whether there is a report in the end.
    """

    words: Callable[[Path], Sequence[object]]
    finished: bool = False
    has_corpus: bool = True
    num_runs: int = 1
    has_report: bool = False


def train_words(home: Path, config: str = "train.yaml") -> list[object]:
    """The command that trains a run."""
    return ["train", home / config, "--run-name", "one", "--runs-dir", home / "runs"]


def score_words(home: Path) -> list[object]:
    """The command that scores it."""
    return ["eval", home / "runs" / "default" / "gpt_neo" / "gelu" / "one", *SCORED_ON]


def study_words(home: Path) -> list[object]:
    """The command that runs the study on this machine."""
    return ["study", "run", home / "small.yaml", "--runs-dir", home / "runs", "--retry-failed"]


def slurm_words(home: Path) -> list[object]:
    """The command that submits the study."""
    return [*study_words(home), "--cluster", "slurm", "--preset", home / "preset.yaml"]


SUBJECTS = {
    "train": Subject(train_words),
    "tokenise": Subject(lambda home: train_words(home, "tokenise.yaml"), has_corpus=False),
    "score": Subject(score_words, finished=True),
    "study": Subject(study_words, num_runs=4, has_report=True),
    "slurm": Subject(slurm_words, num_runs=4, has_report=True),
}


def write_configs(home: Path) -> None:
    """Write the files that commands name."""
    home.mkdir(parents=True, exist_ok=True)
    large = {"data": TEXT | {"num_stories": 20_000}, "optim": {"max_steps": 2}}
    study = {
        "name": "small",
        "families": {"gpt_neo": "tiny"},
        "config": CONFIG,
        "variants": ["gelu", "relu"],
        "seeds": [1, 2],
        "evaluation": EVALUATION,
    }
    contents = {"train": {"family": "gpt_neo", **CONFIG}, "small": study, "preset": PRESET}
    contents |= {"tokenise": contents["train"] | large}
    for name, content in contents.items():
        (home / f"{name}.yaml").write_text(yaml.safe_dump(content))


class Given:
    """A command in a group of processes of its own.

    Args:
        words: Of the command.
        log: A file for all that it prints.
        environment: On top of the usual one.
    """

    def __init__(self, words: Sequence[object], log: Path, environment: dict[str, str]) -> None:
        line = [str(COMMAND), *map(str, words)]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                line,
                cwd=ROOT,
                env=ENVIRONMENT | environment,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def kill(self) -> bool:
        """Kill all of it; returns whether it had not ended before."""
        was_running = self.process.poll() is None
        processes = []
        with suppress(psutil.NoSuchProcess):
            # Workers may have groups of their own.
            processes = psutil.Process(self.process.pid).children(recursive=True)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        return was_running


class Campaign:
    """Cases of one subject.

    Args:
        name: A key of ``SUBJECTS``.
        home: Where everything lies.
        environment: Of commands: where SLURM is.
        cluster: The SLURM, for that subject.
    """

    def __init__(self, name: str, home: Path, environment: dict[str, str], cluster: Any = None) -> None:
        self.name, self.home, self.environment, self.cluster = name, home, environment, cluster
        self.subject = SUBJECTS[name]
        self.whole = home / ("study" if name == "slurm" else name) / "whole"
        self.results, self.seconds, self.first_write = "", 0.0, 0.0

    def prepare(self) -> None:
        """Give the command undisturbed; numbers and times are those to compare with."""
        shutil.rmtree(self.whole, ignore_errors=True)
        self.copy_start(self.whole)
        words = study_words if self.name == "slurm" else self.subject.words
        began = time.monotonic()
        given = Given(words(self.whole), self.whole / "log", {})
        self.first_write = self.wait_for_write(given, self.whole, began)
        assert given.process.wait() == 0, (self.whole / "log").read_text()
        self.seconds = time.monotonic() - began
        self.results = self.numbers(self.whole)

    def copy_start(self, home: Path) -> None:
        """Make the folder that the command begins in."""
        write_configs(home)
        runs = self.home / "start" / "runs"
        if not runs.exists():
            write_configs(runs.parent)
            given = Given(train_words(runs.parent), runs.parent / "log", {})
            assert given.process.wait() == 0, (runs.parent / "log").read_text()
        if self.subject.has_corpus:
            shutil.copytree(runs / ".cache", home / "runs" / ".cache")
        if self.subject.finished:
            shutil.copytree(runs / "default", home / "runs" / "default")

    def wait_for_write(self, given: Given, home: Path, began: float) -> float:
        """Wait until anything new lies in the folder of runs; returns seconds."""
        before = paths_in(home)
        while given.process.poll() is None and not paths_in(home) - before:
            time.sleep(0.01)
        return time.monotonic() - began

    def numbers(self, home: Path) -> str:
        """All that must be equal in the end."""
        markers = sorted((home / "runs").rglob("COMPLETED"))
        assert len(markers) == self.subject.num_runs, f"{len(markers)} runs are finished"
        runs = {path.parent.relative_to(home).as_posix(): scored(path.parent) for path in markers}
        reports = sorted((home / "runs").rglob("report.json"))
        assert len(reports) == int(self.subject.has_report), f"{len(reports)} reports"
        tables = [without_machine(json.loads(path.read_text()), home) for path in reports]
        return json.dumps([runs, tables], sort_keys=True)

    def judge(self, number: int) -> dict[str, Any]:
        """Do a case; returns its line."""
        moments = random.Random(f"{self.name} {number}")
        home = self.home / self.name / f"case-{number:03d}"
        shutil.rmtree(home, ignore_errors=True)
        self.copy_start(home)
        ways = (self.kill_command,)
        if self.cluster:
            ways += (self.kill_job, self.kill_node, self.restart_controller, self.submit_twice)
        way = ways[number % len(ways)]
        is_disturbed = way(home, moments)
        outcome = self.outcome(home)
        if outcome == "equal":
            shutil.rmtree(home)
        return {
            "subject": self.name,
            "case": number,
            "how": way.__name__,
            "disturbed": is_disturbed,
            "outcome": outcome,
        }

    def outcome(self, home: Path) -> str:
        """Give the command until it ends well; say what is wrong in the end."""
        for _ in range(6):
            code = self.submit(home).process.wait()
            if self.cluster:
                self.wait_for_queue()
            markers = list((home / "runs").rglob("COMPLETED"))
            is_reported = bool(list((home / "runs").rglob("report.json"))) or not self.subject.has_report
            if code == 0 and len(markers) == self.subject.num_runs and is_reported:
                break
        logs = [home / "log", *home.rglob("*.err"), *home.rglob("*.log")]
        said = "".join(path.read_text(errors="replace") for path in logs)
        if "Traceback" in said:
            return "a traceback"
        try:
            return "equal" if self.numbers(home) == self.results else "other numbers"
        except (AssertionError, OSError, ValueError) as error:
            return f"{error} (exit {code})"

    def kill_command(self, home: Path, moments: random.Random) -> bool:
        """Kill the command between its first write and its usual end."""
        began = time.monotonic()
        given = self.submit(home)
        self.wait_for_write(given, home, began)
        time.sleep(moments.uniform(0, self.seconds - self.first_write))
        return given.kill()

    def submit(self, home: Path) -> Given:
        """Give the command of a case."""
        return Given(self.subject.words(home), home / "log", self.environment)

    def kill_job(self, home: Path, moments: random.Random) -> bool:
        """Kill the processes of all jobs."""
        processes = self.processes_of_jobs(home, moments)
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
        return bool(processes)

    def kill_node(self, home: Path, moments: random.Random) -> bool:
        """Lose a node with all its jobs; it comes back."""
        is_running = bool(self.processes_of_jobs(home, moments))
        self.cluster.kill_node("n0")
        self.cluster.start_slurmd("n0")
        return is_running

    def restart_controller(self, home: Path, moments: random.Random) -> bool:
        """End slurmctld and start it again."""
        is_running = bool(self.processes_of_jobs(home, moments))
        self.cluster.restart_slurmctld()
        return is_running

    def submit_twice(self, home: Path, moments: random.Random) -> bool:
        """Give the command twice at the same time."""
        both = [self.submit(home), self.submit(home)]
        return len([given.process.wait() for given in both]) == 2

    def processes_of_jobs(self, home: Path, moments: random.Random) -> list[Any]:
        """Submit, and wait for a moment of the jobs; returns the processes that then run."""
        self.submit(home).process.wait()
        deadline = time.monotonic() + 60
        while not self.cluster.job_processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(moments.uniform(0, 1.5 * self.seconds))
        return [process for process in self.cluster.job_processes() if process.is_running()]

    def wait_for_queue(self) -> None:
        """Wait until no job waits or runs."""
        self.cluster.wait_until(lambda: not self.cluster.queue(running_only=True), 600, "empty queue")


def without_machine(content: Any, home: Path) -> Any:
    """A report's content without what depends on the machine, the moment and the place."""
    if isinstance(content, dict):
        keys = [key for key in content if not any(word in key for word in MACHINE_TIME)]
        return {key: without_machine(content[key], home) for key in keys}
    if isinstance(content, list):
        rows = [row for row in content if not (isinstance(row, dict) and row.get("spending") == "hours")]
        return [without_machine(row, home) for row in rows]
    return content.replace(str(home), "HOME") if isinstance(content, str) else content


@contextmanager
def cluster_for(name: str) -> Iterator[tuple[Any, dict[str, str]]]:
    """A SLURM for the subject that needs one, and the environment in which commands use it."""
    if name != "slurm":
        yield None, {}
        return
    from tests.slurm.cluster import Cluster

    with Cluster(1) as cluster:
        environment = cluster.environment()
        yield cluster, {key: environment[key] for key in ("SLURM_CONF", "PATH")}


def paths_in(folder: Path) -> set[str]:
    """All files and folders in a folder, some of which may vanish meanwhile."""
    return {os.path.join(root, name) for root, *names in os.walk(folder) for name in chain(*names)}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The cases that are done."""
    return list(map(json.loads, path.read_text().splitlines())) if path.exists() else []


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", type=Path, required=True, help="a folder for all cases and their results")
    parser.add_argument("--subjects", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--cases", type=int, default=20, help="kills of each subject (default: 20)")
    options = parser.parse_args()
    home = options.home.resolve()
    lines = home / "kills.jsonl"
    for name in options.subjects:
        finished = {line["case"] for line in read_lines(lines) if line["subject"] == name}
        numbers = [number for number in range(options.cases) if number not in finished]
        if not numbers:
            continue
        with cluster_for(name) as (cluster, environment):
            campaign = Campaign(name, home, environment, cluster)
            campaign.prepare()
            for number in numbers:
                line = campaign.judge(number)
                with lines.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(f"{name} {number + 1}/{options.cases}: {line['how']}: {line['outcome']}", flush=True)
    counts = Counter((line["subject"], line["outcome"]) for line in read_lines(lines))
    print("\n| subject | outcome | cases |\n| --- | --- | --: |")
    for (subject, outcome), count in sorted(counts.items()):
        print(f"| {subject} | {outcome} | {count} |")
    late = sum(not line["disturbed"] for line in read_lines(lines))
    print(f"\n{late} of them had ended before they were disturbed")
    return int(any(outcome != "equal" for _, outcome in counts))


if __name__ == "__main__":
    sys.exit(main())
