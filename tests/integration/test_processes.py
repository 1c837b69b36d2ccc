"""One run on one, two and four processes, begun and continued."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from base.errors import run_cli
from pretrain.resolution import load_config
from pretrain.training.training_run import train
from tests.processes import forkserver, write_output_to

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "32", "--model.intermediate-size", "48", "--optim.max-steps", "8"),
    *("--train.save-steps", "4", "--train.logging-steps", "2", "--train.no-torch-compile"),
    *("--train.batch-size", "8", "--train.per-device-train-batch-size", "3"),
    # AdamW divides each gradient by its own size, rounding included; see test_equal_runs.py.
    *("--optim.adam-epsilon", "1e-3", "--family", "gpt_neo"),
]
LOSS, WEIGHT = 4e-6, 1e-6
"""What rounding may change: nats per token, and any weight; the learning rate is 5e-4."""

Start = Callable[..., Path]


@pytest.fixture(scope="module")
def start() -> Start:
    """Train on so many processes, with flags; gives the run folder."""
    context = forkserver()

    def _start(runs_dir: Path, processes: int, *flags: str) -> Path:
        runs_dir.mkdir(exist_ok=True)
        environment = {"ACCELERATE_USE_CPU": "true", "WORLD_SIZE": str(processes)}
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        logs = [runs_dir / f"{processes}-{rank}.log" for rank in range(processes)]
        workers = [
            context.Process(target=worker, args=(runs_dir, rank, environment, log, flags))
            for rank, log in enumerate(logs)
        ]
        for each in workers:
            each.start()
        try:
            for each, log in zip(workers, logs, strict=True):
                each.join(200)
                assert each.exitcode == 0, log.read_text()
        finally:
            for each in workers:
                each.kill()
        (path,) = (runs_dir / "default").glob("*/*/*")
        return path

    return _start


def free_port() -> int:
    with contextlib.closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def worker(
    runs_dir: Path, rank: int, environment: dict[str, str], log: Path, flags: tuple[str, ...] = ()
) -> None:
    write_output_to(log, log)
    if environment["WORLD_SIZE"] != "1":
        os.environ.update(environment, RANK=str(rank), LOCAL_RANK=str(rank))
    run_cli(lambda: train(load_config(None, [*TINY, *flags, "--runs-dir", str(runs_dir)])) and None)


@pytest.fixture(scope="module")
def one(start, tmp_path_factory) -> Path:
    """The run of one process."""
    return start(tmp_path_factory.mktemp("one"), 1)


def assert_same_run(found: Path, wanted: Path) -> None:
    assert found.name == wanted.name
    lines = zip(read_lines(found), read_lines(wanted), strict=True)
    for ours, theirs in lines:
        assert ours["tokens"] == theirs["tokens"]
        for name in {"loss", "eval_loss"} & theirs.keys():
            assert ours[name] == pytest.approx(theirs[name], abs=LOSS)
    weights, reference = (load_file(path / "model" / "model.safetensors") for path in (found, wanted))
    assert max((weights[name] - weight).abs().max() for name, weight in reference.items()) <= WEIGHT
    assert max(weight.double().std() for weight in reference.values()) > 1000 * WEIGHT


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_any_number_of_processes_trains_the_same_run(one, start, tmp_path, processes):
    found = start(tmp_path, processes)
    assert_same_run(found, one)
    provenance = json.loads((found / "provenance.json").read_text())
    assert (provenance["num_processes"], provenance["batch_size"]) == (processes, 8)


@pytest.mark.ci
def test_experts_are_balanced_by_the_tokens_of_all_processes(start, tmp_path):
    alone, both = (start(tmp_path / str(number), number, "--model.ffn", "moe") for number in (1, 2))
    assert_same_run(both, alone)
    weights, reference = (load_file(path / "model" / "model.safetensors") for path in (both, alone))
    shifts = [name for name in reference if name.endswith(".shifts")]
    assert shifts
    assert all(reference[name].any() for name in shifts)
    assert all(torch.equal(weights[name], reference[name]) for name in shifts)


def test_a_run_begun_by_one_process_is_continued_by_two(one, start, tmp_path):
    path = tmp_path / one.relative_to(one.parents[3])
    shutil.copytree(one, path)
    (path / "COMPLETED").unlink()
    shutil.rmtree(path / "model")
    assert [each.name for each in path.glob("checkpoints/*")] == ["step_0000004"]
    assert start(tmp_path, 2) == path
    assert "continued at step 4" in (tmp_path / "2-0.log").read_text()
    assert_same_run(path, one)
    whole = load_file(one / "model" / "model.safetensors")
    again = load_file(path / "model" / "model.safetensors")
    assert not all(torch.equal(again[name], weight) for name, weight in whole.items())  # it did train again


def test_processes_that_cannot_share_a_step_are_refused_before_anything_is_written(tmp_path):
    runs_dir, log = tmp_path / "runs", tmp_path / "log"
    process = forkserver().Process(target=worker, args=(runs_dir, 0, {"WORLD_SIZE": "3"}, log))
    process.start()
    process.join(100)
    assert process.exitcode == 2
    told = "train.batch_size 8: 3 processes cannot share so many rows equally; start 2, or give"
    assert log.read_text().startswith(f"error: {told}")
    assert not runs_dir.exists()
