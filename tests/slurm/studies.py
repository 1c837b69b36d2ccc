"""A tiny study on a throw-away SLURM: submitted as a user does, disturbed, and held against a local run."""

import contextlib
import io
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import psutil
import yaml

from slurm.cluster import cells_name, report_name
from slurm.commands import study_run, study_status
from tests.cases import FEW_TASKS
from tests.slurm.cluster import Cluster, QueuedJob

MAX_STEPS = 200
# A cell is two seconds of training and one of scoring; starting Python takes longer.
CONFIG: dict[str, Any] = {
    "model": {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1},
    "data": {"num_stories": 200, "vocab_size": 400},
    "optim": {"max_steps": MAX_STEPS},
    "train": {"batch_size": 8, "save_steps": 10, "logging_steps": 1, "torch_compile": False},
}
SHORT = {"optim": {"max_steps": 40}, "train": CONFIG["train"] | {"save_steps": 20}}
PRESET = {"gpus_per_node": 0, "cpus_per_task": 1, "time": "10"}


class TinyStudy:
    """A study of one family, one seed unless others are given, and some variants.

    Args:
        folder: Where its file and its runs lie.
        base: The base config of its family.
        variants: Its variants, gelu among them.
        config: Config values on top of the common ones, such as other ones for a variant.
        seeds: As its file has them.
        tune: What its file says of tuning; nothing where it does not tune.
    """

    def __init__(
        self,
        folder: Path,
        base: Path,
        variants: Sequence[str] = ("gelu", "relu"),
        config: Mapping[str, Any] | None = None,
        seeds: Any = (1,),
        tune: Mapping[str, Any] | None = None,
    ) -> None:
        content = {
            "name": "tiny",
            "families": {"gpt_neo": str(base)},
            "variants": list(variants),
            "seeds": list(seeds) if isinstance(seeds, tuple) else seeds,
            "config": CONFIG | dict(config or {}),
            "evaluation": {"suites": ["embedded-pairs"], "pair_tasks": FEW_TASKS, "max_pairs": 4},
            **({"tune": dict(tune)} if tune else {}),
        }
        self.file = folder / "tiny.yaml"
        self.file.write_text(yaml.safe_dump(content))
        self.runs = folder / "runs"
        self.folder = self.runs / "tiny"

    def run_dir(self, variant: str) -> Path:
        """The folder of a variant's run, which must be there."""
        (found,) = (self.folder / "gpt_neo" / variant).glob("seed1-*")
        return found

    def states(self) -> dict[str, dict[str, Any]]:
        """What the workers noted down, by variant."""
        states = {
            path.name.split("--")[1]: json.loads(path.read_text())
            for path in (self.folder / "cells").glob("*.json")
        }
        return {variant: state for variant, state in states.items() if state["name"] != "queued"}

    def steps(self, variant: str) -> int:
        """How many lines the training has logged so far."""
        files = list((self.folder / "gpt_neo" / variant).glob("seed1-*/metrics.jsonl"))
        return files[0].read_bytes().count(b"\n") if files else 0

    def newest_checkpoint(self, variant: str) -> int:
        """The step of the newest whole checkpoint; 0 if there is none."""
        names = (self.folder / "gpt_neo" / variant).glob("seed1-*/checkpoints/step_" + "[0-9]" * 7)
        return max((int(path.name.removeprefix("step_")) for path in names), default=0)

    def resumed_from(self, variant: str) -> list[int]:
        """The step at which each session of a variant's training began."""
        record = json.loads((self.run_dir(variant) / "provenance.json").read_text())
        return [session["resumed_from_step"] for session in record["sessions"]]

    def weights(self, variant: str) -> bytes:
        """The trained weights, as they lie on the disk."""
        return (self.run_dir(variant) / "model" / "model.safetensors").read_bytes()

    def rows(self, variant: str) -> pd.DataFrame:
        """The scores."""
        return pd.read_parquet(self.run_dir(variant) / "eval" / "rows.parquet")


def said_by(
    command: Callable[[list[str]], int | None], *args: object, environment: Mapping[str, str] = os.environ
) -> str:
    """Run one of the project's commands in this process, which saves the start of one; what it prints."""
    said = io.StringIO()
    with mock.patch.dict(os.environ, dict(environment), clear=True), contextlib.redirect_stdout(said):
        assert not command(list(map(str, args))), said.getvalue()
    return said.getvalue()


def run_here(study: TinyStudy, *flags: object) -> str:
    """Run a study on this machine."""
    return said_by(study_run, study.file, "--runs-dir", study.runs, "--cluster", "local", *flags)


class SubmittedStudy:
    """A tiny study and the cluster on which it runs.

    Args:
        study: The study.
        cluster: The cluster.
        preset: Values on top of the common preset of these tests.
    """

    def __init__(self, study: TinyStudy, cluster: Cluster, preset: Mapping[str, Any] | None = None) -> None:
        self.study, self.cluster = study, cluster
        self.preset = study.file.with_name("preset.yaml")
        self.preset.write_text(yaml.safe_dump(PRESET | dict(preset or {})))
        self._suspended: list[psutil.Process] = []

    def _said_by(self, command: Callable[[list[str]], int | None], *args: object) -> str:
        return said_by(command, *args, environment=self.cluster.environment())

    def submit(self, *flags: object) -> str:
        """Submit what is to do; returns what the command prints."""
        where = ("--runs-dir", self.study.runs, "--cluster", "slurm", "--preset", self.preset)
        return self._said_by(study_run, self.study.file, *where, *flags)

    def status(self) -> str:
        """What the status command prints."""
        return self._said_by(study_status, self.study.folder)

    def jobs(self) -> dict[str, QueuedJob]:
        """The jobs of this study that SLURM remembers, by id."""
        own = {*self.ids(cells_name(self.study.folder)), *self.ids(report_name(self.study.folder))}
        return {job.job_id: job for job in self.cluster.queue() if job.job_id in own}

    def ids(self, name: str, *options: str) -> list[str]:
        """The ids of the jobs of a name that SLURM remembers, or that ``options`` of squeue ask for."""
        flags = options or ("-t", "all")
        return self.cluster.run("squeue", "-h", "-r", f"--name={name}", *flags, "-o", "%i").split()

    def is_over(self) -> bool:
        """Whether no job of this study waits or runs."""
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        return all(job.state in over for job in self.jobs().values())

    def wait_until_over(self, timeout_s: float = 600) -> None:
        """Wait for the last job, also where it submits others."""
        self.cluster.wait_until(self.is_over, timeout_s, "end of the study")

    def hold(self, variant: str, step: int = 25, timeout_s: float = 120) -> psutil.Process:
        """Suspend a cell's process in the middle of its training, after its second checkpoint.

        Returns:
            The process; ``release`` lets it go on.
        """
        deadline = time.monotonic() + timeout_s
        while self.study.steps(variant) < step or self.study.newest_checkpoint(variant) < 20:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{variant} does not train after {timeout_s:g} s\n{self.cluster.describe()}"
                )
            time.sleep(0.005)
        process = psutil.Process(self.study.states()[variant]["pid"])
        self._suspended.append(process)
        process.suspend()
        self.cluster.wait_until(lambda: process.status() == psutil.STATUS_STOPPED, 10, "stop")
        assert self.study.steps(variant) < MAX_STEPS, "held too late to be in the middle"
        return process

    def release(self, process: psutil.Process) -> None:
        """Let a process that was held go on, if it is still there."""
        self._suspended.remove(process)
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()

    def last_words(self) -> str:
        """What the jobs printed that end the study, in the order of their submission."""
        ends = self.ids(report_name(self.study.folder))
        folder = self.study.folder / "jobs"
        logs = (log for job in sorted(ends, key=int) for log in folder.glob(f"*/{job}_0_log.out"))
        return "".join(log.read_text() for log in logs)

    def close(self) -> None:
        """Leave no job of this study behind, whatever became of the test."""
        for process in list(self._suspended):
            self.release(process)
        self.cluster.run("scancel", *{job.split("_")[0] for job in self.jobs()}, check=False)
        self.cluster.wait_until(self.is_over, 30, "end of the cancelled jobs")


def is_told_to_stop(process: psutil.Process) -> bool:
    """Whether a suspended process has SIGUSR2 waiting for it, or goes on because SLURM sent SIGCONT."""
    with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
        if process.status() != psutil.STATUS_STOPPED:
            return True
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
        return any(mask >> (signal.SIGUSR2 - 1) & 1 for mask in masks)
    return True


def is_idle(process: psutil.Process, seconds: float = 2.0) -> bool:
    """Whether a process does next to nothing for a while, or has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        before = sum(process.cpu_times()[:2])
        time.sleep(seconds)
        return sum(process.cpu_times()[:2]) - before < 0.05 * seconds
    return True


def assert_as_undisturbed(study: TinyStudy, undisturbed: TinyStudy) -> None:
    """Weights equal to the bit and all scores equal, whatever happened on the way."""
    for variant in ("gelu", "relu"):
        assert study.weights(variant) == undisturbed.weights(variant)
        pd.testing.assert_frame_equal(study.rows(variant), undisturbed.rows(variant))
