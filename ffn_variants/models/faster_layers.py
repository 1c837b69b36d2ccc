"""Parts of stock layers that training exchanges for faster ones.

What autocast on a GPU would do again and again is done once; CPUs keep what they compute, to the bit.

Dropout on a CPU takes torch longer than the matrix products beside it: it draws a number for every value, one
thread at a time. Here one 64-bit number decides four values: each is dropped if its 16 bits, read as an
integer, are below a threshold. The draws come from torch's generator.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.roberta.modeling_roberta import RobertaSelfAttention
from transformers.models.t5.modeling_t5 import T5Attention

BIASED = "biased"
"""The attention of T5 registered with transformers by this file."""


def product_dtype(model: PreTrainedModel, device: torch.device) -> torch.dtype:
    """Return the dtype of what a model's projections give on a device, now."""
    if torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type):
        return torch.get_autocast_dtype(device.type)
    return model.dtype


def cast_inputs_once(model: nn.Module) -> None:
    """Have attention layers cast what they read once, where each projection would; GPT-Neo's does by itself.

    The gradients of the three projections are then added in the dtype of autocast. Llama's rotations are
    applied in it, too, as in a model of that dtype: those in float32 would make queries and keys float32.
    """
    for module in model.modules():
        if isinstance(module, (RobertaSelfAttention, T5Attention)):
            module.register_forward_pre_hook(_cast_inputs, with_kwargs=True)
        elif isinstance(module, LlamaAttention):
            module.register_forward_pre_hook(_cast_rotated, with_kwargs=True)


def _cast_inputs(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    device = args[0].device.type
    if device != "cuda" or not torch.is_autocast_enabled(device):
        return None
    dtype = torch.get_autocast_dtype(device)
    others = {"key_value_states": kwargs.get("key_value_states")}  # of the encoder, which two of three read
    cast = {name: tensor.to(dtype) for name, tensor in others.items() if tensor is not None}
    return (args[0].to(dtype), *args[1:]), kwargs | cast


def _cast_rotated(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    states: Tensor = kwargs["hidden_states"]
    device = states.device.type
    if device != "cuda" or not torch.is_autocast_enabled(device):
        return None
    dtype = torch.get_autocast_dtype(device)
    rotations = tuple(part.to(dtype) for part in kwargs["position_embeddings"])
    return args, kwargs | {"hidden_states": states.to(dtype), "position_embeddings": rotations}


def biased_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """``sdpa`` with T5's position bias, cast to the dtype of the scores before the mask is added.

    Their sum has a number for every head and pair of tokens; in float32 it would be written, copied and cast.

    Args:
        module: The layer.
        query: (B, H, Q, D).
        key: (B, H, K, D).
        value: (B, H, K, D).
        attention_mask: (B, 1, Q, K), or any that ``sdpa`` knows.
        position_bias: (1, H, Q, K) to add to the scores.
        **kwargs: What else transformers hands on.

    Returns:
        (B, Q, H, D), and no weights.
    """
    if position_bias is not None and query.device.type == "cuda":
        position_bias = position_bias.to(query.dtype).contiguous()
    return sdpa_attention_forward(
        module, query, key, value, attention_mask, position_bias=position_bias, **kwargs
    )


AttentionInterface.register(BIASED, biased_attention)
AttentionMaskInterface.register(BIASED, sdpa_mask)


LEVELS = 2**16
"""Values of 16 bits; a probability is rounded to a multiple of 1 / 65,536."""


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each value with probability ``p`` and divide the others by ``1 - p``.

    Args:
        x: Any shape.
        p: Below 1; on a CPU rounded to a multiple of 1 / 65,536, in the division as well.

    Returns:
        As ``x``.
    """
    return _dropout_on_cpu(x, p) if x.device.type == "cpu" else nn.functional.dropout(x, p)


@torch.compiler.disable  # it cannot draw 64 bits at a time
def _dropout_on_cpu(x: Tensor, p: float) -> Tensor:
    return _Dropout.apply(x, p)


def draw_dropped(shape: torch.Size, p: float) -> tuple[Tensor | None, float]:
    """Draw which values of a CPU tensor to drop.

    Args:
        shape: Of the tensor.
        p: Below 1; rounded to a multiple of 1 / 65,536.

    Returns:
        Where to put zeros, or None for nowhere; and what to multiply the other values by.
    """
    threshold = round(p * LEVELS)
    if threshold == 0:
        return None, 1.0
    draws = torch.empty(-(-shape.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: shape.numel()].view(shape)
    return bits < threshold - LEVELS // 2, LEVELS / (LEVELS - threshold)


class Dropout(nn.Dropout):
    """``nn.Dropout`` by the function of this file."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p) if self.training and self.p else input


def replace_dropouts(model: nn.Module) -> None:
    """Exchange every ``nn.Dropout`` inside a model; it has no weights, so nothing else changes."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p).train(child.training))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        ctx.dropped, ctx.scale = draw_dropped(x.shape, p)
        return _drop(x, ctx.dropped, ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:  # type: ignore[bad-override]
        return _drop(grads[0], ctx.dropped, ctx.scale), None


def _drop(x: Tensor, dropped: Tensor | None, scale: float) -> Tensor:
    return x if dropped is None else (x * scale).masked_fill_(dropped, 0)
