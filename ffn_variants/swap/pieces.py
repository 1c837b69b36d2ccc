"""Texts as pieces of tokens, and pieces as batches with the labels of a model's own objective.

Shapes: B pieces of at most T tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from base.errors import UsageError
from base.text.masking import IGNORE, Masker
from base.text.span_corruption import MEAN_NOISE_SPAN_LENGTH, NUM_SENTINELS, SpanCorruptor
from base.text.special_tokens import with_ends
from base.text.tokens import read

HELD_OUT_EVERY = 10
SHORTEST = 8
"""Tokens of a piece; what is left of a document and shorter is not used."""
CORRUPTED = 0.15
"""Share of the tokens that a masked model predicts, and that is cut out for an encoder-decoder."""

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Pieces:
    """Token ids of pieces of text: to fit to, and held out."""

    train: list[np.ndarray]
    held_out: list[np.ndarray]


def cut(
    documents: Iterable[str],
    tokenizer: PreTrainedTokenizerBase,
    block_size: int,
    train_tokens: int,
    held_out_tokens: int,
) -> Pieces:
    """Read documents until there are enough tokens of both kinds, or no more documents."""
    pieces = Pieces([], [])
    left = [train_tokens, held_out_tokens]
    tokenizer = with_ends(tokenizer)
    for number, document in enumerate(documents):
        is_held_out = number % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
        ids = np.array(read(tokenizer, document)["input_ids"])
        for start in range(0, len(ids), block_size):
            piece = ids[start : start + block_size]
            if len(piece) >= SHORTEST and left[is_held_out] > 0:
                (pieces.held_out if is_held_out else pieces.train).append(piece)
                left[is_held_out] -= len(piece)
        if max(left) <= 0:
            break
    return pieces


class Batcher:
    """Makes batches that a model is called with, labels included.

    Args:
        objective: ``causal``, ``masked`` or ``span_corruption``.
        tokenizer: The model's.

    Raises:
        UsageError: If the tokenizer lacks the tokens that the objective needs.
    """

    def __init__(self, objective: str, tokenizer: PreTrainedTokenizerBase) -> None:
        self.pad = 0 if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)
        self.corrupt: Masker | SpanCorruptor | None = None
        if objective == "masked":
            if tokenizer.mask_token_id is None:
                raise UsageError("the model's tokenizer has no mask token, which a masked model needs")
            special = np.unique(tokenizer.all_special_ids).tolist()
            self.corrupt = Masker(len(tokenizer), special, int(tokenizer.mask_token_id), CORRUPTED)
        if objective == "span_corruption":
            names = [f"<extra_id_{number}>" for number in range(NUM_SENTINELS)]
            vocabulary = tokenizer.get_vocab()
            if missing := [name for name in names if name not in vocabulary]:
                raise UsageError(f"the model's tokenizer lacks {missing[0]}, which a T5's gaps need")
            bos, eos = (-1 if n is None else int(n) for n in (tokenizer.bos_token_id, tokenizer.eos_token_id))
            sentinels = [vocabulary[name] for name in names]
            self.corrupt = SpanCorruptor(sentinels, bos, eos, self.pad, CORRUPTED, MEAN_NOISE_SPAN_LENGTH)

    def batches(self, pieces: Sequence[np.ndarray], size: int, seed: int = 0) -> Iterator[Batch]:
        """All pieces in their order; what is hidden of them depends on the seed alone."""
        rng = np.random.default_rng([seed, len(pieces)])
        for start in range(0, len(pieces), size):
            yield self(pieces[start : start + size], rng)

    def __call__(self, pieces: Sequence[np.ndarray], rng: np.random.Generator) -> Batch:
        """Pad pieces on the right, and hide from the model what it is to predict.

        Returns:
            (B, T) ``input_ids``, ``attention_mask`` and ``labels``, ``IGNORE`` where nothing is predicted; of
            an encoder-decoder also ``decoder_input_ids`` and ``decoder_attention_mask``, as long as labels.
        """
        length = max(map(len, pieces))
        ids = np.full((len(pieces), length), self.pad)
        mask = np.arange(length) < np.array([len(piece) for piece in pieces])[:, None]
        ids[mask] = np.concatenate(pieces)
        if isinstance(self.corrupt, SpanCorruptor):
            return _tensors(self._spans(ids, mask, rng))
        labels = np.where(mask, ids, IGNORE)
        if self.corrupt is not None:
            corrupted, targets = self.corrupt(ids, rng)
            ids, labels = np.where(mask, corrupted, ids), np.where(mask, targets, IGNORE)
        return _tensors({"input_ids": ids, "attention_mask": mask, "labels": labels})

    def _spans(self, ids: np.ndarray, mask: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        assert isinstance(self.corrupt, SpanCorruptor)
        spans = self.corrupt(ids, np.where(mask, np.arange(ids.shape[1]), 0), rng)
        return {
            "input_ids": spans["input_ids"],
            "attention_mask": spans["document_ids"] > 0,
            "decoder_input_ids": spans["decoder_input_ids"],
            "decoder_attention_mask": spans["decoder_document_ids"] > 0,
            "labels": spans["targets"],
        }


def _tensors(arrays: dict[str, np.ndarray]) -> Batch:
    return {name: torch.from_numpy(array.astype(np.int64)) for name, array in arrays.items()}
