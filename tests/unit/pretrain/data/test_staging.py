"""A step's batches in one piece of memory, and back."""

from __future__ import annotations

import pytest
import torch

from base.text.corruption import IGNORE
from pretrain.data.step_batches import stage


def batches() -> list[dict[str, torch.Tensor]]:
    return [
        {
            "input_ids": torch.arange(rows * 6).view(rows, 6) + 70_000,
            "target_index": torch.tensor([5, 2, 2**31 - 1]),
            "target_ids": torch.tensor([7, 9, IGNORE]),
            "document_starts": torch.tensor([0, 3, rows * 6], dtype=torch.int32),
        }
        for rows in (3, 2)
    ]


def test_views_are_the_batches():
    staged = stage(batches(), pin=False)
    assert staged.numbers.dtype == torch.int32
    assert staged.numbers.numel() == sum(t.numel() for batch in batches() for t in batch.values())
    for batch, expected in zip(staged.to(torch.device("cpu")), batches(), strict=True):
        assert list(batch) == list(expected)
        for name, tensor in expected.items():
            assert batch[name].dtype == tensor.dtype
            assert torch.equal(batch[name], tensor)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_memory_is_not_given_out_while_a_copy_is_under_way():
    torch.cuda._sleep(10**9)
    copies = [stage([{"input_ids": torch.full((2**16,), number)}]).to("cuda") for number in range(20)]
    for number, (batch,) in enumerate(copies):
        assert (batch["input_ids"] == number).all()
