"""Attention of packed documents, registered with transformers as ``packed``.

Its mask, made once for all layers by ``document_mask``, says where the documents are. On a CPU documents of
about the same length are attended to together, padded to it, so that few scores are computed that no document
needs; GPUs have flash attention where it fits. Any other mask goes to ``sdpa``, of pairs of tokens as well.

Shapes: B batch, H heads, T tokens of a row, N = B T tokens of a batch, D size of a head; M slots for tokens,
n documents of L slots each, C documents of a batch.

With flash attention no score between two documents is computed, and no tensor with a place for every pair of
tokens exists. The kernels are those of torch (FlashAttention-2, Dao 2023); ``torch.nn.attention.varlen``
calls the same ones, without dropout of the weights.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from base.errors import first_line
from ffn_variants.models.attention import numbers_documents
from ffn_variants.models.faster_layers import draw_dropped, product_dtype

NAME = "packed"

STEP = 64
"""Documents are padded to multiples of this many tokens."""

WORTHWHILE = 0.7
"""Share of the pairs of tokens in whole rows up to which those in padded documents are computed instead."""


def document_mask(
    model: PreTrainedModel,
    position_ids: Tensor,
    starts: Tensor | None,
    causal: bool,
    of_whole_rows: bool = False,
) -> Tensor:
    """Say where the documents of a batch are, in the way that attention on its device is fastest with.

    Args:
        model: Whose layers attend.
        position_ids: (B, T) positions, 0 at every start of a document and on padding.
        starts: (C + 1,) int32 of ``flash_attention``; None where nobody listed them.
        causal: Whether tokens see earlier ones only.
        of_whole_rows: Whether a CPU too attends to whole rows: a compiled graph has fixed shapes.

    Returns:
        (1, 1, 1, C + 1) int32 ``starts`` for flash attention. Else on a CPU (B, 1, 1, T) int64 numbers of
        documents, elsewhere what ``sdpa`` adds to scores: (B, 1, T, T), and of a model with windows
        (B, 2, T, T), for layers without and with one.
    """
    config: Any = model.config
    device = position_ids.device
    dtype = product_dtype(model, device)
    head_size = config.hidden_size // config.num_attention_heads
    if starts is not None and takes_flash(device, dtype, head_size):
        return starts[None, None, None]
    numbers = document_numbers(position_ids)
    if device.type == "cpu" and not of_whole_rows:
        return numbers
    return _pairs(numbers[:, 0, 0], dtype, causal, getattr(config, "window_size", None))


def document_numbers(position_ids: Tensor) -> Tensor:
    """Number the documents of a batch.

    Args:
        position_ids: (B, T) positions, 0 at every start of a document and on padding.

    Returns:
        (B, 1, 1, T); no two rows share a number, and padding has a number for every token.
    """
    rows = torch.arange(len(position_ids), device=position_ids.device) * (position_ids.shape[1] + 1)
    return ((position_ids == 0).cumsum(dim=1) + rows[:, None])[:, None, None]


def _pairs(numbers: Tensor, dtype: torch.dtype, causal: bool, window: int | None) -> Tensor:
    """(B, 1 or 2, T, T) of (B, T) numbers: 0 where a token sees another, else as low as a dtype goes."""
    visible = _same_document(numbers)
    if causal:
        places = torch.arange(numbers.shape[1], device=numbers.device)
        distance = places[:, None] - places
        reaches = [numbers.shape[1]] if window is None else [numbers.shape[1], window]
        visible = visible & torch.stack([(distance >= 0) & (distance < reach) for reach in reaches])
    return torch.zeros_like(visible, dtype=dtype).masked_fill_(~visible, torch.finfo(dtype).min)


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend within documents.

    Args:
        module: The layer; ``is_causal`` says whether tokens see later ones.
        query: (B, H, T, D).
        key: (B, H, T, D).
        value: (B, H, T, D).
        attention_mask: Of ``document_mask``, or any that ``sdpa`` knows.
        dropout: Of the attention weights.
        scaling: Of the scores; None for one over the root of D.
        sliding_window: Tokens that a token of a causal layer looks back on, itself included.
        **kwargs: What else transformers hands on.

    Returns:
        (B, T, H, D), and no weights.
    """
    if attention_mask is None or not numbers_documents(attention_mask):
        if attention_mask is not None and query.device.type == "cpu" and torch.compiler.is_compiling():
            return _attend_in_graph(query, key, value, attention_mask, scaling), None
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    how: dict[str, Any] = {"causal": bool(module.is_causal), "window": sliding_window}
    how |= {"dropout": dropout, "scaling": scaling}
    documents = attention_mask[:, 0, 0]
    if documents.dtype == torch.int32:
        return flash_attention(query, key, value, documents[0], **how), None
    attend = functools.partial(_attend, **how)
    return _attend_on_cpu(attend, query, key, value, documents, padding_is_seen=not module.is_causal), None


def _attend_in_graph(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scaling: float | None
) -> Tensor:
    """(B, T, H, D) of whole rows, in operations that Inductor fuses; torch's own is slow in bf16 here."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    weights = (torch.matmul(query * scale, key.mT) + bias).softmax(-1)
    return torch.matmul(weights.to(value.dtype), value).transpose(1, 2)


def _same_document(numbers: Tensor) -> Tensor:
    """(B, 1, T, T) pairs of tokens with the same of (B, T) numbers."""
    return (numbers[:, :, None] == numbers[:, None, :])[:, None]


@torch.compiler.disable  # its shapes are never the same
def _attend_on_cpu(
    attend: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    numbers: Tensor,
    padding_is_seen: bool,
) -> Tensor:
    """(B, T, H, D), by documents where that saves enough."""
    groups = _group(numbers)
    if groups is None:
        return attend(query, key, value, mask=_same_document(numbers)).transpose(1, 2)
    tokens = (tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value))
    padded = [_Move.apply(tensor, groups.token_of_slot, groups.slot_of_token) for tensor in tokens]
    parts = zip(*(tensor.split(groups.sizes) for tensor in padded), groups.lengths, strict=True)
    out = torch.cat([_attend_padded(attend, heads, lengths, padding_is_seen) for *heads, lengths in parts])
    out = _Move.apply(out, groups.slot_of_token, groups.token_of_slot)
    return out.view(*numbers.shape, *out.shape[1:])


@dataclass(frozen=True)
class _Groups:
    """Where the tokens of a batch go when its documents are grouped by padded length.

    Attributes:
        lengths: Of each group the (n,) tokens of its documents.
        sizes: Of each group its slots, n L.
        slot_of_token: (N,).
        token_of_slot: (M,); any token where a slot is padding.
    """

    lengths: list[Tensor]
    sizes: list[int]
    slot_of_token: Tensor
    token_of_slot: Tensor


def _group(numbers: Tensor) -> _Groups | None:
    """Group the documents of a batch, (B, T) numbers; None where attending to whole rows is as fast."""
    # Documents of 3, 70 and 5 tokens: padded to 64, 128 and 64 slots. In the order of these lengths (the
    # first, the third, the second) their first slots are 0, 128 and 64, and their first tokens 0, 3 and 73;
    # the shifts 0, 125 and -9 take each token to its slot. The groups are two documents of 64 slots and one
    # of 128.
    flat = numbers.flatten()
    lengths = flat.unique_consecutive(return_counts=True)[1]
    padded = torch.where(lengths > 1, (lengths + STEP - 1) // STEP * STEP, 1)  # padding is a token by itself
    if (padded**2).sum() > WORTHWHILE * flat.numel() * numbers.shape[1]:
        return None
    order = padded.argsort(stable=True)
    first_slots = torch.empty_like(lengths)
    first_slots[order] = padded[order].cumsum(0) - padded[order]
    shifts = first_slots - (lengths.cumsum(0) - lengths)
    slots = torch.arange(flat.numel()) + shifts.repeat_interleave(lengths)
    tokens = torch.zeros(int(padded.sum()), dtype=torch.long)
    tokens[slots] = torch.arange(flat.numel())
    sizes, counts = padded[order].unique_consecutive(return_counts=True)
    return _Groups(list(lengths[order].split(counts.tolist())), (sizes * counts).tolist(), slots, tokens)


class _Move(torch.autograd.Function):
    """Rows in another order and number, so that tokens get to their slots and back.

    Each row has one target, where its gradient comes from; gradients of padding are dropped or are zero.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        ctx.sources, ctx.targets = sources, targets
        return rows.index_select(0, sources)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None]:  # type: ignore[bad-override]
        (grad,), length = grads, len(ctx.targets)
        if length <= len(grad):
            return grad.index_select(0, ctx.targets), None, None
        return grad.new_zeros(length, *grad.shape[1:]).index_copy_(0, ctx.sources, grad), None, None


def _attend_padded(
    attend: Callable[..., Tensor], tokens: list[Tensor], lengths: Tensor, padding_is_seen: bool
) -> Tensor:
    """(n L, H, D) of n documents in L slots each; tokens do not look ahead at padding in a causal layer."""
    # Two documents of 3 and 5 tokens in 64 slots each: slots 3 to 63 of the first hold any token. A causal
    # layer looks back alone and never sees them from slots 0 to 2; any other has them masked.
    heads = [tensor.unflatten(0, (len(lengths), -1)).transpose(1, 2) for tensor in tokens]
    places = torch.arange(heads[0].shape[2])
    mask = (places < lengths[:, None])[:, None, None] if padding_is_seen else None
    return attend(*heads, mask=mask).transpose(1, 2).flatten(0, 1)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool,
    window: int | None,
    dropout: float,
    scaling: float | None,
) -> Tensor:
    """(B, H, T, D) of whole rows, limited by a (B, 1, T, T) mask and, if causal, to past and window."""
    length = query.shape[2]
    reach = window or length
    if causal and (mask is not None or length > reach or dropout or query.dtype == torch.bfloat16):
        ones = torch.ones(length, length, dtype=torch.bool, device=query.device)
        visible = ones.tril().triu(1 - reach)
        mask = visible if mask is None else mask & visible
        causal = False
    if dropout == 0 and query.dtype != torch.bfloat16:
        return scaled_dot_product_attention(query, key, value, mask, is_causal=causal, scale=scaling)
    # On a CPU torch's own is slow in bf16, and with dropout it draws a number for every weight.
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    bias = None
    if mask is not None:
        bias = torch.zeros(mask.shape, dtype=query.dtype).masked_fill_(~mask, torch.finfo(query.dtype).min)
    return _Attention.apply(query * scale, key, value, bias, dropout)


class _Attention(torch.autograd.Function):
    """softmax(query key^T + bias) value, with dropout of the weights, in few passes over the scores."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: float
    ) -> Tensor:
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
        scores = torch.matmul(query, key.mT)
        if bias is not None:
            scores += bias
        weights = scores.softmax(-1)
        ctx.dropped, ctx.scale = draw_dropped(weights.shape, dropout)
        ctx.save_for_backward(query, key, value, weights)
        return torch.matmul(_kept(weights, ctx.dropped), value).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # type: ignore[bad-override]
        query, key, value, weights = ctx.saved_tensors
        grad = grads[0].contiguous() * ctx.scale
        # The softmax's gradient from its own result: weights * (g - sum(weights * g)), by torch in one pass.
        grad_value = torch.matmul(_kept(weights, ctx.dropped).mT, grad)
        grad_weights = torch.matmul(grad, value.mT)
        if ctx.dropped is not None:
            grad_weights.masked_fill_(ctx.dropped, 0)
        grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
        return torch.matmul(grad_scores, key), torch.matmul(grad_scores.mT, query), grad_value, None, None


def _kept(weights: Tensor, dropped: Tensor | None) -> Tensor:
    return weights if dropped is None else weights.masked_fill(dropped, 0)


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


LARGEST_HEAD = 192
"""Larger heads have a backward pass on some GPUs alone."""


def takes_flash(device: torch.device, dtype: torch.dtype, head_size: int) -> bool:
    """Whether flash attention computes heads of this size and dtype on a device.

    It wants a GPU of compute capability 8.0 (Ampere) or newer on which it is tried once; and
    ``torch.backends.cuda.enable_flash_sdp`` switches it off.
    """
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return False
    return head_size % 8 == 0 and head_size <= LARGEST_HEAD and _has_flash(device) and computes_flash(device)


def _has_flash(device: torch.device) -> bool:
    if torch.version.hip is not None or not torch.backends.cuda.is_flash_attention_available():
        return False
    return torch.backends.cuda.flash_sdp_enabled() and torch.cuda.get_device_capability(device) >= (8, 0)


FAILURES: list[str] = []
"""Why this process attends without flash attention on a GPU that should have it; at most one for each."""


@functools.cache
def computes_flash(device: torch.device) -> bool:
    """Try flash attention of two short documents and its gradients, once; a line tells where it fails."""
    how: dict[str, Any] = {"causal": True, "window": 8, "dropout": 0.0, "scaling": None}
    try:
        with torch.inference_mode(False), torch.enable_grad():
            tokens = torch.zeros(1, 1, 16, 64, dtype=torch.bfloat16, device=device, requires_grad=True)
            starts = torch.tensor([0, 7, 16], dtype=torch.int32, device=device)
            flash_attention(tokens, tokens, tokens, starts, **how).sum().backward()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        FAILURES.append(f"{type(error).__name__}: {first_line(error)}")
        print(f"note: flash attention failed ({FAILURES[-1]}): a mask takes its place", file=sys.stderr)
        return False
    return True


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts: Tensor,
    *,
    causal: bool,
    window: int | None,
    dropout: float,
    scaling: float | None,
) -> Tensor:
    """Attend within documents.

    Args:
        query: (B, H, T, D), as views of the (B, T, H D) that a projection gives; then nothing is copied.
        key: As ``query``.
        value: As ``query``.
        starts: (C + 1,) int32: where in the N tokens each document starts, then N, any number of times.
            Documents lie within a row and leave out no token.
        causal: Whether tokens see earlier ones only.
        window: Tokens that a token of a causal layer looks back on, itself included.
        dropout: Of the weights, drawn from the device's generator.
        scaling: Of the scores; None for one over the root of D.

    Returns:
        (B, T, H, D).
    """
    rows, _, length, _ = query.shape
    tokens = [tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value)]
    reach = window if causal else None
    out = torch.ops.aten._flash_attention_forward(
        *tokens,
        starts,
        starts,
        length,  # of the longest document at most: a number that the device need not be asked for
        length,
        dropout,
        causal and reach is None,
        False,  # no weights for debugging
        scale=scaling,
        window_size_left=-1 if reach is None else reach - 1,  # the token itself is not counted
        window_size_right=0 if causal else -1,
    )[0]
    return out.unflatten(0, (rows, length))
