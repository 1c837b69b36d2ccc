"""What a backbone makes of a batch of texts: one vector a text, or one a token, without computing padding.

A head that reads one token of each text, RoBERTa's first or GPT-Neo's last, needs the last layer's query,
output projection and FFN for that token alone, and no keys and values (``eval.memory``). That is exact: what
the last layer would compute for other tokens reaches neither logits nor gradients.

On a CPU the texts of a batch lie one after another in a single row, and attention is limited to each by the
backend ``packed`` of the pretraining; elsewhere every text has a row, padded to the longest. Many sequences
are encoded a chunk at a time, each computed again on the way back, so that memory is bounded.

Shapes: n texts of a batch, L tokens of the longest, (B, T) rows (``Layout``), D hidden_size, H heads, S
sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import GPTNeoModel, PreTrainedConfig, PreTrainedModel, RobertaModel
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from base.families import family_of
from eval.classification.example_tokens import Encoded
from eval.finetuning import Pooling
from eval.memory import all_to_device, attend_with_one_query, to_device
from ffn_variants.models import packed_attention
from ffn_variants.models.attention import GPTNeoBackendAttention
from ffn_variants.models.faster_layers import cast_inputs_once, replace_dropouts


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a batch lie.

    Attributes:
        input_ids: (B, T).
        position_ids: (B, T) from 0 in every text, and 0 on padding.
        starts: (C + 1,) int32 of ``flash_attention``, by which each row's padding is a document.
        lengths: (n,) tokens of each text.
        mask: (n, L), true where there is a token.
        places: (n, L) of each text's tokens in the flattened (B * T), any place behind its end; None where
            every text has a row of its own.
        types: (B, T) which text of a pair a token belongs to; None where nobody said.
    """

    input_ids: Tensor
    position_ids: Tensor
    starts: Tensor
    lengths: Tensor
    mask: Tensor
    places: Tensor | None = None
    types: Tensor | None = None

    def of_texts(self, hidden: Tensor) -> Tensor:
        """From (B * T, D) to (n, L, D), anything behind a text's end."""
        return hidden.view(*self.mask.shape, -1) if self.places is None else hidden[self.places]

    def at(self, hidden: Tensor, steps: Tensor) -> Tensor:
        """From (B * T, D) to (n, D): one token of each text, the (n,) ``steps``-th."""
        if self.places is None:
            count, length = self.mask.shape
            return hidden.index_select(
                0, steps + torch.arange(0, count * length, length, device=steps.device)
            )
        return hidden.index_select(0, self.places.gather(1, steps[:, None])[:, 0])


def lay_out(batch: Encoded, pad_token_id: int, device: torch.device, in_one_row: bool = False) -> Layout:
    """Put a batch into one row, or every text into a row of its own."""
    # Two texts, [5 6 7] and [8]: lengths 3 1, steps 0 1 2, inside is 1 1 1 / 1 0 0. Then
    #                in one row        in rows of their own, 9 the padding
    # input_ids      5 6 7 8           5 6 7 / 8 9 9
    # position_ids   0 1 2 0           0 1 2 / 0 0 0
    # starts         0 3 4             0 3 3 4 6: each row's text, then its padding; the first has none
    # places         0 1 2 / 3 0 0     none: a text's tokens lie where its row does
    lengths = batch.lengths
    steps = np.arange(lengths.max())
    inside = steps < lengths[:, None]
    if in_one_row:
        places = np.where(inside, (np.cumsum(lengths) - lengths)[:, None] + steps, 0)
        ids, positions = batch.tokens[None], np.broadcast_to(steps, inside.shape)[inside][None]
        starts = np.append(np.cumsum(lengths) - lengths, lengths.sum())
        tensors = all_to_device((ids, positions, starts, lengths, places), device)
    else:
        ids = np.full(inside.shape, pad_token_id)
        ids[inside] = batch.tokens
        positions, starts = np.where(inside, steps, 0), _starts_of_rows(lengths)
        tensors = all_to_device((ids, positions, starts, lengths), device)
    ids, positions, starts, lengths, *places = tensors
    mask = torch.arange(len(steps), device=device) < lengths[:, None]
    types = None
    if batch.token_type_ids is not None and not in_one_row:
        padded = np.zeros(inside.shape, dtype=np.int64)
        padded[inside] = batch.token_type_ids
        types = to_device(padded, device)
    return Layout(ids, positions, starts.int(), lengths, mask, places[0] if places else None, types)


def _starts_of_rows(lengths: np.ndarray) -> np.ndarray:
    """(2n + 1,) starts of each row's text and of its padding, and the end."""
    rows = np.arange(len(lengths)) * lengths.max()
    return np.append(np.stack([rows, rows + lengths], axis=1).ravel(), len(lengths) * lengths.max())


def padded_inputs(model: PreTrainedModel, batch: Encoded) -> dict[str, Tensor]:
    """Return what transformers' own forward pass takes of a batch, padded on the right to its longest text.

    ``token_type_ids`` are for a model with an embedding for each of them, as BERT has; without them it takes
    both texts of a pair for the first.

    Args:
        model: Where the batch goes.
        batch: n texts.

    Returns:
        input_ids, attention_mask and, where there are types and the model has a use for them,
        token_type_ids, (n, L) each.
    """
    layout = lay_out(batch, model.config.pad_token_id or 0, model.device)
    inputs = {"input_ids": layout.input_ids, "attention_mask": layout.mask.long()}
    # GPT-2 takes them too, but looks them up among the words. RoBERTa's have a single embedding.
    has_types = (getattr(model.config, "type_vocab_size", None) or 0) > 1
    if layout.types is not None and has_types and "token_type_ids" in signature(model.forward).parameters:
        inputs["token_type_ids"] = layout.types
    return inputs


TOKENS_PER_CHUNK = 8_192
"""What a usual batch has at most, 64 texts of 128 tokens; so that long documents take no more memory."""


def embed_in_chunks(
    encode: Callable[[Encoded], Tensor],
    pieces: Encoded,
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
    # Lengths 9 2 3 with 8 tokens a chunk: the order is 1 2 0, and chunks are 2 and 3 (2 x 3 <= 8), and 9.
    order = np.argsort(pieces.lengths, kind="stable")  # so that there is little to pad
    chunks = [order[first:stop] for first, stop in _chunks(pieces.lengths[order], tokens_per_chunk)]
    if len(chunks) == 1:
        return encode(pieces)
    # The reentrant form keeps nothing of the first pass; the other keeps what a function of this project's
    # stores in its context. It asks for an input that has a gradient, which the weights are not, and restores
    # the generator of that input's device, from which dropout is drawn.
    start = torch.zeros((), requires_grad=True, device=device)
    parts = map(pieces.take, chunks)
    if torch.is_grad_enabled():
        vectors = [
            checkpoint(lambda part, _: encode(part), part, start, use_reentrant=True) for part in parts
        ]
    else:
        vectors = [encode(part) for part in parts]
    ordered = torch.cat(vectors)
    places = to_device(np.argsort(order, kind="stable"), ordered.device)
    return ordered.index_select(0, places)


def _chunks(lengths: np.ndarray, tokens_per_chunk: int) -> list[tuple[int, int]]:
    """Return ranges of ascending lengths, each as long as its longest times its number allows."""
    ranges, first = list[tuple[int, int]](), 0
    for number, length in enumerate(lengths.tolist()):
        if number > first and (number + 1 - first) * length > tokens_per_chunk:
            ranges.append((first, number))
            first = number
    return [*ranges, (first, len(lengths))]


class Encoder(nn.Module):
    """A backbone, ``body``, that makes one vector a text or one a token."""

    body: Any

    def pooled(self, batch: Encoded, pooling: Pooling = "auto") -> Tensor:
        """Return (n, D): the last layer at one token of each text, or the mean over its tokens.

        ``auto`` is as the family says, else a masked model's first token, a causal one's last, and the mean.
        """
        if pooling == "auto":
            pooling = own_pooling(self.body.config)
        return mean(*self.tokens(batch)) if pooling == "mean" else self.at_one_token(batch, pooling)

    def at_one_token(self, batch: Encoded, pooling: Pooling) -> Tensor:
        """Return the (n, D) last hidden states of one token of each text."""
        raise NotImplementedError

    def tokens(self, batch: Encoded) -> tuple[Tensor, Tensor]:
        """Return the (n, L, D) last hidden states, and (n, L), true where there is a token."""
        raise NotImplementedError


class PackedEncoder(Encoder):
    """A backbone of a known family, computed as this file says; weights are those of the model, in place.

    Args:
        model: A GPT-Neo or RoBERTa, of which a head is left aside; ``fits`` says whether it is one.
        in_one_row: Whether the texts of a batch share a row; None: on a CPU.
    """

    def __init__(self, model: PreTrainedModel, in_one_row: bool | None = None) -> None:
        super().__init__()
        self.body = model.base_model
        self.in_one_row = model.device.type == "cpu" if in_one_row is None else in_one_row
        model.set_attn_implementation(packed_attention.NAME)
        cast_inputs_once(model)
        replace_dropouts(model)

    def at_one_token(self, batch: Encoded, pooling: Pooling) -> Tensor:
        """Return (n, D); ``position-0`` is the first token, as padding is on the right."""
        layout = self._lay_out(batch)
        steps = layout.lengths - 1 if pooling == "last" else torch.zeros_like(layout.lengths)
        return (_roberta_at if isinstance(self.body, RobertaModel) else _gpt_neo_at)(self.body, layout, steps)

    def tokens(self, batch: Encoded) -> tuple[Tensor, Tensor]:
        layout = self._lay_out(batch)
        body: Any = self.body
        if isinstance(body, RobertaModel):
            hidden = _roberta_layers(body, layout, body.encoder.layer)
        else:
            hidden = body.ln_f(_gpt_neo_layers(body, layout, body.h))
        return layout.of_texts(hidden.flatten(0, 1)), layout.mask

    def _lay_out(self, batch: Encoded) -> Layout:
        return lay_out(batch, self.body.config.pad_token_id, self.body.device, self.in_one_row)


class PaddedEncoder(Encoder):
    """Any other backbone: transformers' own forward pass, with a batch padded to its longest text.

    Args:
        model: Reads padding on the right; of an encoder-decoder the encoder serves.
        is_whole: Let an encoder-decoder serve as a whole, of which only ``position-0`` reads anything.
    """

    def __init__(self, model: PreTrainedModel, is_whole: bool = False) -> None:
        super().__init__()
        has_encoder = model.config.is_encoder_decoder and not is_whole
        self.body = model.get_encoder() if has_encoder else model.base_model
        cast_inputs_once(self.body)

    def at_one_token(self, batch: Encoded, pooling: Pooling) -> Tensor:
        """Return (n, D).

        ``position-0`` is the first that ``AutoModel`` returns: of BART its decoder's start, of XLNet, which
        is padded on the left, a padding before the text. There every text is padded to ``LEFT_PADDED``
        tokens: what a padding says depends on how far it is from the text.
        """
        if pooling == "position-0":
            inputs = padded_inputs(self.body, batch)
            if self.body.config.model_type in PADDED_ON_THE_LEFT:
                inputs = _on_the_left(inputs, self.body.config.pad_token_id)
            return self.body(**inputs).last_hidden_state[:, 0]
        hidden, mask = self.tokens(batch)
        steps = 0 if pooling == "first" else mask.sum(1) - 1
        return hidden[torch.arange(len(hidden), device=hidden.device), steps]

    def tokens(self, batch: Encoded) -> tuple[Tensor, Tensor]:
        inputs = padded_inputs(self.body, batch)
        return self.body(**inputs).last_hidden_state, inputs["attention_mask"].bool()


PADDED_ON_THE_LEFT = ("xlnet",)
"""Types of models whose tokenizers do so, and end a text in its ``<cls>``."""
LEFT_PADDED = 512


def _on_the_left(inputs: dict[str, Tensor], pad_token_id: int) -> dict[str, Tensor]:
    """Move the padding of (n, L) inputs before the texts, and add some to ``LEFT_PADDED`` columns."""
    missing = max(0, LEFT_PADDED - inputs["input_ids"].shape[1])
    fill = {"input_ids": pad_token_id}
    padded = {name: F.pad(x, (0, missing), value=fill.get(name, 0)) for name, x in inputs.items()}
    # Columns by the mask: padding comes first, and being stable the sort leaves a text's tokens in order.
    order = padded["attention_mask"].argsort(dim=1, stable=True)
    return {name: x.gather(1, order) for name, x in padded.items()}


def make_encoder(model: PreTrainedModel, pooling: Pooling = "auto") -> Encoder:
    """Wrap a backbone in the fastest way that computes a pooling; its weights stay where they are."""
    return PackedEncoder(model) if fits(model) else PaddedEncoder(model, pooling == "position-0")


def fits(model: PreTrainedModel) -> bool:
    """Whether a backbone is one that ``PackedEncoder`` knows; a stock GPT-Neo's attention is not."""
    body = model.base_model
    if isinstance(body, RobertaModel):
        return not body.config.is_decoder
    return isinstance(body, GPTNeoModel) and any(
        isinstance(module, GPTNeoBackendAttention) for module in body.modules()
    )


def own_pooling(config: PreTrainedConfig) -> Pooling:
    """Return what stands for a text where nobody chose: as the family says, else what transformers reads."""
    if family := family_of(config.model_type):
        return family.pooling
    if config.is_encoder_decoder:
        return "mean"
    return "first" if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES else "last"


def mean(vectors: Tensor, mask: Tensor) -> Tensor:
    """Average (n, L, D) vectors over those that a (n, L) mask allows, to (n, D)."""
    weights = mask.unsqueeze(-1).to(vectors.dtype)
    return (vectors * weights).sum(1) / weights.sum(1)


def _roberta_layers(body: Any, layout: Layout, layers: nn.ModuleList) -> Tensor:
    first_position = body.embeddings.padding_idx + 1
    hidden = body.embeddings(layout.input_ids, position_ids=layout.position_ids + first_position)
    mask = packed_attention.document_mask(body, layout.position_ids, layout.starts, causal=False)
    for layer in layers:
        hidden = layer(hidden, mask)
    return hidden


def _gpt_neo_layers(body: Any, layout: Layout, layers: nn.ModuleList) -> Tensor:
    hidden = body.drop(body.wte(layout.input_ids) + body.wpe(layout.position_ids))
    mask = packed_attention.document_mask(body, layout.position_ids, layout.starts, causal=True)
    for layer in layers:
        hidden = layer(hidden, attention_mask=mask)[0]
    return hidden


def _roberta_at(body: Any, layout: Layout, steps: Tensor) -> Tensor:
    """(n, D) last hidden states of one token of each text, the (n,) ``steps``-th."""
    hidden = _roberta_layers(body, layout, body.encoder.layer[:-1])
    layer = body.encoder.layer[-1]
    attention, tokens = layer.attention.self, hidden.flatten(0, 1)
    pooled = layout.at(tokens, steps)
    query = attention.query(pooled) * attention.scaling
    heads = attention.num_attention_heads
    p = attention.dropout.p if attention.training else 0.0
    context, weight = attend_with_one_query(
        query, layout.of_texts(tokens), attention.key, attention.value, heads, layout.mask, p
    )
    context = context + weight * attention.value.bias.unflatten(0, (heads, -1))
    return layer.feed_forward_chunk(layer.attention.output(context.flatten(1), pooled))


def _gpt_neo_at(body: Any, layout: Layout, steps: Tensor) -> Tensor:
    """(n, D) last hidden states of one token of each text, the (n,) ``steps``-th."""
    hidden = _gpt_neo_layers(body, layout, body.h[:-1])
    block = body.h[-1]
    attention, tokens = block.attn.attention, hidden.flatten(0, 1)
    normed = block.ln_1(tokens)
    query = attention.q_proj(layout.at(normed, steps)) * attention.scaling
    places = torch.arange(layout.mask.shape[1], device=tokens.device)
    visible = places <= steps[:, None]
    if attention.sliding_window is not None:
        visible &= places > steps[:, None] - attention.sliding_window
    p = attention.config.attention_dropout if attention.training else 0.0
    context, _ = attend_with_one_query(
        query, layout.of_texts(normed), attention.k_proj, attention.v_proj, attention.num_heads, visible, p
    )
    pooled = layout.at(tokens, steps) + attention.resid_dropout(attention.out_proj(context.flatten(1)))
    return body.ln_f(pooled + block.mlp(block.ln_2(pooled)))
