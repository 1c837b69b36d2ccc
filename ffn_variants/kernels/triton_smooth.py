"""Features and slopes of the Fourier, Chebyshev and Gaussian bases as Triton kernels.

As in ``triton_splines``. What is computed is said by the bases of `fourier-kan`, `cheby-kan` and `rbf-kan`.
I inputs.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ffn_variants.kernels.triton_common import columns, load


@triton.jit
def fourier_features(
    x, x_row, x_column, out, inputs, grid_size: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    """Write cos(x) ... cos(Gx), sin(x) ... sin(Gx): x (rows, I) to out (rows, 2 G, I), contiguous."""
    row, column, inside = columns(inputs, block)
    u = load(x, x_row, x_column, row, column, inside)
    at = out + row * (2 * grid_size * inputs) + column
    first_cosine, first_sine = tl.cos(u), tl.sin(u)
    cosine, sine = first_cosine, first_sine
    for number in tl.static_range(grid_size):
        tl.store(at + number * inputs, cosine, inside)
        tl.store(at + (grid_size + number) * inputs, sine, inside)
        cosine, sine = _turned(cosine, sine, first_cosine, first_sine)


@triton.jit
def fourier_slopes(
    x, x_row, x_column, grad, out, out_row, out_column, inputs,
    grid_size: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Write the gradient of x (rows, I) from that of the features (rows, 2 G, I), contiguous."""
    row, column, inside = columns(inputs, block)
    u = load(x, x_row, x_column, row, column, inside)
    at = grad + row * (2 * grid_size * inputs) + column
    first_cosine, first_sine = tl.cos(u), tl.sin(u)
    cosine, sine = first_cosine, first_sine
    total = tl.zeros_like(u)
    for number in tl.static_range(grid_size):
        along_cosine = tl.load(at + number * inputs, inside, 0.0).to(tl.float32)
        along_sine = tl.load(at + (grid_size + number) * inputs, inside, 0.0).to(tl.float32)
        total += (number + 1) * (along_sine * cosine - along_cosine * sine)
        cosine, sine = _turned(cosine, sine, first_cosine, first_sine)
    tl.store(out + row * out_row + column.to(tl.int64) * out_column, total, inside)


@triton.jit
def _turned(cosine, sine, first_cosine, first_sine):
    """Cosine and sine of the sum of two angles."""
    return cosine * first_cosine - sine * first_sine, sine * first_cosine + cosine * first_sine


@triton.jit
def chebyshev_features(
    x, x_row, x_column, out, inputs, degree: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    """Write T_0(tanh x) ... T_n(tanh x): x (rows, I) to out (rows, n + 1, I), contiguous."""
    row, column, inside = columns(inputs, block)
    u = _tanh(load(x, x_row, x_column, row, column, inside))
    at = out + row * ((degree + 1) * inputs) + column
    tl.store(at, tl.full(u.shape, 1.0, tl.float32), inside)
    last, value = tl.full(u.shape, 1.0, tl.float32), u
    for number in tl.static_range(1, degree + 1):
        tl.store(at + number * inputs, value, inside)
        last, value = value, 2 * u * value - last


@triton.jit
def chebyshev_slopes(
    x, x_row, x_column, grad, out, out_row, out_column, inputs,
    degree: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Write the gradient of x (rows, I) from that of the features (rows, n + 1, I), contiguous.

    T_n' = n U_{n-1}, with the same recurrence, U_0 = 1 and U_1 = 2 u.
    """
    row, column, inside = columns(inputs, block)
    u = _tanh(load(x, x_row, x_column, row, column, inside))
    at = grad + row * ((degree + 1) * inputs) + column
    total = tl.zeros_like(u)
    last, value = tl.zeros_like(u), tl.full(u.shape, 1.0, tl.float32)
    for number in tl.static_range(1, degree + 1):
        total += tl.load(at + number * inputs, inside, 0.0).to(tl.float32) * (number * value)
        last, value = value, 2 * u * value - last
    tl.store(out + row * out_row + column.to(tl.int64) * out_column, total * (1 - u * u), inside)


@triton.jit
def _tanh(x):
    """By one exponential; near zero, where that would cancel, by the Taylor series, exact to 1e-8 of x."""
    e = tl.exp(-2 * tl.abs(x))
    far = (1 - e) / (1 + e)
    s = x * x
    near = x * (1 + s * (-1 / 3 + s * (2 / 15 + s * (-17 / 315 + s * (62 / 2835)))))
    return tl.where(tl.abs(x) < 0.25, near, tl.where(x < 0, -far, far))


@triton.jit
def gaussian_features(
    x, x_row, x_column, out, inputs,
    grid_size: tl.constexpr, low: tl.constexpr, step: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Write exp(-((x - t_g) / h)^2) for G centres t_g = low + g h: x (rows, I) to out (rows, G, I)."""
    row, column, inside = columns(inputs, block)
    u = load(x, x_row, x_column, row, column, inside)
    at = out + row * (grid_size * inputs) + column
    for number in tl.static_range(grid_size):
        z = (u - (low + number * step)) * (1 / step)
        tl.store(at + number * inputs, tl.exp(-(z * z)), inside)


@triton.jit
def gaussian_slopes(
    x, x_row, x_column, grad, out, out_row, out_column, inputs,
    grid_size: tl.constexpr, low: tl.constexpr, step: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Write the gradient of x (rows, I) from that of the features (rows, G, I), contiguous."""
    row, column, inside = columns(inputs, block)
    u = load(x, x_row, x_column, row, column, inside)
    at = grad + row * (grid_size * inputs) + column
    total = tl.zeros_like(u)
    for number in tl.static_range(grid_size):
        z = (u - (low + number * step)) * (1 / step)
        along = tl.load(at + number * inputs, inside, 0.0).to(tl.float32)
        total += along * (-2 / step) * (z * tl.exp(-(z * z)))
    tl.store(out + row * out_row + column.to(tl.int64) * out_column, total, inside)
