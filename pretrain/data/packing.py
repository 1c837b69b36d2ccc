"""Best-fit packing of documents into rows of equal length.

Padding every TinyStories document to 512 tokens makes 56% of all positions padding. A packed row holds
several documents; each starts again at position 0, and attention stays inside it
(``pretrain.model.objective``), so the model sees each document as if it were alone.

Whole stories do not fill rows: two of 200 tokens leave 112 of 512 empty, and few are shorter than that. So
the emptiest rows are given up, and their documents are cut to fill what the others leave. A cut costs the
tokens behind it their context, hence only as many rows are given up as ``TARGET_FILL`` asks for, and the
emptiest: they have the fewest tokens to be cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TARGET_FILL = 0.982
"""Share of positions that hold a token; each percent more takes more cuts than the one before."""


@dataclass(frozen=True)
class PackedSplit:
    """Packed rows of one split.

    Attributes:
        input_ids: (rows, T) token ids, memory-mapped.
        position_ids: (rows, T) positions, 0 where a document starts and on padding.
        num_documents: Documents in it.
        num_tokens: Tokens without padding.
    """

    input_ids: np.ndarray
    position_ids: np.ndarray
    num_documents: int
    num_tokens: int


def cut_pieces(lengths: np.ndarray, block_size: int) -> np.ndarray:
    """Cut documents into pieces that fit a row.

    Args:
        lengths: (documents,) tokens of each document, in the order of the flat token array.
        block_size: Tokens of a row.

    Returns:
        (pieces, 2) start in the flat token array, and length.
    """
    # Documents of 5 and 11 tokens in rows of 4 are pieces of 4, 1 and 4, 4, 3: `counts` is 2, 3, `owner` is
    # 0, 0, 1, 1, 1, and `offset`, a piece's place in its document, is 0, 4, 0, 4, 8.
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
    counts = -(-lengths // block_size)
    owner = np.repeat(np.arange(len(lengths)), counts)
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    offset = (np.arange(len(owner)) - first[owner]) * block_size
    return np.stack([starts[owner] + offset, np.minimum(block_size, lengths[owner] - offset)], axis=1)


class OpenRows:
    """Rows that have room, by the number of their free tokens.

    Args:
        block_size: Tokens of a row.
    """

    def __init__(self, block_size: int) -> None:
        self._rows: list[list[int]] = [[] for _ in range(block_size + 1)]
        self._sizes = 0  # bit n is set where a row has n free tokens

    def add(self, row: int, free: int) -> None:
        if free:
            self._rows[free].append(row)
            self._sizes |= 1 << free

    def best_fit(self, length: int) -> int:
        """The fewest free tokens that hold ``length``; 0 where no row does."""
        # Of rows with 3 and 7 free tokens `_sizes` is 0b10001000. For a piece of 4, shifted by 4, it is
        # 0b1000, whose lowest bit is number 3: the fewest free tokens that hold it are 4 + 3.
        fitting = self._sizes >> length
        return length + (fitting & -fitting).bit_length() - 1 if fitting else 0

    def largest(self) -> int:
        """The most free tokens of any row."""
        return self._sizes.bit_length() - 1

    def take(self, free: int) -> int:
        """Remove and return a row with exactly so many free tokens."""
        row = self._rows[free].pop()
        if not self._rows[free]:
            self._sizes &= ~(1 << free)
        return row


def best_fit(lengths: np.ndarray, block_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Best-fit decreasing bin packing: the longest piece first, into the fullest row that still has room.

    Args:
        lengths: (pieces,) tokens of each, at most ``block_size``.
        block_size: Tokens of a row.

    Returns:
        (pieces,) row of each piece, (rows,) tokens in each row.
    """
    rows, filled = np.zeros(len(lengths), np.int64), []
    open_rows = OpenRows(block_size)
    order = np.argsort(-lengths, kind="stable")
    for piece, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        free = open_rows.best_fit(length)
        if free:
            row = open_rows.take(free)
        else:
            free, row = block_size, len(filled)
            filled.append(0)
        rows[piece] = row
        filled[row] += length
        open_rows.add(row, free - length)
    return rows, np.array(filled)


def fill_rows(lengths: np.ndarray, block_size: int) -> np.ndarray:
    """Decide which tokens stand in which row.

    Args:
        lengths: (documents,) tokens of each document, in the order of the flat token array.
        block_size: Tokens of a row.

    Returns:
        (pieces, 3): start in the flat token array, length and row, sorted by row. Each piece is a document or
        a part of one.
    """
    # Documents a, b and c of 6 tokens and rows of 10: no two fit into one row, so that there are three rows,
    # 60% filled. Their 18 tokens fit into 2. The third row is given up, and c is cut to fill the gaps of the
    # others: aaaaaacc.. and bbbbbbcccc.
    pieces = cut_pieces(lengths, block_size)
    rows, filled = best_fit(pieces[:, 1], block_size)
    total = int(filled.sum())
    # As few rows as TARGET_FILL wants, but never fewer than hold all tokens.
    num_wanted = max(-(-total // block_size), int(total / (TARGET_FILL * block_size)))
    fullest_first = np.argsort(-filled, kind="stable")
    place = np.empty(len(filled), np.int64)  # of a row in that order; the first num_wanted are kept
    place[fullest_first] = np.arange(len(filled))
    rows = place[rows]
    stays = rows < num_wanted
    cut = _fill_gaps(pieces[~stays], block_size - filled[fullest_first[:num_wanted]])
    pieces_in_rows = np.concatenate([np.column_stack([pieces[stays], rows[stays]]), cut])
    return pieces_in_rows[np.argsort(pieces_in_rows[:, 2], kind="stable")]


def _fill_gaps(pieces: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """Put pieces into the gaps of rows: whole where one is large enough, else its start into the largest."""
    open_rows = OpenRows(int(gaps.max(initial=0)))
    for row, gap in enumerate(gaps.tolist()):
        open_rows.add(row, gap)
    placed = []
    for start, length in pieces[np.argsort(-pieces[:, 1], kind="stable")].tolist():
        # A gap of just the right size is kept for what fits it; what fits nowhere goes into the largest gap,
        # which cuts it into as few parts as there can be.
        while length:
            free = open_rows.best_fit(length) or open_rows.largest()
            row, used = open_rows.take(free), min(free, length)
            placed.append((start, used, row))
            open_rows.add(row, free - used)
            start, length = start + used, length - used
    return np.array(placed, np.int64).reshape(-1, 3)


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
        input_ids and position_ids, both (rows, T). Position 0 marks the start of a document or of a part of
        one; padding is at position 0 as well, so that every padding token is a document of its own.
    """
    pieces_in_rows = fill_rows(lengths, block_size)
    num_rows = int(pieces_in_rows[-1, 2]) + 1
    input_ids = np.full((num_rows, block_size), pad_token_id, tokens.dtype)
    position_ids = np.zeros((num_rows, block_size), np.uint16 if block_size <= 2**16 else np.uint32)
    counting = np.arange(block_size, dtype=position_ids.dtype)
    # Pieces are sorted by their rows: within a row each starts where the one before ended.
    last, offset = -1, 0
    for start, length, row in pieces_in_rows.tolist():
        offset = offset if row == last else 0
        end = offset + length
        input_ids[row, offset:end] = tokens[start : start + length]
        position_ids[row, offset:end] = counting[:length]
        last, offset = row, end
    return input_ids, position_ids
