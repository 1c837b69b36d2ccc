"""Span corruption of whole batches (Raffel et al. 2020, sec. 3.1.4), new at every step.

Of each document 15% of the tokens are left out, in spans of 3 on average. The encoder reads the document with
a sentinel in place of every span, the decoder writes the spans, each behind its sentinel, and one more
sentinel at the end:

    <s> Once upon a <extra_id_0> a little <extra_id_1>. </s>
    <extra_id_0> time there was <extra_id_1> girl <extra_id_2>

Where spans begin is drawn uniformly from all ways to put them between the tokens that stay, with at least one
of those between two spans. (T5's code lets every document begin with a token that stays and end with one that
does not, so that some tokens would never, and others always, be predicted.) ``<s>`` and ``</s>`` always stay.

Shapes: R rows of T tokens, D documents, N tokens of all documents, S spans of all documents; E and T' tokens
of the longest row of the encoder and of the decoder.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from base.text.masking import IGNORE

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
    wanted = np.clip(np.rint(noise / mean_noise_span_length), 1, None).astype(np.int64)
    return np.minimum(wanted, np.minimum(noise, np.asarray(length) - noise + 1)) * (noise > 0)


def corrupted_lengths(length: int, noise_density: float, mean_noise_span_length: float) -> tuple[int, int]:
    """Tokens that encoder and decoder read of a document of ``length`` tokens."""
    noise = int(num_noise_tokens(length, noise_density))
    spans = int(num_noise_spans(length, noise_density, mean_noise_span_length))
    return length - noise + spans, noise + spans + (spans > 0)


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
        self, input_ids: np.ndarray, position_ids: np.ndarray, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Corrupt a batch.

        Args:
            input_ids: (R, T) packed token ids.
            position_ids: (R, T) positions, 0 where a document starts and on padding.
            rng: Source of all randomness; the result is a function of it and the batch.

        Returns:
            ``input_ids`` (R, E) and ``decoder_input_ids`` (R, T') int64; ``document_ids`` and
            ``decoder_document_ids``, the number of each token's document, 0 on padding; ``targets`` (R, T'),
            ``IGNORE`` on padding.
        """
        # An example of two documents, in which two spans and one were drawn; X, Y and Z are sentinels:
        #   number            0   1 2 3 4 5 6 7      8   9 10 11
        #   tokens            <s> a b c d e f </s>   <s> g h </s>
        #   document          0   0 0 0 0 0 0 0      1   1 1 1
        #   may go                0 1 2 3 4 5            6 7             are the numbers among these
        #   lengths 6 2, noise 3 1, spans 2 1; starts 1 5 7, span_lengths 2 1 1: b c, f and h
        #   is_noise          .   . x x . . x .      .   . x .           begins: b, f and h
        #   read              <s> a X   d e Y </s>   <s> g X </s>
        #   target            X b c Y f Z            X h Y               sizes 6 3
        #   written           pad X b c Y f          pad X h
        place = np.flatnonzero((input_ids != self.pad_token_id) | (position_ids > 0))
        tokens, positions = input_ids.ravel()[place].astype(np.int64), position_ids.ravel()[place]
        document = np.cumsum(positions == 0) - 1
        row = place // input_ids.shape[1]
        num_documents = int(document[-1]) + 1

        may_go = self._may_go(tokens, document)
        lengths = np.bincount(document[may_go], minlength=num_documents)
        noise = num_noise_tokens(lengths, self.noise_density)
        spans = num_noise_spans(lengths, self.noise_density, self.mean_noise_span_length)
        assert spans.max() < len(self.sentinel_ids), "the configuration refuses longer documents"
        starts, span_lengths = draw_spans(lengths, noise, spans, rng)

        numbers = np.flatnonzero(may_go)  # of the tokens among which the spans were drawn
        begins = np.zeros(len(tokens), bool)
        begins[numbers[starts]] = True
        is_noise = np.zeros(len(tokens), bool)
        is_noise[numbers[_ranges(starts, span_lengths)]] = True
        sentinels = self.sentinel_ids[_counting(spans)]

        read = np.where(is_noise, -1, tokens)
        read[begins] = sentinels
        reads = ~is_noise | begins
        writes = spans > 0
        sizes = np.where(writes, noise + spans + 1, 0)
        target = self._targets(tokens[is_noise], span_lengths, sentinels, spans, writes)
        owner = np.repeat(np.arange(num_documents), sizes)
        first = np.flatnonzero(_counting(sizes) == 0)
        written = np.roll(target, 1)
        written[first] = self.pad_token_id
        row_of_document = row[np.flatnonzero(positions == 0)]

        encoder = _Rows(row[reads], len(input_ids))
        decoder = _Rows(row_of_document[owner], len(input_ids))
        return {
            "input_ids": encoder.fill(read[reads], self.pad_token_id),
            "document_ids": encoder.fill(document[reads] + 1, 0),
            "decoder_input_ids": decoder.fill(written, self.pad_token_id),
            "decoder_document_ids": decoder.fill(owner + 1, 0),
            "targets": decoder.fill(target, IGNORE),
        }

    def _may_go(self, tokens: np.ndarray, document: np.ndarray) -> np.ndarray:
        """(N,) which tokens may be left out: all but a document's own first ``<s>`` and last ``</s>``."""
        changes = document[1:] != document[:-1]
        first, last = np.r_[True, changes], np.r_[changes, True]
        return ~(first & (tokens == self.bos_token_id)) & ~(last & (tokens == self.eos_token_id))

    def _targets(
        self,
        noise_tokens: np.ndarray,
        span_lengths: np.ndarray,
        sentinels: np.ndarray,
        spans: np.ndarray,
        writes: np.ndarray,
    ) -> np.ndarray:
        """What the decoder writes of all documents: spans behind their sentinels, one sentinel at the end."""
        # In the example of ``__call__``, 0 2 3 noise tokens, 0 1 2 sentinels and 0 0 1 ends stand before the
        # three sentinels, so these are at 0 3 6. The ends, Z and Y, get the places that are left.
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
    lengths: np.ndarray, noise: np.ndarray, spans: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the spans of documents.

    Args:
        lengths: (D,) tokens of each.
        noise: (D,) how many of them are left out.
        spans: (D,) in how many spans; 0 where none is.
        rng: Source of the draws.

    Returns:
        (S,) first token of each span, counted over the tokens of all documents, and (S,) its length. Lengths
        are uniform over all ways to split the noise tokens into so many spans, and so are the places.
    """
    # In the example of ``SpanCorruptor`` the 3 noise tokens of the first document were cut behind the second:
    # before its two spans are 0 and 2 of them, and 1 and 3 tokens that stay (gaps). So they start at 1 and 5.
    owner = np.repeat(np.arange(len(spans)), spans)
    number = _counting(spans)
    cuts = _choose(np.maximum(noise - 1, 0), np.maximum(spans - 1, 0), rng)
    before = np.zeros(len(owner), np.int64)  # noise tokens of the document before a span
    before[number > 0] = cuts + 1
    after = np.where(number == spans[owner] - 1, noise[owner], np.roll(before, -1))
    gaps = _choose(np.where(spans > 0, lengths - noise + 1, 0), spans, rng)
    first = np.cumsum(lengths) - lengths
    return first[owner] + gaps + before, after - before


def _choose(available: np.ndarray, wanted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of each ``range(available)`` draw ``wanted`` different numbers, ascending; one after another."""
    owner = np.repeat(np.arange(len(available)), available)
    order = np.lexsort((rng.random(len(owner), dtype=np.float32), owner))
    number = _counting(available)  # as the owners are ascending, so are they in this order
    return number[np.sort(order[number < wanted[owner]])]


def _counting(sizes: np.ndarray) -> np.ndarray:
    """0, 1, ... ``sizes`` - 1 for each size, one after another."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """``starts`` and the ``lengths`` - 1 numbers behind each, one after another."""
    return np.repeat(starts, lengths) + _counting(lengths)


class _Rows:
    """Puts flat values into rows.

    Args:
        row: Row of each value, ascending.
        num_rows: R.
    """

    def __init__(self, row: np.ndarray, num_rows: int) -> None:
        counts = np.bincount(row, minlength=num_rows)
        self.row, self.column = row, _counting(counts)
        self.shape = (num_rows, max(1, -(-int(counts.max()) // WIDTH_STEP)) * WIDTH_STEP)

    def fill(self, values: np.ndarray, padding: int) -> np.ndarray:
        """(R, widest row) of the values."""
        rows = np.full(self.shape, padding, np.int64)
        rows[self.row, self.column] = values
        return rows
