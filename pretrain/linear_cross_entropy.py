"""Cross-entropy of a linear layer's outputs, without ever holding them all.

The logits of a chunk of rows are made, turned into their gradient in place and multiplied into those of
inputs and weights before the next chunk's are made. So memory does not grow with rows x vocabulary, and the
backward pass only scales (the idea of Liger Kernel, Hsu et al. 2024, arXiv:2410.10989).

Shapes: N rows, D hidden_size, V vocab_size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ffn_variants.basis_linear import add_product
from ffn_variants.compilation import compiled

CHUNK_NUMBERS = {"cpu": 2**21, "cuda": 2**27}
"""Logits in a chunk: few enough for a processor's cache, enough to fill a GPU."""


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Sum the cross-entropy of ``hidden @ weight.T + bias`` over all rows.

    Under autocast the matrix products are in its dtype; softmax and sums are in float32 at least.

    Args:
        hidden: (N, D).
        weight: (V, D).
        bias: (V,) or None.
        targets: (N,) class numbers.

    Returns:
        The sum, in nats.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    # Inside an autograd.Function both the mode and needs_input_grad look the same under no_grad as without.
    inputs = (hidden, weight) if bias is None else (hidden, weight, bias)
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets, wanted)  # type: ignore[return-value]


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, wanted: bool
    ) -> Tensor:
        exact = torch.promote_types(hidden.dtype, torch.float32)
        total = hidden.new_zeros((), dtype=exact)
        grad_hidden = torch.empty_like(hidden) if wanted else None
        grad_weight = torch.zeros_like(weight, dtype=exact) if wanted else None
        grad_bias = torch.zeros_like(bias, dtype=exact) if wanted and bias is not None else None
        numbers = CHUNK_NUMBERS.get(hidden.device.type, CHUNK_NUMBERS["cpu"])
        rows = max(1, numbers // len(weight))
        for start in range(0, len(hidden), rows):
            chunk = slice(start, start + rows)
            logits = torch.mm(hidden[chunk], weight.t()).to(exact)
            if bias is not None:
                logits += bias
            if grad_hidden is None or grad_weight is None:
                total += torch.nn.functional.cross_entropy(logits, targets[chunk], reduction="sum")
                continue
            total += _loss_and_gradient(logits, targets[chunk])
            grad = logits.to(hidden.dtype)
            torch.mm(grad, weight, out=grad_hidden[chunk])
            add_product(grad_weight, grad.t(), hidden[chunk])
            if grad_bias is not None:
                grad_bias += logits.sum(0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.dtypes = (weight.dtype, None if bias is None else bias.dtype)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # type: ignore[bad-override]
        hidden, weight, bias = ctx.saved_tensors
        scale = grads[0]
        weight_dtype, bias_dtype = ctx.dtypes
        return (
            (hidden * scale).to(hidden.dtype),
            (weight * scale).to(weight_dtype),
            None if bias is None else (bias * scale).to(bias_dtype),
            None,
            None,
        )


@compiled
def _loss_and_gradient(logits: Tensor, targets: Tensor) -> Tensor:
    """Replace (N, V) logits by the gradient of their summed cross-entropy, and return that sum."""
    largest = logits.amax(1, keepdim=True)
    exponentials = torch.exp(logits - largest)
    sums = exponentials.sum(1, keepdim=True)
    chosen = logits.gather(1, targets.unsqueeze(1))
    loss = (sums.log() + largest - chosen).sum()
    classes = torch.arange(logits.shape[1], device=logits.device)
    logits.copy_(exponentials / sums - (classes == targets.unsqueeze(1)).to(logits.dtype))
    return loss
