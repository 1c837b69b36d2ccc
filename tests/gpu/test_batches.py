"""What a CUDA device fetches its batches from."""

from __future__ import annotations

from pretrain.resolution import load_config
from pretrain.training.loop import Loop
from pretrain.training.training_run import train


def test_batches_wait_in_pinned_memory(tmp_path, monkeypatch, only_cuda):
    pinned = []

    def update(loop, step, update=Loop._update):
        pinned.append(step.staged.numbers.is_pinned())
        return update(loop, step)

    monkeypatch.setattr(Loop, "_update", update)
    flags = ["--data.num-stories", "60", "--data.vocab-size", "300", "--data.block-size", "64"]
    train(load_config(None, [*flags, "--optim.max-steps", "3", "--runs-dir", str(tmp_path)]))
    assert pinned == [True] * 3
