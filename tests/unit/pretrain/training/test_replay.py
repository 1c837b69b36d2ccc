"""Steps from static memory, as a CUDA graph replays them, against the usual ones, on a CPU.

That a graph of CUDA does the same is for tests/gpu.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from accelerate.utils import set_seed
from torch import Tensor

from base.errors import UsageError
from pretrain.config import RunConfig
from pretrain.data.batches import BatchSource
from pretrain.data.prepare import prepare_data
from pretrain.model.build import build, build_masker, special_token_ids
from pretrain.model.objective import build_loss
from pretrain.resolution import load_config
from pretrain.training.device import build_accelerator
from pretrain.training.loop import Loop
from pretrain.training.replay import EAGER_STEPS, CudaGraphs, ReplayedUpdate
from pretrain.training.train import train

TINY = [
    *("--data.num-stories", "100", "--data.vocab-size", "300", "--data.block-size", "32"),
    *("--model.hidden-size", "32", "--model.intermediate-size", "48", "--optim.max-steps", "6"),
    *("--train.no-torch-compile", "--train.batch-size", "8", "--train.per-device-train-batch-size", "5"),
]


class Again:
    """Records a function by keeping it, and its results in one place."""

    def __init__(self) -> None:
        self.eager = self.recorded = 0

    def run(self, function: Callable[[], Tensor]) -> Tensor:
        self.eager += 1
        return function()

    def record(self, function: Callable[[], Tensor]) -> Callable[[], Tensor]:
        self.recorded += 1
        place = torch.empty(2)
        return lambda: place.copy_(function())


def make(config: RunConfig, path: Path, on_device: bool) -> Loop:
    accelerator, data = build_accelerator(config, path), prepare_data(config)
    set_seed(config.seed)
    network = build(config, len(data.tokenizer), special_token_ids(data.tokenizer))
    masker, pad = build_masker(config, data.tokenizer), data.tokenizer.pad_token_id
    source = BatchSource(config, masker, pad, fixed_shapes=on_device)  # type: ignore[arg-type]
    loss = build_loss(network, config.family)
    return Loop(config, accelerator, loss, source, data, path, on_device=on_device)


def do_steps(loop: Loop) -> Tensor:
    """(steps, 2) losses and gradient norms."""
    results = []
    for number in range(loop.max_steps):
        results.append(loop._update(loop._step(number)))
        loop.state.step += 1
    return torch.stack(results)


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize(
    "flags",
    [
        ["--family", "gpt_neo"],
        ["--family", "roberta", "--ffn", "kan", "--splines.penalty", "1e-3"],
        pytest.param(["--family", "t5", "--optim.optimizer", "adafactor"], marks=pytest.mark.slow),
        pytest.param(["--family", "llama"], marks=pytest.mark.slow),
    ],
    ids=["gpt_neo", "roberta", "t5", "llama"],
)
@pytest.mark.ci
def test_replayed_steps_are_the_usual_ones_to_the_bit(runs_dir, tmp_path, flags):
    """With dropout where the family has it, in two forward passes a step."""
    config = load_config(None, [*TINY, *flags, "--runs-dir", str(runs_dir)])
    usual, replayed = make(config, tmp_path / "usual", True), make(config, tmp_path / "replayed", True)
    recorder = Again()
    replayed.replayed = ReplayedUpdate(replayed.update, torch.device("cpu"), recorder)
    expected = do_steps(usual)
    assert torch.equal(do_steps(replayed), expected)
    assert (recorder.eager, recorder.recorded) == (EAGER_STEPS, 1)
    for ours, theirs in zip(replayed.model.parameters(), usual.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    plain = do_steps(make(config, tmp_path / "plain", False))  # batches as long as they come, rates in Python
    if not config.model.hidden_dropout:
        torch.testing.assert_close(expected, plain, rtol=2e-5, atol=0)


@pytest.mark.ci
def test_moved_knots_are_recorded_anew(runs_dir, tmp_path):
    flags = ["--ffn", "kan", "--splines.knot-updates", "0.67", "--runs-dir", str(runs_dir)]
    config = load_config(None, [*TINY, *flags, "--optim.max-steps", "9"])
    loop, recorder = make(config, tmp_path, True), Again()
    loop.replayed = ReplayedUpdate(loop.update, torch.device("cpu"), recorder)
    do_steps(loop)  # 3 eager, 3 replayed, then the update of the knots and 3 eager
    assert (recorder.eager, recorder.recorded) == (6, 1)


def test_results_of_replays_are_kept_apart():
    class Numbers:
        numbers, shapes = torch.zeros(1, dtype=torch.int32), ()

        def views(self, numbers):
            return []

        def num_targets(self, numbers):
            return numbers[0]

    update = ReplayedUpdate(lambda batches, targets: targets.repeat(2), torch.device("cpu"), Again())
    results = []
    for value in range(6):
        Numbers.numbers = torch.tensor([value], dtype=torch.int32)
        results.append(update(Numbers()))  # type: ignore[arg-type]
    assert [result.tolist() for result in results] == [[value, value] for value in range(6)]


def test_a_graph_needs_a_gpu(tmp_path):
    with pytest.raises(
        UsageError, match=r"train\.cuda_graph needs a CUDA device, and this run is on cpu; leave"
    ):
        train(load_config(None, [*TINY, "--train.cuda-graph", "--runs-dir", str(tmp_path)]))
    assert not list(tmp_path.iterdir())


def test_memory_that_runs_out_in_a_recording_is_no_fault_of_the_step(monkeypatch):
    class Broken(contextlib.nullcontext):
        def __exit__(self, *_: object) -> None:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    def no_memory() -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    def waits() -> Tensor:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    for name, stand_in in {
        "Stream": lambda _: None,
        "stream": lambda _: contextlib.nullcontext(),
        "CUDAGraph": lambda: None,
        "graph": lambda *_, **__: Broken(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    with pytest.raises(torch.OutOfMemoryError):
        CudaGraphs(torch.device("cuda")).record(no_memory)
    with pytest.raises(UsageError, match="the step cannot be recorded"):
        CudaGraphs(torch.device("cuda")).record(waits)
