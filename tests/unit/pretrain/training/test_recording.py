"""What training does where a step cannot be recorded, as on this CPU; recordings are tested on a GPU."""

import torch

from benchmarks.gpu.workload import build_loop, build_network
from pretrain.data.step_batches import stage
from pretrain.training.recording import WARM_UP, RecordedPasses


def test_passes_that_cannot_be_recorded_are_done_one_by_one(tiny, tmp_path, capsys):
    config = tiny()
    loop, other = (build_loop(config, build_network(config), tmp_path) for _ in range(2))
    passes = RecordedPasses(loop.update.passes, loop.update.parameters, torch.device("cpu"))
    for number in range(WARM_UP + 2):
        step = loop._step(number)
        loss = passes(stage(step.batches, pin=False), step.num_targets)
        expected = other.update.passes(step.batches, step.num_targets)
        assert torch.equal(loop.update.apply(loss), other.update.apply(expected))
    (line,) = capsys.readouterr().err.splitlines()
    assert passes.failure in line
    assert "--train.no-cuda-graph" in line
