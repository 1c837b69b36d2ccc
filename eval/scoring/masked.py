"""Pseudo-log-likelihoods by RoBERTa and its kin, without computing what no score needs or copies share.

A text of T tokens is read once for each of its M scored tokens, with that token masked. The copies of a text
differ only in which tokens are masked, and of each copy only the masked token's prediction is needed. So:

- In the first layer a token's query, key and value depend only on whether it is masked. They and the scores
  are computed once for a text and for a mask in each place; a copy picks its own among them. Values go
  through the layer's output projection before they are weighted, when they are few.
- The last layer has one query, that of the masked token. Its keys and values are never made
  (``eval.memory``), and the weights of the bias of the values sum to 1.
- The last layer's attention output and FFN, and the head, see the masked token only.

Shapes: S texts, M copies of each, T tokens, D hidden_size, H heads of size d.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from eval.memory import Budget, attend_with_one_query
from eval.protocol import Masking
from eval.scoring.text_batches import (
    Batch,
    ScoredText,
    Scores,
    TokenTable,
    batches_of_one_length,
    masked_tokens,
)


def shared_masked_scores(
    model: PreTrainedModel, texts: Sequence[ScoredText], mask_token_id: int, budget: Budget, masking: Masking
) -> Scores:
    """Score texts with a masked model built of BERT's modules; ``AttributeError`` for any other.

    Args:
        model: A masked language model.
        texts: What to score.
        mask_token_id: The id that stands for a masked token.
        budget: Of a forward pass, over all copies.
        masking: Which tokens are masked with a scored one.
    """
    encoder = _Encoder(model.base_model, mask_token_id)
    head = model.get_submodule("lm_head" if hasattr(model, "lm_head") else "cls")
    table = TokenTable(len(texts), budget, head)
    for batch in batches_of_one_length(texts, budget, model.device, copies=True, masking=masking):
        for scored in _scored_states(encoder, batch, masking, budget):
            table.put(*scored)
    return table.scores()


def _scored_states(
    encoder: _Encoder, batch: Batch, masking: Masking, budget: Budget
) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
    """Yield the texts, the (R, D) last hidden states and the token ids of scored tokens of a batch."""
    masked = masked_tokens(batch, masking)
    shared = encoder.share(batch.ids)
    num_texts, length = batch.ids.shape
    places = torch.arange(batch.start, batch.end, device=batch.ids.device)
    # The copies of one text may be more than a batch.
    size = budget.texts(length, copies=num_texts)
    for first in range(0, len(places), size):
        scored = places[first : first + size]
        states = encoder.states_at(shared, masked[:, first : first + size], scored)
        yield np.repeat(batch.indices, len(scored)), states, batch.ids[:, scored].flatten()


class _Shared(NamedTuple):
    """What the copies of S texts share: first T rows for the tokens, then T for masks in their places.

    Attributes:
        embedded: (S, 2T, D).
        attention: (S, 2T, H, 2T) scores of the first layer, before the softmax, and (S, H * 2T, D) values
            behind its output projection; None where computing them for every copy costs less.
    """

    embedded: Tensor
    attention: tuple[Tensor, Tensor] | None


class _Encoder:
    """Embeddings and layers of BERT's design.

    Args:
        base_model: The model without its head.
        mask_token_id: The id that stands for a masked token.
    """

    def __init__(self, base_model: Any, mask_token_id: int) -> None:
        self.embeddings = base_model.embeddings
        *self.layers, self.last = base_model.encoder.layer
        self.mask_token_id = mask_token_id

    def share(self, ids: Tensor) -> _Shared:
        """Compute from (S, T) token ids what their copies share."""
        tokens = self.embeddings(input_ids=ids)
        # A mask's embedding depends on nothing but its place.
        masks = self.embeddings(input_ids=torch.full_like(ids[:1], self.mask_token_id))

        def both(of_tokens: Tensor, of_masks: Tensor) -> Tensor:
            return torch.cat((of_tokens, of_masks.expand_as(of_tokens)), 1)

        embedded = both(tokens, masks)
        num_heads = self.last.attention.self.num_attention_heads
        # Multiply-adds of a token: 2T H D below, 4 D^2 + 2T D in a layer for itself.
        if not self.layers or ids.shape[1] * (num_heads - 1) >= 2 * tokens.shape[-1]:
            return _Shared(embedded, None)
        attention = self.layers[0].attention
        query, key, value = (
            both(project(tokens), project(masks)).unflatten(-1, (num_heads, -1))
            for project in (attention.self.query, attention.self.key, attention.self.value)
        )
        scores = torch.einsum("sqhd,skhd->sqhk", query * query.shape[-1] ** -0.5, key)
        output = attention.output.dense.weight.unflatten(-1, (num_heads, -1))
        values = torch.einsum("skhd,ehd->shke", value, output).flatten(1, 2)
        return _Shared(embedded, (scores.contiguous(), values))

    def states_at(self, shared: _Shared, masked: Tensor, scored: Tensor) -> Tensor:
        """Return the (S * M, D) last hidden states of the scored tokens.

        Args:
            shared: What the copies share.
            masked: (S, M, T), which tokens of a copy are masked.
            scored: (M,) the place at which each copy is scored.
        """
        # Row t of a text's 2T is its token t, and row T + t a mask in its place: a copy of three tokens with
        # the second masked is made of the rows 0 4 2. Those of the next text begin 2T later.
        num_texts, _, length = masked.shape
        row = torch.arange(length, device=masked.device) + length * masked
        row += 2 * length * torch.arange(num_texts, device=masked.device)[:, None, None]
        states = shared.embedded.flatten(0, 1)[row.flatten()].view(-1, length, shared.embedded.shape[-1])
        for number, layer in enumerate(self.layers):
            if number == 0 and shared.attention is not None:
                states = _first_layer(layer, *shared.attention, row, masked, states)
            else:
                states = layer(states)
        return _last_layer(self.last, states, scored.repeat(num_texts))


def _first_layer(
    layer: Any, scores: Tensor, values: Tensor, row: Tensor, masked: Tensor, states: Tensor
) -> Tensor:
    """Apply the first layer to (S * M, T, D) embeddings.

    Args:
        layer: The layer.
        scores: (S, 2T, H, 2T), as in ``_Shared``.
        values: (S, H * 2T, D), as in ``_Shared``.
        row: (S, M, T), where each token of a copy is among the S * 2T that were read.
        masked: (S, M, T), which tokens of a copy are masked.
        states: The embeddings.
    """
    # A copy sees each place once, as its token or as a mask: of the 2T keys the other one is absent.
    weights = scores.flatten(0, 1)[row.flatten()].view(*row.shape, *scores.shape[2:])
    absent = torch.cat((masked, ~masked), -1)[:, :, None, None]
    weights = weights.masked_fill_(absent, float("-inf")).softmax(-1)
    attended = weights.flatten(3).flatten(1, 2) @ values
    output = layer.attention.output
    attended = (attended + output.dense.bias).view_as(states)
    return layer.feed_forward_chunk(output.LayerNorm(attended + states))


def _last_layer(layer: Any, states: Tensor, scored: Tensor) -> Tensor:
    """Apply the last layer to (C, T, D) states, for the tokens in the places ``scored`` (C,) only: (C, D)."""
    attention = layer.attention.self
    num_heads = attention.num_attention_heads
    at_mask = states[torch.arange(len(states), device=states.device), scored]
    query = attention.query(at_mask) * attention.attention_head_size**-0.5
    mixed, _ = attend_with_one_query(query, states, attention.key, attention.value, num_heads)
    return layer.feed_forward_chunk(layer.attention.output(mixed.flatten(1) + attention.value.bias, at_mask))
