"""What evaluation asks of a device: batches, halves of what does not fit, one query's attention.

A batch has as many tokens as is fastest on its device. Where memory runs out on a GPU, all is computed again
in batches half as large.

Attention of one query is what the last layer computes where only one token of each text is read. All keys of
a text have one query then, so the projections of keys and values move to its side: a score q . (W_k x) is
(q W_k) . x, and a weighted sum of values W_v x is W_v times the weighted sum of x. Both are exact, and keys
and values are never made. A bias of the keys adds the same to all scores of a query, which softmax does not
see, so it has no part here. Measured on 2-layer models of hidden size 512: scoring with masked models takes
1.7 to 1.9 times as long with whole last layers, an update of fine-tuning 1.9 to 2.0 times.

Shapes: n queries, L tokens that each may look at, D hidden_size, H heads of size d.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ffn_variants.models.faster_layers import dropout
from pretrain.training.device import is_out_of_memory


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Copy an array to a device. A GPU fetches it from pinned memory, and the host does not wait."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def all_to_device(arrays: Sequence[np.ndarray], device: torch.device) -> list[Tensor]:
    """Copy several arrays to a device as int64, all of them in one copy; shapes stay."""
    flat = np.concatenate([array.ravel() for array in arrays]).astype(np.int64, copy=False)
    parts = to_device(flat, device).split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def attend_with_one_query(
    query: Tensor,
    tokens: Tensor,
    key: nn.Linear,
    value: nn.Linear,
    num_heads: int,
    visible: Tensor | None = None,
    p: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Attend from one query to its text.

    Args:
        query: (n, D), scaled.
        tokens: (n, L, D) inputs of keys and values.
        key: The projection to keys.
        value: The projection to values.
        num_heads: H.
        visible: (n, L), which tokens the query may look at; None is all.
        p: Dropout of the attention weights.

    Returns:
        (n, H, d) weighted values without their bias, and (n, H, 1) the sum of the weights, by which a bias
        counts: 1 without dropout, up to rounding.
    """
    # With H = 1: scores are q W_k x for all x at once, (q W_k) of D numbers, where keys would be L of them.
    absorbed = torch.einsum(
        "nhd,hde->nhe", query.unflatten(1, (num_heads, -1)), key.weight.unflatten(0, (num_heads, -1))
    )
    scores = absorbed @ tokens.mT
    if visible is not None:
        scores = scores.masked_fill(~visible[:, None], torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    if p:
        weights = dropout(weights, p)
    mixed = torch.einsum("nhe,hde->nhd", weights @ tokens, value.weight.unflatten(0, (num_heads, -1)))
    return mixed, weights.sum(-1, keepdim=True)


# Measured with 2-layer models of hidden sizes 128 and 512, gelu and kan: from 1024 to 4096 tokens a core is
# within 4% of its best. A GPU needs more per launch.
CPU_BATCH_TOKENS = 2048
GPU_BATCH_TOKENS = 65536

# Rows of logits at a time: with a vocabulary of 10,000 that is 10 MB. `F.cross_entropy` then costs 12 us a
# row, with 2048 rows 28, and `torch.logsumexp` 165. A GPU needs more work per launch.
_CPU_HEAD_ROWS, _GPU_HEAD_ROWS = 256, 8192

Made = TypeVar("Made")


@dataclass
class Budget:
    """How large batches of texts may be; less once memory ran out.

    Attributes:
        tokens: Of a forward pass.
        head_rows: Rows of logits at a time; up to twice as many are as good.
    """

    tokens: int
    head_rows: int = _CPU_HEAD_ROWS

    @classmethod
    def of(cls, model: PreTrainedModel, tokens: int | Budget | None = None) -> Budget:
        """Return the fastest batches for a model's device; ``tokens`` of a forward pass, None chooses."""
        if isinstance(tokens, Budget):
            return tokens
        if model.device.type == "cpu":
            return cls(tokens or CPU_BATCH_TOKENS)
        return cls(tokens or GPU_BATCH_TOKENS, _GPU_HEAD_ROWS)

    def texts(self, length: int, copies: int = 1) -> int:
        """Return how many texts a batch may have, one at least.

        Args:
            length: Tokens of each.
            copies: How often each is read.
        """
        return max(1, self.tokens // (length * copies))

    def parts_for_head(self, count: int) -> Iterator[slice]:
        """Cut rows for the head into parts of about one size, none so small that it is slow."""
        # Of 600 rows, 256 at a time, two parts of 300; of 500 one.
        size = max(1, -(-count // max(1, count // self.head_rows)))
        return (slice(first, min(first + size, count)) for first in range(0, count, size))

    def in_halves(self, compute: Callable[[], Made]) -> Made:
        """Compute in batches of this budget; where memory runs out, all of it again in batches half as large.

        The longest texts come first where that is possible, so that what does not fit fails at once.

        Args:
            compute: Takes its batches from this budget, and keeps nothing itself.

        Raises:
            torch.OutOfMemoryError: If a single text does not fit.
        """
        while True:
            try:
                return compute()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or self.tokens == 1:
                    raise
            # Not while the error is handled: it holds the memory of what failed.
            warnings.warn(
                f"memory ran out with {self.tokens} at a time; going on with half as many", stacklevel=3
            )
            self.tokens, self.head_rows = self.tokens // 2, max(1, self.head_rows // 2)
            torch.cuda.empty_cache()
