"""Best-fit packing of documents into rows of equal length.

Padding every TinyStories document to 512 tokens makes 56% of all positions padding; packed, it is below 1%.
A packed row holds whole documents; each starts again at position 0, and attention stays inside it
(see ``pretrain.objective``), so the model sees each document as if it were alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def cut_pieces(lengths: np.ndarray, block_size: int) -> np.ndarray:
    """Cut documents into pieces that fit a row.

    Args:
        lengths: (documents,) tokens of each document, in the order of the flat token array.
        block_size: Tokens of a row.

    Returns:
        (pieces, 2) start in the flat token array, and length.
    """
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
    counts = -(-lengths // block_size)
    owner = np.repeat(np.arange(len(lengths)), counts)
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    offset = (np.arange(len(owner)) - first[owner]) * block_size
    return np.stack([starts[owner] + offset, np.minimum(block_size, lengths[owner] - offset)], axis=1)


def best_fit(lengths: Iterable[int], block_size: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Best-fit decreasing bin packing: the longest piece first, into the fullest row that still has room.

    Args:
        lengths: Tokens of each piece, at most ``block_size``.
        block_size: Tokens of a row.

    Returns:
        Row of each piece, offset of each piece in its row, number of rows.
    """
    lengths = np.asarray(lengths)
    rows, offsets = np.zeros(len(lengths), np.int64), np.zeros(len(lengths), np.int64)
    open_rows: list[list[int]] = [[] for _ in range(block_size + 1)]  # by free tokens
    # Bit s is set where open_rows[s] is not empty: the lowest bit at or above a length is the best fit.
    free_sizes = num_rows = 0
    for piece in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[piece])
        fitting = free_sizes >> length
        if fitting:
            free = length + (fitting & -fitting).bit_length() - 1
            row = open_rows[free].pop()
            if not open_rows[free]:
                free_sizes &= ~(1 << free)
        else:
            free, row = block_size, num_rows
            num_rows += 1
        rows[piece], offsets[piece] = row, block_size - free
        if free > length:
            open_rows[free - length].append(row)
            free_sizes |= 1 << (free - length)
    return rows, offsets, num_rows


def pack(
    tokens: np.ndarray, lengths: np.ndarray, block_size: int, pad_token_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pack documents into rows.

    Args:
        tokens: (total,) token ids of all documents, one after the other.
        lengths: (documents,) tokens of each.
        block_size: Tokens of a row (T).
        pad_token_id: Fills what is left of a row.

    Returns:
        input_ids and position_ids, both (rows, T). Position 0 marks the start of a document piece;
        padding is at position 0 as well, so that every padding token is a document of its own.
    """
    pieces = cut_pieces(lengths, block_size)
    rows, offsets, num_rows = best_fit(pieces[:, 1], block_size)
    input_ids = np.full((num_rows, block_size), pad_token_id, tokens.dtype)
    position_ids = np.zeros((num_rows, block_size), np.uint16 if block_size <= 2**16 else np.uint32)
    counting = np.arange(block_size, dtype=position_ids.dtype)
    for (start, length), row, offset in zip(pieces.tolist(), rows.tolist(), offsets.tolist(), strict=True):
        input_ids[row, offset : offset + length] = tokens[start : start + length]
        position_ids[row, offset : offset + length] = counting[:length]
    return input_ids, position_ids
