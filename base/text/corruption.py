"""Masking and span corruption: what a masked model and an encoder-decoder predict, new at every step.

A row holds documents one after the other, each at position 0 where it begins; what is left of the row is
padding, every token of it at position 0.

Span corruption (Raffel et al. 2020, sec. 3.1.4) leaves out 15% of the tokens of each document, in spans of 3
on average. The encoder reads the document with a sentinel in place of every span, the decoder writes the
spans, each behind its sentinel, and one more sentinel at the end:

    <s> Once upon a <extra_id_0> a little <extra_id_1>. </s>
    <extra_id_0> time there was <extra_id_1> girl <extra_id_2>

The spans of a document are a uniform draw from all ways to place them with a token that stays between any
two. T5's own code begins every document with a token that stays and ends it with one that does not, so that
some tokens are never predicted and others always. ``<s>`` and ``</s>`` always stay.

Shapes: R rows of T tokens, D documents, N tokens of all documents, S spans of all documents; E and T' tokens
of the longest row of the encoder and of the decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Documents(NamedTuple):
    """Documents of (R, T) packed rows in their order; the padding of a row counts as one.

    Attributes:
        starts: (D,) place of the first token in the flattened (R * T).
        lengths: (D,) tokens.
        is_padding: (D,) whether it is padding.
    """

    starts: np.ndarray
    lengths: np.ndarray
    is_padding: np.ndarray


def find_documents(input_ids: np.ndarray, position_ids: np.ndarray, pad_token_id: int) -> Documents:
    """Find the documents of packed rows.

    Args:
        input_ids: (R, T) token ids.
        position_ids: (R, T) positions, 0 where a document starts and on padding.
        pad_token_id: What fills rows.
    """
    places = np.flatnonzero(position_ids == 0)  # few: what follows is about these alone
    is_padding = input_ids.reshape(-1)[places] == pad_token_id
    goes_on = np.zeros(len(places), bool)  # with the padding of the place before
    goes_on[1:] = is_padding[1:] & is_padding[:-1] & (places[1:] % input_ids.shape[1] > 0)
    starts = places[~goes_on]
    return Documents(starts, np.diff(starts, append=input_ids.size), is_padding[~goes_on])


IGNORE = -100
"""Target of a position that is not predicted."""


class Masker:
    """Chooses tokens to predict (Devlin et al. 2019): 80% become ``<mask>``, 10% another token, 10% stay.

    Args:
        vocab_size: Tokens of the vocabulary.
        special_ids: Never chosen, and never drawn as a replacement.
        mask_token_id: The mask.
        mlm_probability: Share of the ordinary tokens that is predicted.
    """

    def __init__(
        self, vocab_size: int, special_ids: list[int], mask_token_id: int, mlm_probability: float
    ) -> None:
        self.is_special = np.zeros(vocab_size, bool)
        self.is_special[special_ids] = True
        self.ordinary_ids = np.flatnonzero(~self.is_special)
        self.mask_token_id = mask_token_id
        self.mlm_probability = mlm_probability

    def __call__(self, input_ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Corrupt a batch.

        Args:
            input_ids: (B, T) token ids.
            rng: Source of all randomness; the result is a function of it and the batch.

        Returns:
            Corrupted ids and targets, (B, T) int64 each; targets are ``IGNORE`` where nothing is predicted.
        """
        corrupted = input_ids.astype(np.int64)
        ids, flat = np.ravel(input_ids), np.ravel(corrupted)
        draws = rng.random(input_ids.shape, dtype=np.float32).ravel()
        probability = np.float32(self.mlm_probability)
        # Few places are below it: whatever is left to decide is decided for those alone.
        places = np.flatnonzero(draws < probability)
        places = places[~self.is_special[ids[places]]]
        # One draw does for both choices: given that it is below p, draw / p is again uniform.
        share = draws[places] / probability
        targets = np.full(input_ids.shape, IGNORE)
        np.ravel(targets)[places] = ids[places]
        flat[places[share < 0.8]] = self.mask_token_id
        replaced = places[(share >= 0.8) & (share < 0.9)]
        flat[replaced] = rng.choice(self.ordinary_ids, len(replaced))
        return corrupted, targets


NUM_SENTINELS = 100
"""As many as T5 has; the longest document that they can mark has one span fewer."""

MEAN_NOISE_SPAN_LENGTH = 3.0
"""Tokens of a span, where no other number is asked for (Raffel et al. 2020, sec. 3.3.4)."""

WIDTH_STEP = 16
"""Rows are padded to a multiple of this many tokens, so that steps differ little in their shapes."""


def num_noise_tokens(length: int | np.ndarray, noise_density: float) -> np.ndarray:
    """Tokens left out of documents of ``length`` tokens: at least one, and never all; none of one token."""
    length = np.asarray(length)
    return np.where(length > 1, np.clip(np.rint(length * noise_density), 1, length - 1), 0).astype(np.int64)


def num_noise_spans(
    length: int | np.ndarray, noise_density: float, mean_noise_span_length: float
) -> np.ndarray:
    """Spans that the noise tokens of documents form, as many as fit with a token between any two."""
    noise = num_noise_tokens(length, noise_density)
    spans = np.clip(np.rint(noise / mean_noise_span_length), 1, None).astype(np.int64)
    return np.minimum(spans, np.minimum(noise, np.asarray(length) - noise + 1)) * (noise > 0)


def corrupted_lengths(length: int, noise_density: float, mean_noise_span_length: float) -> tuple[int, int]:
    """Tokens that encoder and decoder read of a document of ``length`` tokens."""
    noise = int(num_noise_tokens(length, noise_density))
    spans = int(num_noise_spans(length, noise_density, mean_noise_span_length))
    return length - noise + spans, noise + spans + (spans > 0)


def padded_width(num_tokens: int) -> int:
    """Columns of rows whose longest has so many tokens."""
    return max(1, -(-num_tokens // WIDTH_STEP)) * WIDTH_STEP


class _Corruptible(NamedTuple):
    """Documents (D,) of packed rows.

    Attributes:
        row: Row of each.
        sizes: Its tokens.
        first: Place of the first that may be left out, in the flattened rows: all but ``<s>`` and ``</s>``.
        lengths: How many may be left out, one behind the other.
        padding: Places of no document.
    """

    row: np.ndarray
    sizes: np.ndarray
    first: np.ndarray
    lengths: np.ndarray
    padding: np.ndarray


class SpanCorruptor:
    """Cuts spans out of packed documents; each is corrupted as if it were alone.

    Args:
        sentinel_ids: Ids of the sentinels in their order; the first stands for a document's first span.
        bos_token_id: Stays where a document begins with it.
        eos_token_id: Stays where a document ends with it.
        pad_token_id: Fills rows, and is what the decoder reads first of every document, as in T5.
        noise_density: Share of a document's tokens that is left out.
        mean_noise_span_length: Tokens of a span on average.
    """

    def __init__(
        self,
        sentinel_ids: Sequence[int],
        bos_token_id: int,
        eos_token_id: int,
        pad_token_id: int,
        noise_density: float = 0.15,
        mean_noise_span_length: float = 3.0,
    ) -> None:
        self.sentinel_ids = np.array(sentinel_ids)
        self.bos_token_id, self.eos_token_id, self.pad_token_id = bos_token_id, eos_token_id, pad_token_id
        self.noise_density, self.mean_noise_span_length = noise_density, mean_noise_span_length

    def __call__(
        self,
        input_ids: np.ndarray,
        position_ids: np.ndarray,
        rng: np.random.Generator,
        widths: tuple[int, int] = (0, 0),
    ) -> dict[str, np.ndarray]:
        """Corrupt a batch.

        Args:
            input_ids: (R, T) packed token ids.
            position_ids: (R, T) positions, 0 where a document starts and on padding.
            rng: Source of all randomness; the result is a function of it and the batch.
            widths: The least E and T'.

        Returns:
            ``input_ids`` (R, E) and ``decoder_input_ids`` (R, T') int64; ``document_ids`` and
            ``decoder_document_ids``, the number of each token's document, 0 on padding; ``targets`` (R, T'),
            ``IGNORE`` on padding.
        """
        # An example of two documents, in which two spans and one were drawn; X, Y and Z are sentinels:
        #   place             0   1 2 3 4 5 6 7      8   9 10 11
        #   tokens            <s> a b c d e f </s>   <s> g h </s>
        #   may go                a b c d e f            g h           from places 1 9, lengths 6 2
        #   noise 3 1, spans 2 1: b c, f and h         begins 2 6 10, span_lengths 2 1 1
        #   read              <s> a X   d e Y </s>   <s> g X </s>
        #   target            X b c Y f Z            X h Y             sizes 6 3
        #   written           pad X b c Y f          pad X h
        num_rows = len(input_ids)
        ids = input_ids.reshape(-1).astype(np.int64)
        documents = self._documents(input_ids, position_ids)
        noise, spans = self._noise(documents.lengths)
        assert spans.max(initial=0) < len(self.sentinel_ids), "the configuration refuses longer documents"
        begins, span_lengths = draw_spans(documents.lengths, noise, spans, rng, documents.first)
        is_noise = _ranges(begins, span_lengths)
        noise_tokens = ids[is_noise]
        sentinels = self.sentinel_ids[_counting(spans)]

        reads = np.ones(len(ids), bool)
        reads[documents.padding] = False
        reads[is_noise] = False
        reads[begins] = True
        ids[begins] = sentinels
        target = self._targets(noise_tokens, span_lengths, sentinels, spans)
        read_sizes, sizes = documents.sizes - noise + spans, noise + spans + (spans > 0)
        first = np.cumsum(sizes) - sizes
        written = np.roll(target, 1)
        written[first[spans > 0]] = self.pad_token_id

        numbers = np.arange(1, len(spans) + 1)
        encoder = _Rows(documents.row, read_sizes, num_rows, widths[0])
        decoder = _Rows(documents.row, sizes, num_rows, widths[1])
        return {
            "input_ids": encoder.fill(ids[reads], self.pad_token_id),
            "document_ids": encoder.fill(np.repeat(numbers, read_sizes), 0),
            "decoder_input_ids": decoder.fill(written, self.pad_token_id),
            "decoder_document_ids": decoder.fill(np.repeat(numbers, sizes), 0),
            "targets": decoder.fill(target, IGNORE),
        }

    def row_sizes(self, input_ids: np.ndarray, position_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(R,) tokens that encoder and decoder read of each row, which no draw can change."""
        documents = self._documents(input_ids, position_ids)
        noise, spans = self._noise(documents.lengths)
        read_sizes, sizes = documents.sizes - noise + spans, noise + spans + (spans > 0)
        return _sums(documents.row, read_sizes, len(input_ids)), _sums(documents.row, sizes, len(input_ids))

    def _documents(self, input_ids: np.ndarray, position_ids: np.ndarray) -> _Corruptible:
        """The documents of packed rows, and what of each may be left out."""
        starts, lengths, is_padding = find_documents(input_ids, position_ids, self.pad_token_id)
        padding = _ranges(starts[is_padding], lengths[is_padding])
        starts, lengths = starts[~is_padding], lengths[~is_padding]
        ids = input_ids.reshape(-1)
        begun = ids[starts] == self.bos_token_id
        ended = (ids[starts + lengths - 1] == self.eos_token_id) & ~(begun & (lengths == 1))
        row = starts // input_ids.shape[1]
        return _Corruptible(row, lengths, starts + begun, lengths - begun - ended, padding)

    def _noise(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Noise tokens and spans of documents, by their lengths."""
        all_lengths = np.arange(lengths.max(initial=0) + 1)
        noise = num_noise_tokens(all_lengths, self.noise_density)
        spans = num_noise_spans(all_lengths, self.noise_density, self.mean_noise_span_length)
        return noise[lengths], spans[lengths]

    def _targets(
        self, noise_tokens: np.ndarray, span_lengths: np.ndarray, sentinels: np.ndarray, spans: np.ndarray
    ) -> np.ndarray:
        """What the decoder writes of all documents: spans behind their sentinels, one sentinel at the end."""
        # In the example of ``__call__``, 0 2 3 noise tokens, 0 1 2 sentinels and 0 0 1 ends stand before the
        # three sentinels, so these are at 0 3 6. The ends, Z and Y, get the places that are left.
        writes = spans > 0
        owner = np.repeat(np.arange(len(spans)), spans)  # (S,)
        ends_before = np.cumsum(writes)[owner] - 1
        behind = np.cumsum(span_lengths) - span_lengths + np.arange(len(owner)) + ends_before
        target = np.empty(len(noise_tokens) + len(owner) + int(writes.sum()), np.int64)
        is_end = np.ones(len(target), bool)
        target[behind] = sentinels
        is_end[behind] = False
        inside = _ranges(behind + 1, span_lengths)
        target[inside] = noise_tokens
        is_end[inside] = False
        target[is_end] = self.sentinel_ids[spans[writes]]
        return target


def draw_spans(
    lengths: np.ndarray, noise: np.ndarray, spans: np.ndarray, rng: np.random.Generator, first: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the spans of documents.

    Args:
        lengths: (D,) tokens of each.
        noise: (D,) how many of them are left out.
        spans: (D,) in how many spans; 0 where none is.
        rng: Source of the draws.
        first: (D,) place of each document's first token.

    Returns:
        (S,) place of the first token of each span, and (S,) its length. Lengths
        are uniform over all ways to split the noise tokens into so many spans, and so are the places.
    """
    # In the example of ``SpanCorruptor`` the 3 noise tokens of the first document were cut behind the second:
    # before its two spans are 0 and 2 of them, and 1 and 3 tokens that stay (gaps). So they start
    # 1 and 5 places behind the first token that may go.
    owner = np.repeat(np.arange(len(spans)), spans)
    number = _counting(spans)
    cuts = _choose(np.maximum(noise - 1, 0), np.maximum(spans - 1, 0), rng)
    before = np.zeros(len(owner), np.int64)  # noise tokens of the document before a span
    before[number > 0] = cuts + 1
    after = np.where(number == spans[owner] - 1, noise[owner], np.roll(before, -1))
    gaps = _choose(np.where(spans > 0, lengths - noise + 1, 0), spans, rng)
    return first[owner] + gaps + before, after - before


def _choose(available: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw ``counts`` different numbers of each ``range(available)``, ascending, one range after another."""
    # Those with the smallest draws; of equal draws the smaller number. One integer holds the range's own
    # number, the 24 bits of a draw, and the number in the range, so that one sort orders all three.
    draws = rng.random(int(available.sum()), dtype=np.float32)
    place = _small(draws, available, counts)
    first = np.cumsum(available) - available
    owner = np.repeat(np.arange(len(available)), available)[place]
    number_bits = int(available.max(initial=0)).bit_length()
    assert len(available).bit_length() + 24 + number_bits <= 63, "too many documents at once"
    keys = (owner << 24) + (draws[place] * 2**24).astype(np.int64)
    keys = (keys << number_bits) + place - first[owner]
    keys.sort()
    candidates = np.bincount(owner, minlength=len(available))
    smallest = keys[_ranges(np.cumsum(candidates) - candidates, counts)] & ((1 << number_bits) - 1)
    start = np.repeat(first, counts)
    return np.sort(start + smallest) - start


def _small(draws: np.ndarray, available: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Places of each range's smallest draws: ``counts`` and some more, so that few are sorted."""
    share = (counts + 4 * np.sqrt(counts) + 4) / np.maximum(available, 1)
    place = np.flatnonzero(draws < np.repeat(share.astype(np.float32), available))
    candidates = np.diff(np.searchsorted(place, np.cumsum(available)), prepend=0)
    return place if (candidates >= counts).all() else np.arange(len(draws))


def _counting(sizes: np.ndarray) -> np.ndarray:
    """0, 1, ... ``sizes`` - 1 for each size, one after another."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """``starts`` and the ``lengths`` - 1 numbers behind each, one after another."""
    return np.repeat(starts, lengths) + _counting(lengths)


def _sums(row: np.ndarray, sizes: np.ndarray, num_rows: int) -> np.ndarray:
    """(R,) sum of the sizes of each row's documents."""
    return np.bincount(row, sizes, num_rows).astype(np.int64)


class _Rows:
    """Puts flat values into rows.

    Args:
        row: (D,) row of each document, ascending.
        sizes: (D,) values of each.
        num_rows: R.
        width: The least number of columns.
    """

    def __init__(self, row: np.ndarray, sizes: np.ndarray, num_rows: int, width: int) -> None:
        counts = _sums(row, sizes, num_rows)
        columns = np.arange(padded_width(max(width, int(counts.max()))))
        self.is_filled = columns < counts[:, None]

    def fill(self, values: np.ndarray, padding: int) -> np.ndarray:
        """(R, widest row) of the values."""
        rows = np.full(self.is_filled.shape, padding, np.int64)
        rows[self.is_filled] = values
        return rows
