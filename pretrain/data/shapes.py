"""Room for every batch: sizes that the configuration and the corpus decide, and no step.

A GPU repeats a recorded step only if all its tensors have the shapes they had. How many targets and
documents so many rows have differs from step to step; so batches are filled up to more than they ever need:
with targets of ``IGNORE``, which give no loss and no gradient, and with documents without tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from base.text.corruption import IGNORE, Masker, SpanCorruptor, find_documents, padded_width
from pretrain.data.packing import PackedSplit

CHANCE = 1e-12
"""How likely it is at most that a forward pass needs more room; then it gets the next multiples."""

MULTIPLE = 64
"""Room for targets and documents is a multiple of this many."""

ROWS_AT_A_TIME = 2**13
"""Rows of the corpus that are counted together."""


@dataclass(frozen=True)
class Spread:
    """A number that every row has, or every token, over a whole corpus."""

    mean: float
    variance: float
    most: float

    @classmethod
    def of(cls, counts: np.ndarray) -> Spread:
        return cls(float(counts.mean()), float(counts.var()), float(counts.max()))

    def room(self, count: int) -> int:
        """What so many random ones have together at most, but for ``CHANCE``; never more than is possible.

        Bernstein's inequality, which also holds for draws without replacement (Hoeffding 1963, sec. 6).
        """
        bits = -math.log(CHANCE)
        linear = bits * (self.most - self.mean) / 3
        beyond = linear + math.sqrt(linear**2 + 2 * bits * count * self.variance)
        return multiple(min(math.ceil(count * self.mean + beyond), math.ceil(count * self.most)))


@dataclass(frozen=True)
class Shapes:
    """What batches of a corpus need.

    Attributes:
        documents: Documents of a row, its padding included.
        targets: Predicted tokens of a row; of a masked model, of a token.
        widths: Tokens of the longest row of encoder and decoder; (0, 0) for a model of one stack.
        tokens: Draws that decide the targets of a row: 1, or of a masked model its tokens.
    """

    documents: Spread
    targets: Spread
    widths: tuple[int, int] = (0, 0)
    tokens: int = 1

    def fill(self, arrays: dict[str, np.ndarray], targets: np.ndarray, pad_token_id: int) -> None:
        """Fill up the arrays of a forward pass.

        Args:
            arrays: Of ``to_batch``; ``target_index`` and ``target_ids`` get other arrays, and where there are
                ``position_ids``, ``document_starts`` is added.
            targets: (B, T) of the decoder, ``IGNORE`` where nothing is predicted. Such places are what the
                index is filled up with: so no place is in it twice.
            pad_token_id: What fills rows.
        """
        rows, flat, index = len(targets), targets.reshape(-1), arrays["target_index"]
        room = min(flat.size, max(self.targets.room(rows * self.tokens), multiple(len(index))))
        spare = np.flatnonzero(flat == IGNORE)[: room - len(index)]
        arrays["target_index"] = np.concatenate([index, spare])
        arrays["target_ids"] = flat[arrays["target_index"]]
        if "position_ids" in arrays:
            ids, positions = arrays["input_ids"], arrays["position_ids"]
            starts = find_documents(ids, positions, pad_token_id).starts
            room = max(self.documents.room(rows), multiple(len(starts)))
            arrays["document_starts"] = np.full(room + 1, ids.size, np.int32)
            arrays["document_starts"][: len(starts)] = starts


def multiple(number: int) -> int:
    """The next multiple of ``MULTIPLE``."""
    return -(-number // MULTIPLE) * MULTIPLE


def measure(split: PackedSplit, masker: Masker | SpanCorruptor | None, pad_token_id: int) -> Shapes:
    """Count through the rows of a corpus, once; a second for half a billion tokens."""
    blocks = range(0, len(split.input_ids), ROWS_AT_A_TIME)
    counts = [_count(split, slice(at, at + ROWS_AT_A_TIME), masker, pad_token_id) for at in blocks]
    documents, targets, *sizes = (np.concatenate(each) for each in zip(*counts, strict=True))
    if isinstance(masker, Masker):
        share = masker.mlm_probability
        tokens = Spread(share, share * (1 - share), 1.0)
        return Shapes(Spread.of(documents), tokens, tokens=split.input_ids.shape[1])
    if not sizes:
        return Shapes(Spread.of(documents), Spread.of(targets))
    encoder_width, decoder_width = (padded_width(int(each.max())) for each in sizes)
    return Shapes(Spread.of(documents), Spread.of(targets), (encoder_width, decoder_width))


def _count(
    split: PackedSplit, part: slice, masker: Masker | SpanCorruptor | None, pad_token_id: int
) -> tuple[np.ndarray, ...]:
    """(R,) documents and targets of rows; of an encoder-decoder also tokens that both read."""
    ids, positions = split.input_ids[part], split.position_ids[part]
    if isinstance(masker, SpanCorruptor):
        inputs, targets = masker.row_sizes(ids, positions)
        return np.zeros_like(inputs), targets, inputs, targets
    starts = find_documents(ids, positions, pad_token_id).starts
    documents = np.bincount(starts // ids.shape[1], minlength=len(ids))
    return documents, np.count_nonzero(positions, axis=1)
