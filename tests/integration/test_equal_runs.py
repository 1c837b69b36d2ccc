"""Runs that must come out equal: a step in parts, several processes, other kernels, another form of the loss.

Every run is a process of its own (or several), forked from one that has imported everything. It leaves its
metric lines, the gradients of every step from before clipping, and the final weights. AdamW divides each
gradient by its own size, rounding included, so where the true one is zero (the bias of a key) two equal runs
would part by the learning rate. With a large epsilon they stay as near as their gradients are.
"""

import itertools
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import set_seed

from base.text.corruption import Masker
from pretrain.config import ResolvedConfig
from pretrain.data.prepare import prepare_data
from pretrain.data.step_batches import MASKS, rows_of_step
from pretrain.model import linear_cross_entropy as chunks
from pretrain.model import objective
from pretrain.model.build import build, build_masker, special_token_ids
from pretrain.resolution import load_config
from pretrain.training.training_run import train
from tests.cases import first_is_fast, small_run
from tests.processes import forkserver, free_port, write_output_to

STEPS = 4
FAMILIES = ["gpt_neo", "roberta"]

LOSS = 4e-6
"""Nats per token; of losses near 5.7, where float32 has steps of 5e-7."""
GRADIENT = 1e-6
"""Of each parameter's gradient, relative to the norm of the whole one."""
WEIGHT = 1e-6
"""Of any weight after the last step; the learning rate is 0.01."""


@dataclass
class Result:
    """What a run leaves: losses by step, gradients by step and parameter, weights by parameter."""

    losses: list[float]
    held_out: list[float]
    gradients: list[dict[str, torch.Tensor]]
    weights: dict[str, torch.Tensor]


def config_of(runs_dir: Path, family: str, name: str, *flags: str) -> ResolvedConfig:
    base = small_run(
        runs_dir,
        model={"intermediate_size": 48, "hidden_dropout": 0, "attention_dropout": 0},
        optim={"max_steps": STEPS, "adam_epsilon": 1e-3},
        train={"logging_steps": 1, "save_steps": 500},
        output={"run_name": name},
    )
    return load_config(None, ["--family", family, *flags], base)


@pytest.fixture(scope="module")
def run(runs_dir):
    """Train in one process or several; every run once, by its name."""
    context = forkserver()
    done: dict[tuple[str, str], Result] = {}

    def _run(
        family: str,
        name: str,
        *flags: str,
        processes: int = 1,
        loss: str = "",
        begun: str = "",
        **environment: str,
    ) -> Result:
        if (family, name) in done:
            return done[family, name]
        config = config_of(runs_dir, family, begun or name, *flags)
        prepare_data(config)
        out = runs_dir / f"{family}-{name}"
        out.mkdir()
        if processes > 1:
            environment |= {"WORLD_SIZE": str(processes), "ACCELERATE_USE_CPU": "true"}
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        workers = [
            context.Process(target=watched_train, args=(config, out, str(rank), loss, environment))
            for rank in range(processes)
        ]
        for worker in workers:
            worker.start()
        try:
            for rank, worker in enumerate(workers):
                worker.join(300)
                assert worker.exitcode == 0, (out / f"{rank}.log").read_text()
        finally:
            for worker in workers:
                worker.kill()
        assert "torch.compile failed" not in (out / "0.log").read_text()
        done[family, name] = read_result(out, processes)
        return done[family, name]

    return _run


def watched_train(
    config: ResolvedConfig, out: Path, rank: str, loss: str, environment: dict[str, str]
) -> None:
    """Train, with another loss where one is named; save each step's gradients from before clipping."""
    if loss == "plain":
        objective.linear_cross_entropy = plain_cross_entropy
    elif loss == "chunked":
        chunks.CHUNK_NUMBERS["cpu"] = 7 * config.data.vocab_size
    if environment.get("WORLD_SIZE"):
        environment |= {"RANK": rank, "LOCAL_RANK": rank}
    os.environ.update(environment)
    write_output_to(out / f"{rank}.log", out / f"{rank}.log")
    gradients: dict[str, torch.Tensor] = {}
    clip = torch.nn.utils.clip_grad_norm_

    def watched_clip(parameters, *args):
        parameters = list(parameters)
        step = len({name.partition("/")[0] for name in gradients})
        gradients.update({f"{step}/{i}": p.grad.clone() for i, p in enumerate(parameters)})
        return clip(parameters, *args)

    torch.nn.utils.clip_grad_norm_ = watched_clip  # type: ignore[bad-assignment]
    path = train(config)
    save_file(gradients, out / f"gradients-{rank}.safetensors")
    if rank == "0":
        (out / "path").write_text(str(path))


def plain_cross_entropy(hidden, weight, bias, targets):
    """All logits at once, and torch's own loss."""
    return F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum")


def read_result(out: Path, processes: int) -> Result:
    path = Path((out / "path").read_text())
    assert json.loads((path / "provenance.json").read_text())["num_processes"] == processes
    files = [load_file(out / f"gradients-{rank}.safetensors") for rank in range(processes)]
    for other in files[1:]:  # all processes have the whole gradient
        assert all(torch.equal(tensor, other[name]) for name, tensor in files[0].items())
    steps: list[dict[str, torch.Tensor]] = [{} for _ in range(STEPS)]
    for name, tensor in files[0].items():
        step, _, parameter = name.partition("/")
        steps[int(step)][parameter] = tensor
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == STEPS
    held_out = [line["eval_loss"] for line in lines if "eval_loss" in line]
    return Result(losses, held_out, steps, load_file(path / "model" / "model.safetensors"))


def assert_equal_runs(found: Result, wanted: Result) -> None:
    """Compare losses, every parameter's gradient at every step, and final weights."""
    assert_equal_results(found, wanted)
    for ours, reference in zip(found.gradients, wanted.gradients, strict=True):
        norm = torch.nn.utils.get_total_norm(reference.values())
        assert max((ours[name] - reference[name]).norm() for name in reference) <= GRADIENT * norm


def assert_equal_results(found: Result, wanted: Result) -> None:
    """Compare losses and final weights."""
    losses = zip(found.losses + found.held_out, wanted.losses + wanted.held_out, strict=True)
    assert max(abs(a - b) for a, b in losses) <= LOSS
    off = [(found.weights[name] - weight).abs().max() for name, weight in wanted.weights.items()]
    assert max(off) <= WEIGHT


IN_PARTS = {
    "accumulated": (["--train.per-device-train-batch-size", "3"], 1),
    "processes": ([], 2),
    "both": (["--train.per-device-train-batch-size", "2"], 2),
    "four": ([], 4),
}
FAST = [("gpt_neo", "accumulated"), ("roberta", "both")]
"""Passes of unequal sizes, and passes of several processes; `pytest -m slow` has the others."""
in_parts = pytest.mark.parametrize(
    ("family", "parts"),
    [
        pytest.param(*case, marks=() if case in FAST else pytest.mark.slow)
        for case in itertools.product(FAMILIES, IN_PARTS)
    ],
)


@in_parts
@pytest.mark.ci
def test_a_step_in_parts_is_the_step_at_once(run, family, parts):
    """8 rows in passes of 3, 3 and 2, on 2 processes, and as 2 x 2 on each of 2 processes."""
    flags, processes = IN_PARTS[parts]
    found = run(family, parts, *flags, processes=processes)
    assert_equal_runs(found, run(family, "whole"))


@pytest.mark.slow
def test_two_processes_move_the_same_knots_as_one(run):
    flags = ["--ffn", "kan", "--model.ffn-options", "splines", "sparse", "--splines.penalty", "0.001"]
    flags += ["--splines.knot-updates", "0.25", "--splines.prune-at", "0.5", "--splines.prune-below", "0.01"]
    one = run("gpt_neo", "knots", *flags)
    two = run("gpt_neo", "knots-processes", *flags, *IN_PARTS["processes"][0], processes=2)
    # Least squares and thresholds make more of a rounding than a step does; what counts is that no process
    # parts from the other, whose gradients of the penalty would not be equal then.
    assert max(abs(a - b) for a, b in zip(two.losses, one.losses, strict=True)) < 1e-4
    for name, weight in one.weights.items():
        other = two.weights[name]
        if name.endswith("mask"):
            assert 0 < weight.float().mean() < 1
            assert (weight != other).float().mean() < 0.02
        elif name.endswith("grid"):
            assert weight.diff(dim=1).std() > 0.01
            # Of distinct inputs: two that are equal in one run may be a rounding apart in the other.
            torch.testing.assert_close(other, weight, atol=0.02, rtol=0)


@in_parts
@pytest.mark.ci
def test_the_loss_is_the_mean_over_all_targets_of_the_step(run, runs_dir, family, parts):
    """Against transformers' loss on all rows of the first step; the mean of the parts' means is another."""
    flags, processes = IN_PARTS[parts]
    found = run(family, parts, *flags, processes=processes)
    config = config_of(runs_dir, family, parts)
    data = prepare_data(config)
    set_seed(config.seed)
    model = build(config, len(data.tokenizer), special_token_ids(data.tokenizer))
    rows = rows_of_step(len(data.train.input_ids), 8, config.seed, 0)
    arrays = data.train.input_ids, data.train.position_ids
    ids, positions = (array[rows].astype(np.int64) for array in arrays)
    if masker := build_masker(config, data.tokenizer):
        assert isinstance(masker, Masker)
        ids, labels = masker(ids, np.random.default_rng([MASKS, config.seed, 0]))
    else:
        labels = np.where(positions == 0, -100, ids)  # transformers shifts them
    ids, positions, labels = map(torch.from_numpy, (ids, positions, labels))

    def loss_of(part: slice) -> torch.Tensor:
        document = (positions[part] == 0).cumsum(1)
        mask = torch.where(document[:, :, None] == document[:, None, :], 0.0, -1e30)[:, None]
        inputs = {"input_ids": ids[part], "attention_mask": mask, "labels": labels[part]}
        return model(position_ids=positions[part] + (family == "roberta"), **inputs).loss

    loss = loss_of(slice(8))
    assert found.losses[0] == pytest.approx(loss.item(), abs=LOSS)
    parts_mean = sum(loss_of(slice(start, start + 2)).item() for start in range(0, 8, 2)) / 4
    assert abs(parts_mean - loss.item()) > 4 * LOSS
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    norm = torch.nn.utils.get_total_norm(gradients)
    for number, gradient in enumerate(gradients):
        assert (found.gradients[0][str(number)] - gradient).norm() <= GRADIENT * norm


@pytest.mark.parametrize("family", first_is_fast(FAMILIES))
@pytest.mark.ci
def test_a_run_with_the_loss_in_chunks_is_one_with_all_logits_at_once(run, family):
    plain, chunked = (run(family, name, loss=name) for name in ("plain", "chunked"))
    assert_equal_runs(chunked, plain)


DROPOUT = ["--model.hidden-dropout", "0.2", "--model.attention-dropout", "0.2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "ffn", "compiled", "flags"),
    [
        *((*case, "--train.torch-compile", []) for case in itertools.product(FAMILIES, ["gelu", "kan"])),
        ("gpt_neo", "gr-kan", "--train.torch-compile", []),
        ("gpt_neo", "kan", "--train.compile-model", DROPOUT),
        ("roberta", "gelu", "--train.compile-model", DROPOUT),
    ],
)
def test_a_compiled_run_is_an_eager_one_with_the_same_dropout(
    run, inductor_cache, family, ffn, compiled, flags
):
    names = ("TORCHINDUCTOR_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS")
    environment = {name: os.environ[name] for name in names}
    name = f"{ffn}-{len(flags)}"
    found = run(family, f"{name}{compiled}", "--ffn", ffn, *flags, compiled, **environment)
    assert_equal_runs(found, run(family, name, "--ffn", ffn, *flags))


@pytest.mark.slow
def test_experts_are_balanced_by_the_tokens_of_all_processes(run):
    alone = run("gpt_neo", "moe", "--ffn", "moe")
    both = run("gpt_neo", "moe-processes", "--ffn", "moe", processes=2)
    assert_equal_runs(both, alone)
    shifts = [name for name in alone.weights if name.endswith(".shifts")]
    assert shifts
    assert all(alone.weights[name].any() for name in shifts)
    assert all(torch.equal(both.weights[name], alone.weights[name]) for name in shifts)


@pytest.mark.ci
def test_a_run_begun_by_one_process_is_continued_by_two(run, runs_dir):
    whole = run("gpt_neo", "one-process", "--train.save-steps", "2")
    path = Path((runs_dir / "gpt_neo-one-process" / "path").read_text())
    (path / "COMPLETED").unlink()
    shutil.rmtree(path / "model")
    again = run("gpt_neo", "continued", "--train.save-steps", "2", processes=2, begun="one-process")
    assert "continued at step 2" in (runs_dir / "gpt_neo-continued" / "0.log").read_text()
    assert_equal_results(again, whole)
