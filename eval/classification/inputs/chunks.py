"""Encode many sequences in bounded memory: a chunk at a time, each computed again on the way back.

Shapes: S sequences, D hidden_size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from eval.classification.inputs.tokens import Encoded, Resident
from eval.models.transfers import to_device

TOKENS_PER_CHUNK = 8_192
"""What a usual batch has at most, 64 texts of 128 tokens; so that long documents take no more memory."""


def embed_in_chunks(
    encode: Callable[[Encoded | Resident], Tensor],
    pieces: Encoded | Resident,
    tokens_per_chunk: int = TOKENS_PER_CHUNK,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Encode sequences so that no more than one chunk's activations are held at a time.

    With gradients, a chunk keeps its vectors alone and is computed a second time in the backward pass, with
    the same dropout (Chen et al. 2016, arXiv:1604.06174). What fits one chunk is computed once and keeps its
    activations.

    Args:
        encode: From sequences to one vector each.
        pieces: S sequences, one at least.
        tokens_per_chunk: Of the padded sequences of a chunk; a longer sequence is a chunk of its own.
        device: Where ``encode`` computes.

    Returns:
        (S, D) vectors in the order of ``pieces``.
    """
    order = np.argsort(pieces.lengths, kind="stable")  # so that there is little to pad
    chunks = [order[first:stop] for first, stop in _chunks(pieces.lengths[order], tokens_per_chunk)]
    if len(chunks) == 1:
        return encode(pieces)
    # The reentrant form keeps nothing of the first pass; the other keeps what a function of this project's
    # stores in its context. It asks for an input that has a gradient, which the weights are not, and restores
    # the generator of that input's device, from which dropout is drawn.
    start = torch.zeros((), requires_grad=True, device=device)
    vectors = []
    for chunk in chunks:
        if torch.is_grad_enabled():
            vectors.append(checkpoint(_encode_some, encode, pieces, chunk, start, use_reentrant=True))
        else:
            vectors.append(encode(pieces.take(chunk)))
    found = torch.cat(vectors)
    places = to_device(np.argsort(order, kind="stable"), found.device)
    return found.index_select(0, places)


def _encode_some(
    encode: Callable[[Encoded | Resident], Tensor],
    pieces: Encoded | Resident,
    chunk: np.ndarray,
    start: Tensor,
) -> Tensor:
    return encode(pieces.take(chunk))


def _chunks(lengths: np.ndarray, tokens_per_chunk: int) -> list[tuple[int, int]]:
    """Return ranges of ascending lengths, each as long as its longest times its number allows."""
    ranges, first = list[tuple[int, int]](), 0
    for number, length in enumerate(lengths.tolist()):
        if number > first and (number + 1 - first) * length > tokens_per_chunk:
            ranges.append((first, number))
            first = number
    return [*ranges, (first, len(lengths))]
