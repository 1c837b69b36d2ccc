"""What the Triton kernels of several bases share: their place, reading x, and relu."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def columns(inputs, block: tl.constexpr):
    """The row of this program, its columns, and which of them exist. The row is wide: offsets pass 2^31."""
    column = tl.program_id(1) * block + tl.arange(0, block)
    return tl.program_id(0).to(tl.int64), column, column < inputs


@triton.jit
def load(x, x_row, x_column, row, column, inside):
    """Read x at one row, in float32; its strides are those of torch."""
    return tl.load(x + row * x_row + column.to(tl.int64) * x_column, inside, 0.0).to(tl.float32)


@triton.jit
def relu(x):
    """max(x, 0); NaN stays NaN, as in torch."""
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
