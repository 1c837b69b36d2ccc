"""What a model scores that knows only how frequent tokens are: the first plateau of a training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pretrain.data.prepare import PackedSplit, PreparedData

TOKENS_AT_ONCE = 2**22
"""Tokens counted at a time, so that memory stays small however large the corpus is."""


def word_frequency_loss(data: PreparedData, is_causal: bool) -> float:
    """Cross-entropy of the held-out tokens under the training tokens' frequencies, in nats a target token.

    Frequencies are those of the tokens that training predicts, with one added to every token of the
    vocabulary, so that a token that training lacks has a chance as well. A causal model predicts all but the
    first token of a document. A masked model predicts a random part of the ordinary tokens, whose expected
    loss is that of all of them. An encoder-decoder is taken for a masked model: the sentinels that it also
    writes, a quarter of its targets and easy ones, are left out, so for it this is too high by a few tenths
    of a nat.

    Args:
        data: The packed corpus.
        is_causal: Whether the model predicts every next token; else a random part of the ordinary ones.
    """
    vocab_size = len(data.tokenizer)
    never = () if is_causal else data.tokenizer.all_special_ids
    counts = 1 + _target_counts(data.train, vocab_size, never)
    held_out = _target_counts(data.validation, vocab_size, never)
    log_probabilities = np.log(counts / counts.sum())
    return float(-(held_out * log_probabilities).sum() / max(1, held_out.sum()))


def _target_counts(split: PackedSplit, vocab_size: int, never: Sequence[int]) -> np.ndarray:
    """(V,) how often each token of a split may be a target."""
    counts = np.zeros(vocab_size, np.int64)
    rows = max(1, TOKENS_AT_ONCE // split.input_ids.shape[1])
    for start in range(0, len(split.input_ids), rows):
        part = slice(start, start + rows)
        # Position 0 is the first token of a document or of a part of one, or padding.
        tokens = split.input_ids[part][split.position_ids[part] > 0]
        counts += np.bincount(tokens, minlength=vocab_size)
    counts[list(never)] = 0
    return counts
