"""All batches of a step in one piece of memory, which one copy brings to a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Staged:
    """Batches on the host, all their numbers one behind the other.

    Attributes:
        numbers: (numbers,) int32, in pinned memory where a GPU is to fetch it. Half of what int64 would be,
            and enough for any place or token id.
        shapes: Of every batch, the shapes of its tensors by their names, in the order of the numbers.
    """

    numbers: Tensor
    shapes: tuple[dict[str, tuple[int, ...]], ...]

    def to(self, device: torch.device) -> list[dict[str, Tensor]]:
        """The batches on a device, in one copy that the host does not wait for.

        They are int64, ``document_starts`` int32.
        """
        # The memory is given to no other step before that copy is done: torch's allocator of pinned memory
        # records an event behind every such copy and looks at it before it gives a block out again.
        numbers = self.numbers.to(device, non_blocking=True)
        wide, batches, first = numbers.long(), [], 0  # widened all at once
        for shapes in self.shapes:
            batch = {}
            for name, shape in shapes.items():
                end = first + math.prod(shape)
                source = numbers if name == "document_starts" else wide
                batch[name], first = source[first:end].view(shape), end
            batches.append(batch)
        return batches


def stage(batches: Sequence[dict[str, Tensor]], pin: bool = True) -> Staged:
    """Put batches into one piece of memory, pinned for a GPU or not."""
    parts = [tensor.numpy().reshape(-1) for batch in batches for tensor in batch.values()]
    numbers = torch.from_numpy(np.concatenate(parts, dtype=np.int32, casting="same_kind"))
    shapes = tuple({name: tuple(tensor.shape) for name, tensor in batch.items()} for batch in batches)
    return Staged(numbers.pin_memory() if pin else numbers, shapes)
