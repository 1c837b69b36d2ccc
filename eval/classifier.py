"""Logits of a sequence classifier without padding, and with its last layer at the classified token only.

The head reads one token of each example: RoBERTa's the first, GPT-Neo's the last. So the last layer's query,
output projection and FFN are computed for that token alone; and since all keys of an example have one query,
the projections of keys and values move to its side: q (W x) = (q W) x, and the sum of the weighted W x is W
times the sum of the weighted x. Both are exact: what the last layer would compute for other tokens reaches
neither logits nor gradients. A key's bias adds the same to all scores of a query, which softmax does not see,
so it has no part here.

On a CPU the examples of a batch lie one after another in a single row, and attention is limited to each by
the backend ``packed`` of the pretraining; elsewhere every example has a row, padded to the longest.

Shapes: n examples of a batch, L tokens of the longest, (B, T) rows, D hidden_size, H heads, C labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import GPTNeoForSequenceClassification, PreTrainedModel, RobertaForSequenceClassification

from eval.encoding import Encoded
from ffn_variants.attention import GPTNeoBackendAttention
from pretrain import packed_attention
from pretrain.dropout import dropout, replace_dropouts


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a batch lie.

    Attributes:
        input_ids: (B, T).
        position_ids: (B, T) from 0 in every example.
        numbers: (B, 1, 1, T) number of the example of each token, as the backend ``packed`` wants it.
        lengths: (n,) tokens of each example.
        places: (n, L) of each example's tokens in the flattened (B * T); any place behind its end.
    """

    input_ids: Tensor
    position_ids: Tensor
    numbers: Tensor
    lengths: Tensor
    places: Tensor


def lay_out(batch: Encoded, pad_token_id: int, device: torch.device, in_one_row: bool) -> Layout:
    """Put a batch into one row, or every example into a row of its own."""
    lengths = batch.lengths
    steps = np.arange(lengths.max())
    inside = steps < lengths[:, None]
    examples = np.arange(len(lengths))[:, None]
    if in_one_row:
        places = np.where(inside, (np.cumsum(lengths) - lengths)[:, None] + steps, 0)
        ids, positions = batch.tokens[None], np.broadcast_to(steps, inside.shape)[inside][None]
        numbers = np.repeat(examples[:, 0], lengths)[None]
    else:
        places = np.arange(inside.size).reshape(inside.shape)
        ids = np.full(inside.shape, pad_token_id)
        ids[inside] = batch.tokens
        positions = np.where(inside, steps, 0)
        # Padding has a number for every token, and no two rows share one.
        numbers = examples * (len(steps) + 1) + np.where(inside, 0, steps + 1)
    tensors = (ids, positions, numbers[:, None, None], lengths, places)
    return Layout(*(torch.from_numpy(array.astype(np.int64)).to(device) for array in tensors))


class PackedClassifier(nn.Module):
    """A classifier of a known family, computed as this file says; weights are those of the model, in place.

    Args:
        model: GPT-Neo or RoBERTa with transformers' classification head; ``fits`` says whether it is one.
        in_one_row: Whether the examples of a batch share a row; None: on a CPU.
    """

    def __init__(self, model: PreTrainedModel, in_one_row: bool | None = None) -> None:
        super().__init__()
        self.model = model
        self.in_one_row = model.device.type == "cpu" if in_one_row is None else in_one_row
        model.set_attn_implementation(packed_attention.NAME)
        replace_dropouts(model)

    def forward(self, batch: Encoded) -> Tensor:
        """Return the (n, C) logits of a batch."""
        layout = lay_out(batch, self.model.config.pad_token_id, self.model.device, self.in_one_row)
        if isinstance(self.model, RobertaForSequenceClassification):
            return _roberta_logits(self.model, layout)
        assert isinstance(self.model, GPTNeoForSequenceClassification)
        return _gpt_neo_logits(self.model, layout)


class PaddedClassifier(nn.Module):
    """Any other classifier: transformers' own forward pass, with a batch padded to its longest example.

    Args:
        model: A sequence classifier that reads padding on the right.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Encoded) -> Tensor:
        """Return the (n, C) logits of a batch."""
        layout = lay_out(batch, self.model.config.pad_token_id, self.model.device, in_one_row=False)
        steps = torch.arange(layout.places.shape[1], device=self.model.device)
        mask = (steps < layout.lengths[:, None]).long()
        return self.model(input_ids=layout.input_ids, attention_mask=mask).logits


def make_classifier(model: PreTrainedModel) -> PackedClassifier | PaddedClassifier:
    """Wrap a model in the fastest way that computes its logits; its weights stay where they are."""
    return PackedClassifier(model) if fits(model) else PaddedClassifier(model)


def fits(model: PreTrainedModel) -> bool:
    """Whether a model is one that ``PackedClassifier`` knows; a stock GPT-Neo's attention is not."""
    if isinstance(model, RobertaForSequenceClassification):
        return not model.config.is_decoder
    return isinstance(model, GPTNeoForSequenceClassification) and any(
        isinstance(module, GPTNeoBackendAttention) for module in model.modules()
    )


def _roberta_logits(model: RobertaForSequenceClassification, layout: Layout) -> Tensor:
    body: Any = model.roberta
    first_position = body.embeddings.padding_idx + 1
    hidden = body.embeddings(layout.input_ids, position_ids=layout.position_ids + first_position)
    for layer in body.encoder.layer[:-1]:
        hidden = layer(hidden, layout.numbers)
    layer = body.encoder.layer[-1]
    attention, tokens = layer.attention.self, hidden.flatten(0, 1)
    pooled = tokens.index_select(0, layout.places[:, 0])
    query = attention.query(pooled) * attention.scaling
    heads = attention.num_attention_heads
    visible = torch.arange(layout.places.shape[1], device=tokens.device) < layout.lengths[:, None]
    p = attention.dropout.p if attention.training else 0.0
    context = _attend_once(query, tokens, layout.places, visible, attention.key, attention.value, heads, p)
    pooled = layer.feed_forward_chunk(layer.attention.output(context, pooled))
    return model.classifier(pooled[:, None])


def _gpt_neo_logits(model: GPTNeoForSequenceClassification, layout: Layout) -> Tensor:
    body: Any = model.transformer
    hidden = body.drop(body.wte(layout.input_ids) + body.wpe(layout.position_ids))
    for block in body.h[:-1]:
        hidden = block(hidden, attention_mask=layout.numbers)[0]
    block = body.h[-1]
    attention, tokens = block.attn.attention, hidden.flatten(0, 1)
    last = layout.places.gather(1, layout.lengths[:, None] - 1)[:, 0]
    normed = block.ln_1(tokens)
    query = attention.q_proj(normed.index_select(0, last)) * attention.scaling
    places = torch.arange(layout.places.shape[1], device=tokens.device)
    visible = places < layout.lengths[:, None]
    if attention.sliding_window is not None:
        visible &= places >= layout.lengths[:, None] - attention.sliding_window
    p = attention.config.attention_dropout if attention.training else 0.0
    context = _attend_once(
        query, normed, layout.places, visible, attention.k_proj, attention.v_proj, attention.num_heads, p
    )
    pooled = tokens.index_select(0, last) + attention.resid_dropout(attention.out_proj(context))
    pooled = pooled + block.mlp(block.ln_2(pooled))
    return model.score(body.ln_f(pooled))


def _attend_once(
    query: Tensor,
    tokens: Tensor,
    places: Tensor,
    visible: Tensor,
    key: nn.Linear,
    value: nn.Linear,
    num_heads: int,
    p: float,
) -> Tensor:
    """(n, D) context of one query an example.

    Args:
        query: (n, D), scaled.
        tokens: (B * T, D) inputs of keys and values.
        places: (n, L) as in ``Layout``.
        visible: (n, L), which of them the query may look at.
        key: The projection to keys.
        value: The projection to values.
        num_heads: H.
        p: Dropout of the attention weights.
    """
    padded = tokens[places]
    query = query.unflatten(1, (num_heads, -1))
    absorbed = torch.einsum("nhd,hde->nhe", query, key.weight.unflatten(0, (num_heads, -1)))
    scores = torch.matmul(absorbed, padded.mT)
    scores = scores.masked_fill(~visible[:, None], torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    if p:
        weights = dropout(weights, p)
    mixed = torch.matmul(weights, padded)
    context = torch.einsum("nhe,hde->nhd", mixed, value.weight.unflatten(0, (num_heads, -1)))
    if value.bias is not None:
        context = context + weights.sum(-1, keepdim=True) * value.bias.unflatten(0, (num_heads, -1))
    return context.flatten(1)
