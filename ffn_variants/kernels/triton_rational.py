"""The gradients of `gr-kan`'s grouped rational functions as one Triton kernel; ``triton_ops`` calls it."""

from __future__ import annotations

import triton
import triton.language as tl

NUMERATOR, DENOMINATOR = tl.constexpr(6), tl.constexpr(4)
"""Coefficients a_0 ... a_5 and b_1 ... b_4."""


@triton.jit
def rational_gradients(
    grad, x, grad_x, sums, numerator, numerator_row, denominator, denominator_row, rows, groups, channels,
    tile_rows: tl.constexpr, tile_channels: tl.constexpr,
):  # fmt: skip
    """Write the gradient of x, and this program's share of those of the coefficients.

    One program has a tile of rows and channels of a group. What is computed is said by ``gr_kan._gradients``.
    grad, x and grad_x are (R, G, C) and contiguous; sums is (10, programs of a group, G). The coefficients
    are (G, 6) and (G, 4), with the strides of their rows.
    """
    group = tl.program_id(1)
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)[:, None]
    channel = tl.program_id(2) * tile_channels + tl.arange(0, tile_channels)[None, :]
    inside = (row < rows) & (channel < channels)
    at = (row.to(tl.int64) * groups + group) * channels + channel
    u = tl.load(x + at, inside, 0.0).to(tl.float32)
    a, b = numerator + group * numerator_row, denominator + group * denominator_row
    value, value_slope = _polynomial(a, u, NUMERATOR)
    rest, rest_slope = _polynomial(b, u, DENOMINATOR)  # of A(x) = x rest
    inverse = 1 / (1 + tl.abs(rest * u))
    of_p = tl.load(grad + at, inside, 0.0).to(tl.float32) * inverse
    sign = tl.where(rest * u > 0, 1.0, tl.where(rest * u < 0, -1.0, 0.0))
    of_inner = -of_p * value * inverse * sign
    tl.store(grad_x + at, of_p * value_slope + of_inner * (rest + u * rest_slope), inside)
    programs = tl.num_programs(0) * tl.num_programs(2)
    total = sums + (tl.program_id(0) * tl.num_programs(2) + tl.program_id(2)).to(tl.int64) * groups + group
    for k in tl.static_range(NUMERATOR):
        tl.store(total + k * programs * groups, tl.sum(of_p))
        of_p *= u
    for k in tl.static_range(DENOMINATOR):
        of_inner *= u
        tl.store(total + (NUMERATOR + k) * programs * groups, tl.sum(of_inner))


@triton.jit
def _polynomial(coefficients, x, count: tl.constexpr):
    """c_0 + c_1 x + ... and its derivative, by Horner's rule."""
    value = tl.load(coefficients + (count - 1)).to(tl.float32) + tl.zeros_like(x)
    slope = tl.zeros_like(x)
    for k in tl.static_range(1, count):
        slope = slope * x + value
        value = value * x + tl.load(coefficients + (count - 1 - k)).to(tl.float32)
    return value, slope
