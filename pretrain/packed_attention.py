"""Attention of packed documents, registered with transformers as ``packed``.

Its mask says to which document each token belongs: (B, 1, 1, T) integers. On a CPU each document is attended
to alone, so that no score between two documents is ever computed; elsewhere, and where documents are so short
that their number costs more than the scores, a mask of pairs is made of it. Any other mask goes to ``sdpa``.

Shapes: B batch, H heads, T tokens of a row, L of a document, D size of a head.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from ffn_variants.attention import numbers_documents
from pretrain.dropout import dropout as drop

NAME = "packed"

LONG, FEW = 64, 0.7
"""Documents of a CPU are attended to one by one from this mean length on, if all their pairs of tokens are at
most this share of the pairs in the rows."""


def document_numbers(position_ids: Tensor) -> Tensor:
    """Number the documents of a batch.

    Args:
        position_ids: (B, T) positions, 0 at every start of a document and on padding.

    Returns:
        (B, 1, 1, T); no two rows share a number, and padding has a number for every token.
    """
    rows = torch.arange(len(position_ids), device=position_ids.device) * (position_ids.shape[1] + 1)
    return ((position_ids == 0).cumsum(dim=1) + rows[:, None])[:, None, None]


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend within documents.

    Args:
        module: The layer; ``is_causal`` says whether tokens see later ones.
        query: (B, H, T, D).
        key: (B, H, T, D).
        value: (B, H, T, D).
        attention_mask: (B, 1, 1, T) number of each token's document, or a mask that ``sdpa`` knows.
        dropout: Of the attention weights.
        scaling: Of the scores; None for one over the root of D.
        sliding_window: Tokens that a token of a causal layer looks back on, itself included.
        **kwargs: What else transformers hands on.

    Returns:
        (B, T, H, D), and no weights.
    """
    if attention_mask is None or not numbers_documents(attention_mask):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    numbers = attention_mask[:, 0, 0]
    attend = functools.partial(
        _attend, causal=bool(module.is_causal), window=sliding_window, dropout=dropout, scaling=scaling
    )
    lengths = _lengths(numbers, query.dtype)
    if lengths is None:
        same = numbers[:, :, None] == numbers[:, None, :]
        return attend(query, key, value, mask=same[:, None]).transpose(1, 2), None
    parts = (tensor.transpose(1, 2).flatten(0, 1).split(lengths) for tensor in (query, key, value))
    out = torch.cat([_attend_alone(attend, *document) for document in zip(*parts, strict=True)])
    return out.view(*numbers.shape, *out.shape[1:]), None


def _lengths(numbers: Tensor, dtype: torch.dtype) -> list[int] | None:
    """Tokens of each document in a batch; None where attending to whole rows is as fast.

    It is on a GPU, which would wait for the host, and in bf16, whose matrix units want large even products. A
    compiled model keeps to fixed shapes.
    """
    if numbers.device.type != "cpu" or dtype == torch.bfloat16 or torch.compiler.is_compiling():
        return None
    lengths = numbers.flatten().unique_consecutive(return_counts=True)[1]
    documents, pairs = int((lengths > 1).sum()), int((lengths**2).sum())
    long, few = numbers.numel() >= LONG * documents, pairs <= FEW * numbers.numel() * numbers.shape[1]
    return lengths.tolist() if long and few else None


def _attend_alone(attend: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """(L, H, D) of one document."""
    if len(query) == 1:  # padding, as good as always: a token that sees itself alone
        return value
    heads = (tensor.transpose(0, 1).unsqueeze(0) for tensor in (query, key, value))
    return attend(*heads)[0].transpose(0, 1)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool,
    window: int | None,
    dropout: float,
    scaling: float | None,
) -> Tensor:
    """(B, H, T, D) of whole rows, limited by a (B, 1, T, T) mask and, if causal, to past and window."""
    length = query.shape[2]
    reach = window or length
    if causal and (mask is not None or length > reach or dropout):
        ones = torch.ones(length, length, dtype=torch.bool, device=query.device)
        visible = ones.tril().triu(1 - reach)
        mask = visible if mask is None else mask & visible
        causal = False
    if dropout == 0 or query.device.type != "cpu":
        return scaled_dot_product_attention(
            query, key, value, mask, dropout_p=dropout, is_causal=causal, scale=scaling
        )
    # torch's own would draw a number for every weight, see pretrain.dropout.
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = torch.matmul(query * scale, key.transpose(-1, -2))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.matmul(drop(scores.softmax(-1), dropout), value)


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
