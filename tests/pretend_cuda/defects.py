"""Defects that are planted into the project, to see that each is found."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.gpu.steps import BLOCK
from pretrain.model.objective import PackedLoss

Before = Callable[[PackedLoss, dict[str, Tensor]], None]


def item(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """A check of values by the host."""
    assert batch["target_ids"].max().item() >= 0


def host_tensor(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """A tensor of the host in an operation of the device."""
    batch["position_ids"] = batch["position_ids"] + torch.arange(BLOCK)


def boolean_index(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """A choice whose size only the device knows."""
    batch["target_ids"][batch["target_ids"] > 0].sum()


def nonzero(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """The places of a mask."""
    (batch["target_ids"] > 0).nonzero()


def repeat_interleave(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """Repetitions whose sum only the device knows."""
    torch.repeat_interleave(batch["position_ids"][0])


def host_index(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """An index that the host made."""
    batch["position_ids"][torch.arange(2)].sum()


def blocking_copy(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """A small table made on the host in every step."""
    torch.arange(BLOCK).to(batch["input_ids"].device)


def unpinned_copy(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """A copy that asks not to wait, from memory that has to be waited for."""
    torch.arange(BLOCK).to(batch["input_ids"].device, non_blocking=True)


def second_copy(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """Another copy beside that of the step's batch."""
    torch.arange(BLOCK).pin_memory().to(batch["input_ids"].device, non_blocking=True)


def float32_product(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """A matrix product that autocast was kept from."""
    with torch.autocast("cuda", enabled=False):
        weight = next(loss.model.parameters())  # of the embeddings
        F.linear(weight[:8], weight[8:16])


def all_pairs(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """A mask of all pairs of tokens."""
    batch["position_ids"][:, :, None] >= batch["position_ids"][:, None, :]  # noqa: B015


_turns = itertools.count()


def other_steps(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """Every second step does something else."""
    if next(_turns) % 2:
        batch["position_ids"].sum()


def temporary(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """Features of all inputs at once."""
    batch["input_ids"].float()[..., None].expand(-1, -1, 2**16).contiguous()


def many_launches(loss: PackedLoss, batch: dict[str, Tensor]) -> None:
    """A loop over single numbers."""
    for column in range(BLOCK):
        batch["position_ids"][:, column].add(1)


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Have the loss of a model of one stack do something before it is computed.

    Args:
        name: Of a function above; None plants nothing.
    """
    real, before = PackedLoss.forward, globals()[name] if name else None

    def forward(loss: PackedLoss, **batch: Tensor) -> Any:
        if before is not None:
            before(loss, batch)
        return real(loss, **batch)

    if before is not None:
        PackedLoss.forward = forward  # type: ignore[method-assign]
    try:
        yield
    finally:
        PackedLoss.forward = real  # type: ignore[method-assign]
