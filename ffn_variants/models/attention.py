"""GPT-Neo's attention through transformers' attention interface, so that it runs on other backends too.

The stock class knows two: eager, and flash_attention_2 without the window of its local layers. This one takes
over a stock layer's projections and asks the interface for the rest, with two things that are GPT-Neo's own:
scores are not divided by the root of the head's size, and a local layer sees the last ``window_size`` tokens.

Shapes: B batch, H heads, Q queries, K keys, D size of a head.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt_neo.modeling_gpt_neo import GPTNeoModel, GPTNeoSelfAttention

_ARGUMENTS = tuple(inspect.signature(GPTNeoModel.forward).parameters)[1:]
_CACHE_NAMES = ("past_key_values", "cache")
"""Before transformers 5.24 and since."""


def count_from_first_token(model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
    """Have positions begin at a text's first token where padding stands before it and none are given.

    A hook before the forward pass. The stock model counts the padding too, so that a text's outputs depend on
    what it is batched with; ``generate`` gives positions that begin as these do.

    Args:
        model: A GPT-Neo without a head.
        args: What it is called with, in the order of its signature.
        kwargs: The same, by name.

    Returns:
        Both, with (B, T) ``position_ids``; as they are where there is no (B, K) ``attention_mask``.
    """
    inputs = {**dict(zip(_ARGUMENTS, args, strict=False)), **kwargs}
    mask = inputs.get("attention_mask")
    cache = next((inputs[name] for name in _CACHE_NAMES if inputs.get(name) is not None), None)
    if inputs.get("position_ids") is not None or mask is None or mask.dim() != 2:
        return args, kwargs
    shape = next(
        inputs[name].shape for name in ("input_ids", "inputs_embeds") if inputs.get(name) is not None
    )
    past_length = 0 if cache is None else cache.get_seq_length()
    places = torch.arange(shape[1], device=mask.device) + past_length
    positions = (places - mask.long().argmax(-1, keepdim=True)).clamp(min=0)
    return (), {**inputs, "position_ids": positions}


class GPTNeoBackendAttention(nn.Module):
    """One attention layer, with the weights and their names of the stock layer that it replaces.

    Args:
        stock: The layer as the stock constructor left it.
    """

    def __init__(self, stock: GPTNeoSelfAttention):
        super().__init__()
        self.config = stock.config
        self.layer_id = stock.layer_id
        self.num_heads, self.head_dim = stock.num_heads, stock.head_dim
        self.is_causal = True
        self.scaling = 1.0
        self.sliding_window = stock.config.window_size if stock.attention_type == "local" else None
        self.k_proj, self.v_proj = stock.k_proj, stock.v_proj
        self.q_proj, self.out_proj = stock.q_proj, stock.out_proj
        self.resid_dropout = stock.resid_dropout

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        layer_past: Any = None,
        use_cache: bool = False,
        output_attentions: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        device = hidden_states.device.type
        if torch.is_autocast_enabled(device):  # once, where each projection would
            hidden_states = hidden_states.to(torch.get_autocast_dtype(device))
        heads = (*hidden_states.shape[:-1], self.num_heads, self.head_dim)
        query, key, value = (
            project(hidden_states).view(heads).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        if layer_past is not None:
            key, value = layer_past.update(key, value, self.layer_id)
        backend = self.config._attn_implementation
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(backend, eager_attention)
        out, weights = attend(
            self,
            query,
            key,
            value,
            attention_mask if "flash" in backend else self._visible(query, key, attention_mask),
            dropout=self.config.attention_dropout if self.training else 0.0,
            scaling=self.scaling,
            sliding_window=self.sliding_window,
        )
        out = self.out_proj(out.flatten(2))
        return self.resid_dropout(out), weights

    def _visible(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor | None:
        """Narrow a mask to earlier keys, and to the window of a local layer, as the stock layer does.

        Args:
            query: (B, H, Q, D).
            key: (B, H, K, D).
            mask: (B, 1, Q, K), true or zero where a query may look; None for every key up to the query.
                What says where documents are is left to the backend that it is for. (B, 2, Q, K) are two
                masks that need no more, of global layers and of local ones.

        Returns:
            The mask of this layer, in the same form; None where that says enough.
        """
        if mask is not None and numbers_documents(mask):
            return mask
        if mask is not None and mask.shape[1] == 2:
            return mask[:, 0 if self.sliding_window is None else 1, None]
        keys = torch.arange(key.shape[2], device=key.device)
        distance = keys[key.shape[2] - query.shape[2] :, None] - keys
        visible = distance >= 0
        if self.sliding_window is not None and key.shape[2] > self.sliding_window:
            visible &= distance < self.sliding_window
        elif mask is None:
            return None
        if mask is None:
            return visible[None, None]
        if mask.dtype == torch.bool:
            return mask & visible
        return mask.masked_fill(~visible, torch.finfo(mask.dtype).min)


def numbers_documents(mask: Tensor) -> bool:
    """Whether a mask says in integers where the documents are, rather than who may look at whom."""
    return mask.dtype != torch.bool and not mask.is_floating_point()


def eager_attention(
    module: GPTNeoBackendAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float = 1.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Attend with scores and softmax in float32, as GPT-Neo does.

    Returns:
        (B, Q, H, D) values and (B, H, Q, K) weights.
    """
    scores = torch.matmul(query.float(), key.float().transpose(-1, -2)) * scaling
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    elif attention_mask is not None:
        scores = scores + attention_mask
    weights = nn.functional.dropout(scores.softmax(-1).to(value.dtype), p=dropout)
    return torch.matmul(weights, value).transpose(1, 2), weights
