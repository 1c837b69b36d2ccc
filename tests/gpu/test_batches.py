"""What a CUDA device fetches its batches from."""

from __future__ import annotations

import torch

from pretrain.data.step_batches import pinned
from pretrain.resolution import load_config
from pretrain.training.loop import Loop
from pretrain.training.training_run import train


def test_batches_wait_in_pinned_memory(tmp_path, monkeypatch, only_cuda):
    are_pinned = []

    def update(loop, step, update=Loop._update):
        are_pinned.append(all(tensor.is_pinned() for batch in step.batches for tensor in batch.values()))
        return update(loop, step)

    monkeypatch.setattr(Loop, "_update", update)
    flags = ["--data.num-stories", "60", "--data.vocab-size", "300", "--data.block-size", "64"]
    train(load_config(None, [*flags, "--optim.max-steps", "3", "--runs-dir", str(tmp_path)]))
    assert are_pinned == [True] * 3


def test_memory_is_not_given_out_while_a_copy_is_under_way(only_cuda):
    torch.cuda._sleep(10**9)
    copies = []
    for number in range(20):
        (batch,) = pinned([{"input_ids": torch.full((2**16,), number)}])
        copies.append(batch["input_ids"].to("cuda", non_blocking=True))
        del batch
    for number, copy in enumerate(copies):
        assert (copy == number).all()
