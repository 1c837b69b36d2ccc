"""What training does where a step cannot be recorded, as on this CPU; recordings are tested on a GPU."""

import contextlib

import pytest
import torch

from benchmarks.gpu.workload import build_loop, build_network
from pretrain.data.step_batches import stage
from pretrain.training.recording import WARM_UP, RecordedPasses


def test_passes_that_cannot_be_recorded_are_done_one_by_one(tiny, tmp_path):
    config = tiny()
    loop, other = (build_loop(config, build_network(config), tmp_path) for _ in range(2))
    passes = RecordedPasses(loop.update.passes, loop.update.parameters, torch.device("cpu"))
    told = pytest.warns(UserWarning, match="could not be recorded as a CUDA graph.*--train.no-cuda-graph")
    for number in range(WARM_UP + 2):
        step = loop._step(number)
        with told if number == WARM_UP else contextlib.nullcontext():
            loss = passes(stage(step.batches, pin=False), step.num_targets)
        expected = other.update.passes(step.batches, step.num_targets)
        assert torch.equal(loop.update.apply(loss), other.update.apply(expected))
    assert passes.failure
