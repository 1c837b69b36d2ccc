"""What a backbone makes of a batch of texts: one vector a text, or one a token, without computing padding.

A head that reads one token of each text, RoBERTa's first or GPT-Neo's last, needs the last layer's query,
output projection and FFN for that token alone, and no keys and values (``eval.models.memory``). That is
exact: what the last layer would compute for other tokens reaches neither logits nor gradients.

On a CPU the texts of a batch lie one after another in a single row, and attention is limited to each by the
backend ``packed`` of the pretraining; elsewhere every text has a row, padded to the longest.

Shapes: n texts of a batch, L tokens of the longest, (B, T) rows (``layout.py``), D hidden_size, H heads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import GPTNeoModel, PreTrainedConfig, PreTrainedModel, RobertaModel
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.models.t5.modeling_t5 import T5Stack

from base.families import family_of
from eval.classification.config import Pooling
from eval.classification.inputs.layout import Layout, lay_out, padded_inputs
from eval.classification.inputs.tokens import Encoded, Resident
from eval.models.memory import attend_with_one_query
from ffn_variants.models import packed_attention
from ffn_variants.models.attention import GPTNeoBackendAttention
from ffn_variants.models.faster_layers import cast_inputs_once, replace_dropouts


class PackedEncoder(nn.Module):
    """A backbone of a known family, computed as this file says; weights are those of the model, in place.

    Args:
        model: A GPT-Neo or RoBERTa, of which a head is left aside; ``fits`` says whether it is one.
        in_one_row: Whether the texts of a batch share a row; None: on a CPU.
    """

    def __init__(self, model: PreTrainedModel, in_one_row: bool | None = None) -> None:
        super().__init__()
        self.body: Any = model.base_model
        self.in_one_row = model.device.type == "cpu" if in_one_row is None else in_one_row
        model.set_attn_implementation(packed_attention.NAME)
        cast_inputs_once(model)
        replace_dropouts(model)

    @property
    def hidden_size(self) -> int:
        """D."""
        return self.body.config.hidden_size

    def pooled(self, batch: Encoded | Resident, pooling: Pooling = "auto") -> Tensor:
        """Return (n, D): the last layer at one token of each text, or the mean over its tokens.

        ``auto`` is the token that transformers' classifiers read: RoBERTa's first, GPT-Neo's last.
        """
        if pooling == "auto":
            pooling = own_pooling(self.body.config)
        if pooling == "mean":
            return mean(*self.tokens(batch))
        layout = self._lay_out(batch)
        steps = torch.zeros_like(layout.lengths) if pooling == "first" else layout.lengths - 1
        return (_roberta_at if isinstance(self.body, RobertaModel) else _gpt_neo_at)(self.body, layout, steps)

    def tokens(self, batch: Encoded | Resident) -> tuple[Tensor, Tensor]:
        """Return the (n, L, D) last hidden states, and (n, L), true where there is a token."""
        layout = self._lay_out(batch)
        body: Any = self.body
        if isinstance(body, RobertaModel):
            hidden = _roberta_layers(body, layout, body.encoder.layer)
        else:
            hidden = body.ln_f(_gpt_neo_layers(body, layout, body.h))
        return layout.of_texts(hidden.flatten(0, 1)), layout.mask

    def _lay_out(self, batch: Encoded | Resident) -> Layout:
        return lay_out(batch, self.body.config.pad_token_id, self.body.device, self.in_one_row)


class PaddedEncoder(nn.Module):
    """Any other backbone: transformers' own forward pass, with a batch padded to its longest text.

    Args:
        model: Reads padding on the right; of an encoder-decoder the encoder serves.
        whole_mask: Whether T5's encoder gets the mask that transformers would make of (n, L) zeros and ones.
            To see whether there is a zero, it reads the device. None: off the CPU, where attention is SDPA.
    """

    def __init__(self, model: PreTrainedModel, whole_mask: bool | None = None) -> None:
        super().__init__()
        self.body: Any = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
        cast_inputs_once(self.body)
        is_known = isinstance(self.body, T5Stack) and self.body.config._attn_implementation == "sdpa"
        self.whole_mask = is_known and (model.device.type != "cpu" if whole_mask is None else whole_mask)

    @property
    def hidden_size(self) -> int:
        """D."""
        return self.body.config.hidden_size

    def pooled(self, batch: Encoded | Resident, pooling: Pooling = "auto") -> Tensor:
        """Return (n, D). ``auto``: a masked model's first token, a causal one's last, else the mean."""
        hidden, mask = self.tokens(batch)
        if pooling == "auto":
            pooling = own_pooling(self.body.config)
        if pooling == "mean":
            return mean(hidden, mask)
        steps = 0 if pooling == "first" else mask.sum(1) - 1
        return hidden[torch.arange(len(hidden), device=hidden.device), steps]

    def tokens(self, batch: Encoded | Resident) -> tuple[Tensor, Tensor]:
        """Return the (n, L, D) last hidden states, and (n, L), true where there is a token."""
        inputs = padded_inputs(self.body, batch)
        mask = inputs["attention_mask"].bool()
        if self.whole_mask:
            length = mask.shape[1]
            inputs["attention_mask"] = mask[:, None, None].expand(-1, 1, length, -1)
        return self.body(**inputs).last_hidden_state, mask


Encoder = PackedEncoder | PaddedEncoder


def make_encoder(model: PreTrainedModel) -> Encoder:
    """Wrap a backbone in the fastest way that computes it; its weights stay where they are."""
    return PackedEncoder(model) if fits(model) else PaddedEncoder(model)


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
    chosen = layout.at(tokens, steps)
    query = attention.query(chosen) * attention.scaling
    heads = attention.num_attention_heads
    p = attention.dropout.p if attention.training else 0.0
    context, weight = attend_with_one_query(
        query, layout.of_texts(tokens), attention.key, attention.value, heads, layout.mask, p
    )
    context = context + weight * attention.value.bias.unflatten(0, (heads, -1))
    return layer.feed_forward_chunk(layer.attention.output(context.flatten(1), chosen))


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
