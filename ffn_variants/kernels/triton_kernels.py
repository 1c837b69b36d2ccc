"""Features and slopes of B-splines as Triton kernels; ``triton_ops`` calls them.

What they compute, and the notation (G grid_size, K spline_order, I inputs), is that of
``ffn_variants.splines.b_splines``. Each program has one row and a block of its inputs, reads each x once,
computes in float32, and rounds to the dtype of ``out`` what it writes; it writes nothing else.

For example G = 3, K = 1, I = 2, rows = 5: features are (5, 1 + 3 + 1, 2). Program (4, 0) has row 4 and both
inputs, u = (x_40, x_41). It writes SiLU(u) at out + 4 * (5 * 2) + (0, 1), the spline of number 0 two places
further on, where the features of row 4 continue, and so on. The slopes walk the same places: there the
gradient of each feature is read, times the feature's derivative at u, and summed to the gradient of u.

Loops over ``tl.static_range`` are unrolled when a kernel is compiled, so that G and K cost no branch at run
time, and a tuple that grows in one is a set of registers.
"""

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


@triton.jit
def even_features(
    x, x_row, x_column, out, inputs,
    grid_size: tl.constexpr, order: tl.constexpr, low: tl.constexpr, step: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """Write SiLU and the G + K splines on even knots: x (rows, I) to out (rows, 1 + G + K, I), contiguous."""
    row, column, inside = columns(inputs, block)
    u = load(x, x_row, x_column, row, column, inside)
    at = out + row * ((1 + grid_size + order) * inputs) + column
    tl.store(at, u * tl.sigmoid(u), inside)
    for number in tl.static_range(grid_size + order):
        t = (u - (low + (number - order + (order + 1) / 2) * step)) * (1 / step)
        tl.store(at + (number + 1) * inputs, _bump(t, order), inside)


@triton.jit
def even_slopes(
    x, x_row, x_column, grad, out, out_row, out_column, inputs,
    grid_size: tl.constexpr, order: tl.constexpr, low: tl.constexpr, step: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """Write the gradient of x (rows, I) from that of the features (rows, 1 + G + K, I), contiguous."""
    row, column, inside = columns(inputs, block)
    u = load(x, x_row, x_column, row, column, inside)
    at = grad + row * ((1 + grid_size + order) * inputs) + column
    total = tl.load(at, inside, 0.0).to(tl.float32) * _silu_slope(u)
    for number in tl.static_range(grid_size + order):
        t = (u - (low + (number - order + (order + 1) / 2) * step)) * (1 / step)
        along = tl.load(at + (number + 1) * inputs, inside, 0.0).to(tl.float32)
        total += along * (_bump_slope(t, order) * (1 / step))
    tl.store(out + row * out_row + column.to(tl.int64) * out_column, total, inside)


@triton.jit
def _silu_slope(u):
    s = tl.sigmoid(u)
    return s * (1 + u * (1 - s))


@triton.jit
def _bump(t, order: tl.constexpr):
    """The spline of order K at a distance of t steps from its middle (see ``EvenSplines``)."""
    # K = 3: (reach^3 - 4 relu(reach - 1)^3) / 6. The coefficient is 1/6 first, then 1/6 times -4.
    reach = (order + 1) / 2 - tl.abs(t)
    coefficient = 1.0
    for k in tl.static_range(1, order + 1):
        coefficient = coefficient / k
    value = coefficient * _power(relu(reach), order)
    for k in tl.static_range(1, order // 2 + 1):
        coefficient = coefficient * (k - order - 2) / k
        value += coefficient * _power(relu(reach - k), order)
    return value


@triton.jit
def _bump_slope(t, order: tl.constexpr):
    """Its derivative by t; zero at the middle and at its ends, as torch has it for abs and relu."""
    # K = 3: (reach^2 - 4 relu(reach - 1)^2) / 2 by reach, which falls with t on the right of the middle.
    reach = (order + 1) / 2 - tl.abs(t)
    coefficient = 1.0
    for k in tl.static_range(1, order):
        coefficient = coefficient / k
    value = coefficient * _power_of_positive(reach, order - 1)
    for k in tl.static_range(1, order // 2 + 1):
        coefficient = coefficient * (k - order - 2) / k
        value += coefficient * _power_of_positive(reach - k, order - 1)
    return tl.where(t > 0, -value, tl.where(t < 0, value, 0.0))


@triton.jit
def _power(x, exponent: tl.constexpr):
    value = x
    for _ in tl.static_range(exponent - 1):
        value = value * x
    return value


@triton.jit
def _power_of_positive(x, exponent: tl.constexpr):
    """relu(x)^exponent; the power 0 is 1 where x is positive, and else 0."""
    return tl.where(x > 0, 1.0, 0.0) if exponent == 0 else _power(relu(x), exponent)


@triton.jit
def uneven_features(
    x, x_row, x_column, out, knots, inputs, count: tl.constexpr, order: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    """Write SiLU and the splines on ``count`` knots (T, I): x (rows, I) to (rows, T - K, I), contiguous."""
    row, column, inside = columns(inputs, block)
    u = load(x, x_row, x_column, row, column, inside)
    at = out + row * ((count - order) * inputs) + column
    tl.store(at, u * tl.sigmoid(u), inside)
    interval, within = _interval(u, knots + column, inputs, inside, count)
    values = _local_splines(u, knots + column, inputs, inside, interval, count, order)
    for number in tl.static_range(count - 1 - order):
        # The last basis that is not zero has the number of the interval.
        value = tl.where(u != u, u, 0.0)
        for r in tl.static_range(order + 1):
            value = tl.where(within & (interval - order + r == number), values[r], value)
        tl.store(at + (number + 1) * inputs, value, inside)


@triton.jit
def uneven_slopes(
    x, x_row, x_column, grad, out, out_row, out_column, knots, inputs,
    count: tl.constexpr, order: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Write the gradient of x (rows, I) from that of the features (rows, T - K, I), contiguous."""
    row, column, inside = columns(inputs, block)
    u = load(x, x_row, x_column, row, column, inside)
    at = grad + row * ((count - order) * inputs) + column
    total = tl.load(at, inside, 0.0).to(tl.float32) * _silu_slope(u)
    interval, within = _interval(u, knots + column, inputs, inside, count)
    below = _local_splines(u, knots + column, inputs, inside, interval, count, order - 1)
    # K B_{i, K-1} / (t_{i+K} - t_i) of every i; a basis's slope is that of its number less that of the next.
    parts = ()
    for r in tl.static_range(order):
        lower = _knot(knots + column, inputs, inside, interval - order + 1 + r, count)
        right = _knot(knots + column, inputs, inside, interval + 1 + r, count)
        parts = parts + (below[r] * (order / (right - lower)),)  # noqa: RUF005 (Triton knows no other)
    for number in tl.static_range(count - 1 - order):
        slope = tl.zeros_like(u)
        for r in tl.static_range(order):
            slope = tl.where(within & (interval - order + 1 + r == number), slope + parts[r], slope)
            slope = tl.where(within & (interval - order + r == number), slope - parts[r], slope)
        along = tl.load(at + (number + 1) * inputs, inside, 0.0).to(tl.float32)
        total += along * slope
    tl.store(out + row * out_row + column.to(tl.int64) * out_column, total, inside)


@triton.jit
def _knot(knots, inputs, inside, number, count: tl.constexpr):
    """The knot of a number, or the last in its direction: that serves only bases that there are not."""
    number = tl.minimum(tl.maximum(number, 0), count - 1)
    return tl.load(knots + number * inputs, inside, 0.0)


@triton.jit
def _interval(u, knots, inputs, inside, count: tl.constexpr):
    """The j with t_j <= u < t_{j+1}, and whether there is one; where not, as for NaN, some other number."""
    # The number of knots at or below u, less one: of the knots 0, 1, 2, 3 and u = 1.5 it is 1.
    interval = tl.full(u.shape, -1, tl.int32)
    for number in tl.static_range(count):
        interval += (u >= tl.load(knots + number * inputs, inside, 0.0)).to(tl.int32)
    return interval, (interval >= 0) & (interval < count - 1)


@triton.jit
def _local_splines(u, knots, inputs, inside, interval, count: tl.constexpr, order: tl.constexpr):
    """The K + 1 splines that are not zero in interval j, numbers j - K to j (de Boor 1978, chapter X).

    Every division is by the length of an interval that has j within it and so is not zero; coinciding knots
    need no case of their own.
    """
    # Knots 0, 1, 2, 3 and u = 1.5, so j = 1. For k = 1 the one spline of order 0 is shared out between two:
    # its part that falls goes to the spline from 0 to 2, (2 - 1.5) / 1, and the one that rises to that from 1
    # to 3. For k = 2 each of these is shared out in the same way, and so on.
    values = (tl.full(u.shape, 1.0, tl.float32),)
    for k in tl.static_range(1, order + 1):
        saved = tl.zeros_like(u)
        raised = ()
        for r in tl.static_range(k):
            lower = _knot(knots, inputs, inside, interval + 1 - k + r, count)
            right = _knot(knots, inputs, inside, interval + 1 + r, count)
            part = values[r] / (right - lower)
            raised = raised + (saved + (right - u) * part,)  # noqa: RUF005
            saved = (u - lower) * part
        values = raised + (saved,)  # noqa: RUF005
    return values
