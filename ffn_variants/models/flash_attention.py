"""Attention of packed documents by flash attention for sequences of any length, on GPUs that have it.

No score between two documents is computed, and no tensor with a place for every pair of tokens exists. The
kernels are those of torch (FlashAttention-2, Dao 2023); ``torch.nn.attention.varlen`` calls the same ones,
without dropout of the weights.

Shapes: B batch, H heads, T tokens of a row, N = B T tokens of a batch, D size of a head, C documents.
"""

from __future__ import annotations

import torch
from torch import Tensor

LARGEST_HEAD = 192
"""Larger heads have a backward pass on some GPUs alone."""


def takes_flash(device: torch.device, dtype: torch.dtype, head_size: int) -> bool:
    """Whether flash attention computes heads of this size and dtype on a device.

    It wants a GPU of compute capability 8.0 (Ampere) or newer, and ``torch.backends.cuda.enable_flash_sdp``
    switches it off.
    """
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return False
    return head_size % 8 == 0 and head_size <= LARGEST_HEAD and _has_flash(device)


def _has_flash(device: torch.device) -> bool:
    if torch.version.hip is not None or not torch.backends.cuda.is_flash_attention_available():
        return False
    return torch.backends.cuda.flash_sdp_enabled() and torch.cuda.get_device_capability(device) >= (8, 0)


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts: Tensor,
    *,
    causal: bool,
    window: int | None,
    dropout: float,
    scaling: float | None,
) -> Tensor:
    """Attend within documents.

    Args:
        query: (B, H, T, D), as views of the (B, T, H D) that a projection gives; then nothing is copied.
        key: As ``query``.
        value: As ``query``.
        starts: (C + 1,) int32: where in the N tokens each document starts, then N, any number of times.
            Documents lie within a row and leave out no token.
        causal: Whether tokens see earlier ones only.
        window: Tokens that a token of a causal layer looks back on, itself included.
        dropout: Of the weights, drawn from the device's generator.
        scaling: Of the scores; None for one over the root of D.

    Returns:
        (B, T, H, D).
    """
    rows, _, length, _ = query.shape
    tokens = [tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value)]
    reach = window if causal else None
    out = torch.ops.aten._flash_attention_forward(
        *tokens,
        starts,
        starts,
        length,  # of the longest document at most: a number that the device need not be asked for
        length,
        dropout,
        causal and reach is None,
        False,  # no weights for debugging
        scale=scaling,
        window_size_left=-1 if reach is None else reach - 1,  # the token itself is not counted
        window_size_right=0 if causal else -1,
    )[0]
    return out.unflatten(0, (rows, length))
