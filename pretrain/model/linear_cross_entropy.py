"""Cross-entropy of a linear layer's outputs, without ever holding them all.

The logits of a chunk of rows are made, turned into their gradient in place and multiplied into those of
inputs and weights before the next chunk's are made. So memory does not grow with rows x vocabulary, and the
backward pass only scales (the idea of Liger Kernel, Hsu et al. 2024, arXiv:2410.10989).

Shapes: N rows, D hidden_size, V vocab_size.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from base.text.corruption import IGNORE
from ffn_variants.kernels.basis_linear import add_product
from ffn_variants.kernels.compilation import compiled

CHUNK_NUMBERS = {"cpu": 2**21, "cuda": 2**26}
"""Logits in a chunk: few enough for a processor's cache, enough to fill a GPU."""

ROWS = 64
"""Rows of a chunk are a multiple of this."""

CHUNKS_PER_PRODUCT = {"cpu": 4, "cuda": 2}
"""Chunks whose gradients go into the weights' in one product: each is added to a sum of that size."""


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Sum the cross-entropy of ``hidden @ weight.T + bias`` over all rows.

    Under autocast the matrix products are in its dtype; softmax and sums are in float32 at least.

    Args:
        hidden: (N, D).
        weight: (V, D).
        bias: (V,) or None.
        targets: (N,) class numbers; rows of ``IGNORE`` give no loss and no gradient.

    Returns:
        The sum, in nats.
    """
    dtype = hidden.dtype
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    # Inside an autograd.Function both the mode and needs_input_grad look the same under no_grad as without.
    inputs = (hidden, weight) if bias is None else (hidden, weight, bias)
    needs_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    # To know whether there are such rows, the host would have to wait for a GPU; so one is always told yes. A
    # CPU's targets lie in the host's own memory, where numpy looks at them.
    may_ignore = hidden.device.type != "cpu" or IGNORE in targets.numpy()
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets, dtype, needs_gradient, may_ignore)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        dtype: torch.dtype,
        needs_gradient: bool,
        may_ignore: bool,
    ) -> Tensor:
        """The loss; and its gradients where ``needs_gradient``, from products in ``dtype``."""
        # Why gradients are made here already: the logits of a chunk are there now, and would have to be made
        # again in the backward pass. The loss is a sum, so a later factor on it only scales them.
        exact = torch.promote_types(dtype, torch.float32)
        length = _chunk_length(len(hidden), len(weight), _of_device(CHUNK_NUMBERS, hidden))
        rows = torch.nn.functional.pad(hidden.to(dtype), (0, 0, 0, -len(hidden) % length))
        if may_ignore:
            targets = torch.nn.functional.pad(targets, (0, len(rows) - len(hidden)), value=IGNORE)
            # Whatever stands in such rows, even NaN, which no product with 0 takes away.
            rows = rows.masked_fill((targets == IGNORE).unsqueeze(1), 0)
        factor = weight.to(dtype)
        losses = rows.new_empty(len(rows), dtype=exact) if may_ignore else None
        total = hidden.new_zeros((), dtype=exact)
        grad_rows = torch.empty_like(rows) if needs_gradient else None
        grad_weight = torch.zeros_like(weight, dtype=exact) if needs_gradient else None
        grad_bias = torch.zeros_like(bias, dtype=exact) if needs_gradient and bias is not None else None
        # `span` rows share a buffer of logits, filled chunk by chunk. Each chunk's gradients go into those of
        # the inputs at once, and the whole buffer's into those of the weights by one product: a (V, D) sum is
        # then gone through once in a span and not once in a chunk.
        span = length * (_of_device(CHUNKS_PER_PRODUCT, hidden) if needs_gradient else 1)
        buffer = rows.new_empty(min(span, len(rows)), len(weight))
        for first in range(0, len(rows), span):
            group = slice(first, min(first + span, len(rows)))
            for start in range(first, group.stop, length):
                chunk = slice(start, start + length)
                logits = torch.mm(rows[chunk], factor.t(), out=buffer[start - first :][:length])
                # Without the rows that fill up the last chunk, where targets have no such rows.
                real = logits[: len(targets) - start]
                if losses is not None:
                    _losses_and_gradient(logits, bias, targets[chunk], losses[chunk])
                elif not needs_gradient:
                    total += _loss(real, bias, targets[chunk])
                else:
                    total += _loss_and_gradient(real, bias, targets[chunk])
                    logits[len(real) :] = 0
                if grad_rows is None:
                    continue
                torch.mm(logits, factor, out=grad_rows[chunk])
                if grad_bias is not None:
                    grad_bias += logits.sum(0, dtype=exact)
            if grad_weight is not None:
                add_product(grad_weight, buffer[: group.stop - first].t(), rows[group])
        if losses is not None:
            total = losses.sum()
        grad_hidden = None if grad_rows is None else grad_rows[: len(hidden)]
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.dtypes = [None if tensor is None else tensor.dtype for tensor in (hidden, weight, bias)]
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # type: ignore[bad-override]
        scaled = (
            None if tensor is None else (tensor * grads[0]).to(dtype)
            for tensor, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return (*scaled, None, None, None, None)


def _of_device(numbers: dict[str, int], tensor: Tensor) -> int:
    return numbers.get(tensor.device.type, numbers["cpu"])


def _chunk_length(rows: int, classes: int, numbers: int) -> int:
    """Rows of a chunk. All chunks have as many, a multiple of ROWS, and the last one is filled up.

    A CPU's library makes new kernels for every new size of a product, which takes as long as ten products.
    """
    # 1,000 rows of 10,000 classes on a CPU: 209 rows have 2**21 logits, which makes 5 chunks of 200 rows, and
    # multiples of 64 make that 256. So there are 4 chunks, and 24 rows fill up the last.
    most = max(ROWS, numbers // classes)
    chunks = max(1, math.ceil(rows / most))
    return max(1, math.ceil(rows / chunks / ROWS)) * ROWS


def _exact(logits: Tensor, bias: Tensor | None) -> Tensor:
    """Logits with their bias, in float32 at least."""
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return exact if bias is None else exact + bias


def _loss(logits: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(_exact(logits, bias), targets, reduction="sum")


def _loss_and_gradient(logits: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Replace (N, V) logits without bias by the gradient of their summed cross-entropy; return that sum."""
    # The gradient is the probabilities, less 1 at the target. Its probability p is exp(-loss), so p - 1 is
    # expm1(-loss).
    losses = _losses_and_probabilities(logits, bias, targets)
    # 1 is subtracted before rounding, as nearly nothing is left of a probability near 1.
    logits[torch.arange(len(targets), device=targets.device), targets] = torch.expm1(-losses).to(logits.dtype)
    return losses.sum()


@compiled
def _losses_and_probabilities(logits: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Replace (N, V) logits without bias by probabilities; return the (N,) losses."""
    exact = _exact(logits, bias)
    largest = exact.amax(1, keepdim=True)  # subtracted, so that no exponential overflows
    exponentials = torch.exp(exact - largest)
    sums = exponentials.sum(1, keepdim=True)
    losses = sums.log() + largest - exact.gather(1, targets.unsqueeze(1))
    logits.copy_(exponentials * (1 / sums))
    return losses.squeeze(1)


@compiled
def _losses_and_gradient(logits: Tensor, bias: Tensor | None, targets: Tensor, losses: Tensor) -> None:
    """Replace (N, V) logits without bias by the gradient of their cross-entropy, and write the (N,) losses.

    Both are 0 where the target is ``IGNORE``. The same as above in one function: fewer launches on a GPU, but
    more passes where it is not compiled.
    """
    exact = _exact(logits, bias)
    targets = targets.unsqueeze(1)
    is_predicted = targets != IGNORE
    # Not gather: what reads logits by an index makes Inductor keep a copy of all of them.
    is_target = torch.arange(logits.shape[1], device=logits.device) == targets
    target_logits = torch.where(is_target, exact, 0).sum(1, keepdim=True)
    largest = exact.amax(1, keepdim=True)
    exponentials = torch.exp(exact - largest)
    sums = exponentials.sum(1, keepdim=True)
    loss = sums.log() + largest - target_logits
    gradient = torch.where(is_target, torch.expm1(-loss), exponentials * (1 / sums))
    losses.copy_(torch.where(is_predicted, loss, 0).squeeze(1))
    logits.copy_(torch.where(is_predicted, gradient, 0))
