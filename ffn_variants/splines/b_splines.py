"""B-spline bases as features of a ``basis_linear`` layer, with the SiLU of KAN's base term as the first.

Knots can follow the data, with the curves refitted on them: what ``KANLinear.update_grid`` does.

Shapes: N rows, I in_features, O out_features, G grid_size, K spline_order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


@dataclass(frozen=True)
class EvenSplines:
    """SiLU and every B-spline basis on equally spaced knots that all inputs share, in closed form.

    With t the distance of x from the middle of a basis in steps and a = relu((K + 1)/2 - |t|), the basis is
    sum_k (-1)^k binom(K + 1, k) relu(a - k)^K / K! (Schoenberg 1946, folded at the middle): for
    K = 3, (a^3 - 4 relu(a - 1)^3) / 6. At most half of its terms are not zero, so that little cancels.

    Attributes:
        grid_size: G, intervals between low and high.
        spline_order: K, from 1 to 5; beyond, float32 is no longer exact enough.
        low: Lower end of the grid; knots go on for K steps beyond either end.
        high: Upper end.
    """

    grid_size: int
    spline_order: int
    low: float
    high: float

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate (N, I) inputs to (N, 1 + G + K, I) features; splines are zero outside their knots."""
        # G = 2, K = 1 on [-1, 1]: steps of 1, and hats around -1, 0 and 1. At x = 0.25 the hat around 0 is at
        # a distance of 0.25 steps, so its reach is 1 - 0.25 = 0.75, which for K = 1 is its value.
        order, step = self.spline_order, (self.high - self.low) / self.grid_size
        half = (order + 1) / 2
        features = [F.silu(x)]
        for number in range(self.grid_size + order):
            middle = self.low + (number - order + half) * step
            # relu comes before any power, so that a far-out x gives a zero and not inf - inf.
            reach = torch.relu(half - (x - middle).abs() * (1 / step))
            terms = [c * _power(torch.relu(reach - k), order) for k, c in enumerate(_coefficients(order))]
            features.append(sum(terms[1:], terms[0]))
        return torch.stack(features, 1)


def _coefficients(order: int) -> list[float]:
    """Make (-1)^k binom(K + 1, k) / K!, k <= K/2, in plain arithmetic, which torch.compile can trace."""
    coefficients = [1.0]
    for k in range(1, order + 1):
        coefficients[0] /= k
    for k in range(1, order // 2 + 1):
        coefficients.append(-coefficients[-1] * (order + 2 - k) / k)
    return coefficients


def _power(x: Tensor, exponent: int) -> Tensor:
    """Multiply out, which is faster and differentiates better than a general power."""
    result = x
    for _ in range(exponent - 1):
        result = result * x
    return result


@dataclass(frozen=True)
class UnevenSplines:
    """SiLU and every B-spline basis on any knots, by the Cox-de Boor recursion.

    Attributes:
        spline_order: K.
    """

    spline_order: int

    def __call__(self, x: Tensor, knots: Tensor, reciprocals: Tensor) -> Tensor:
        """Evaluate (N, I) inputs to (N, 1 + G + K, I) features; arguments as for ``b_splines``."""
        return torch.stack([F.silu(x), *_cox_de_boor(x, knots, reciprocals)], 1)


def b_splines(x: Tensor, knots: Tensor, spline_order: int) -> Tensor:
    """Evaluate the bases alone.

    Args:
        x: (N, I) inputs.
        knots: (G + 2K + 1, I), increasing.
        spline_order: K.

    Returns:
        (N, G + K, I) values; all are zero outside the knots.
    """
    return torch.stack(_cox_de_boor(x, knots, knot_reciprocals(knots, spline_order)), 1)


def _cox_de_boor(x: Tensor, knots: Tensor, reciprocals: Tensor) -> list[Tensor]:
    # Knots 0, 1, 2 and K = 1 at x = 0.25: of order 0 the basis of [0, 1) is 1 and that of [1, 2) is 0. The
    # one of order 1 rises with (0.25 - 0) / 1 times the first and falls with (2 - 0.25) / 1 times the second:
    # 0.25.
    intervals = len(knots) - 1
    bases = [((x >= knots[i]) & (x < knots[i + 1])).to(x.dtype) for i in range(intervals)]
    # Beyond the knots nothing counts, and there a far-out x would give inf times zero.
    x = x.clamp(knots[0], knots[-1])
    for k in range(1, len(reciprocals) + 1):
        # A basis rises over the first k of its k + 1 intervals and falls over the last k.
        bases = [
            (x - knots[i]) * reciprocals[k - 1, i] * bases[i]
            + (knots[i + k + 1] - x) * reciprocals[k - 1, i + 1] * bases[i + 1]
            for i in range(intervals - k)
        ]
    return bases


def knot_reciprocals(knots: Tensor, spline_order: int) -> Tensor:
    """Invert the distances between knots once for all rows.

    Args:
        knots: (T, I), increasing.
        spline_order: K.

    Returns:
        (K, T - 1, I); entry (k - 1, i) is 1 / (t_{i+k} - t_i), and zero where knots coincide, as the
        recursion's 0/0 is taken for zero, or where there is no knot i + k.
    """
    reciprocals = knots.new_zeros(spline_order, len(knots) - 1, knots.shape[1])
    for k in range(1, spline_order + 1):
        distances = knots[k:] - knots[:-k]
        reciprocals[k - 1, : len(distances)] = torch.where(distances > 0, 1 / distances, 0)
    return reciprocals


def even_ends(grid: Tensor, spline_order: int) -> tuple[float, float] | None:
    """Find the ends of the grid that all features share, if its knots are equally spaced up to rounding.

    Args:
        grid: (I, G + 2K + 1) knots.
        spline_order: K.

    Returns:
        Lower and upper end, or None; None also where zero is beyond the knots, as an input less a knot then
        loses digits that the closed form needs.
    """
    # G = 4, K = 1, ends -1 and 1: knots -1.5, -1, -0.5, 0, 0.5, 1, 1.5. The ends are those K from either
    # side.
    exact = grid.double()
    steps = torch.arange(grid.shape[1], device=grid.device, dtype=torch.float64)
    first, last = exact[:, :1], exact[:, -1:]
    even = first + (last - first) * steps / steps[-1]
    # What the few operations that make a grid round off; one narrower than float32 was made wider, then cast.
    roundings = 4 if grid.dtype.itemsize >= 4 else 1
    tolerance = roundings * torch.finfo(grid.dtype).eps * exact.abs().max().item()
    if ((exact - even[:1]).abs() > tolerance).any() or not (
        (first < last) & (first <= 0) & (last >= 0)
    ).all():
        return None
    low, high = even[0, spline_order].item(), even[0, -1 - spline_order].item()
    return _shortest(low, tolerance / 2), _shortest(high, tolerance / 2)


def _shortest(value: float, tolerance: float) -> float:
    """Round to few decimals: every layer that was given the same ends then shares one kernel."""
    candidates = (round(value, decimals) for decimals in range(18))
    return next((short for short in candidates if abs(short - value) <= tolerance), value)


def splines_on(grid: Tensor, spline_order: int) -> tuple[EvenSplines | UnevenSplines, tuple[Tensor, ...]]:
    """Choose the basis for a grid: the closed form wherever it holds.

    Args:
        grid: (I, G + 2K + 1) knots.
        spline_order: K.

    Returns:
        The basis and its constants, as ``basis_linear`` takes them.
    """
    ends = None if grid.is_meta else even_ends(grid, spline_order)
    if ends is not None:
        return EvenSplines(grid.shape[1] - 2 * spline_order - 1, spline_order, *ends), ()
    return UnevenSplines(spline_order), _uneven_constants(grid, spline_order)


def _uneven_constants(grid: Tensor, spline_order: int) -> tuple[Tensor, Tensor]:
    knots = grid.to(torch.promote_types(grid.dtype, torch.float32)).t().contiguous()
    return knots, knot_reciprocals(knots, spline_order)


_LOOKS = WeakTensorKeyDictionary()
"""For each grid that was looked at: its version then, the order, and what ``splines_on`` gave."""


@dataclass(frozen=True)
class GridSplines:
    """The splines on a layer's grid, whose knots decide how they are computed (an ``Unsettled`` basis).

    Attributes:
        spline_order: K.
    """

    spline_order: int

    def __call__(self, x: Tensor, grid: Tensor) -> Tensor:
        """Evaluate (N, I) inputs to (N, 1 + G + K, I) features on a grid whose values nobody reads."""
        return UnevenSplines(self.spline_order)(x, *_uneven_constants(grid, self.spline_order))

    def settle(self, grid: Tensor) -> tuple[EvenSplines | UnevenSplines, tuple[Tensor, ...]]:
        """Look at the (I, G + 2K + 1) grid once, and again only after it was changed, as when loading."""
        if grid.is_inference():  # such a tensor does not count its changes
            return splines_on(grid, self.spline_order)
        key = grid._version, self.spline_order
        look = _LOOKS.get(grid)
        if look is None or look[0] != key:
            with torch.inference_mode(False):  # for what is trained later, which could not save its tensors
                look = _LOOKS[grid] = (key, splines_on(grid, self.spline_order))
        return look[1]


SHORTEST_INTERVAL = 0.1
"""Of the mean interval. A shorter one would let a curve bend within less than float32 can follow."""
MARGIN = 0.01
"""By which the outer intervals reach beyond the inputs, in their whole range: the next ones may be there."""
ANCHOR_WEIGHT = 1e-3
"""Of all anchors together, against all inputs."""


def adapted_grid(x: Tensor, grid: Tensor, spline_order: int, even_share: float) -> Tensor:
    """Place each feature's knots by its inputs.

    Args:
        x: (N, I) inputs; those that are not finite are left out.
        grid: (I, G + 2K + 1) present knots, kept by a feature whose inputs are all one value, or too near one
            another, or too far, for knots of the grid's dtype between them.
        spline_order: K.
        even_share: Share of the even grid in the mixture with the quantiles.

    Returns:
        (I, G + 2K + 1) strictly increasing knots.
    """
    # Inputs 0, 0, 0, 1, 10 with G = 2 and an even share of 0: their distinct values 0, 1, 10 have quantiles
    # at 0, 1 and 10, so the positions are 0, 0.1 and 1, and the inner knots just below 0, at 1 and just above
    # 10.
    grid_size = grid.shape[1] - 2 * spline_order - 1
    shares = torch.arange(grid_size + 1, dtype=torch.float64) / grid_size
    new = grid.to("cpu", torch.float64, copy=True)
    for row, column in zip(new, x.double().cpu().t(), strict=True):
        values = column[column.isfinite()].unique()
        if len(values) < 2:
            continue
        span = values[-1] - values[0]
        positions = even_share * shares + (1 - even_share) * (values.quantile(shares) - values[0]) / span
        inner = values[0] + span * torch.cat([shares[:1], _no_shorter(positions.diff()).cumsum(0)])
        inner[0] -= MARGIN * span
        inner[-1] += MARGIN * span
        beyond = span / grid_size * torch.arange(1, spline_order + 1)
        knots = torch.cat([inner[0] - beyond.flip(0), inner, inner[-1] + beyond])
        # Values that differ by less than the grid's dtype can divide count as one.
        rounded = knots.to(grid.dtype)
        if (rounded[-1] - rounded[0]).isfinite() and (rounded.diff() > 0).all():
            row.copy_(knots)
    return new.to(grid)


def _no_shorter(widths: Tensor) -> Tensor:
    """Lengthen the shortest intervals, at the cost of what all others have beyond the shortest allowed."""
    # Widths 0, 0.5, 0.5 with a shortest of 0.034: excesses 0, 0.466, 0.466 are scaled until all add up to 1
    # again.
    shortest = SHORTEST_INTERVAL * (1 + 2 * MARGIN) / len(widths)
    excess = (widths - shortest).clamp(min=0)
    return shortest + excess * (1 - len(widths) * shortest) / excess.sum()


def refitted(x: Tensor, coefficients: Tensor, old: Tensor, new: Tensor, spline_order: int) -> Tensor:
    """Fit the curves on the new knots to those on the old, at the inputs, by least squares.

    Args:
        x: (N, I) inputs; those that are not finite are left out.
        coefficients: (O, I, G + K) on the old knots.
        old: (I, G + 2K + 1) knots.
        new: (I, G + 2K + 1) knots.
        spline_order: K.

    Returns:
        (O, I, G + K) coefficients on the new knots.
    """
    maps = [
        _fit(column, before, after, spline_order)
        for column, before, after in zip(
            x.double().cpu().t(), old.double().cpu(), new.double().cpu(), strict=True
        )
    ]
    # One map a feature serves all outputs, as the fit is linear in the curve.
    maps = torch.stack(maps).to(coefficients.device)
    return torch.einsum("ind,oid->oin", maps, coefficients.double()).to(coefficients)


def _fit(x: Tensor, old: Tensor, new: Tensor, spline_order: int) -> Tensor:
    """Solve for the (G + K, G + K) map from old to new coefficients of one feature, in float64."""
    x = x[x.isfinite()]
    low, high = new[spline_order], new[-1 - spline_order]
    # Without them, coefficients where there are no inputs would be anything.
    count = 4 * len(new)
    anchors = low + (high - low) * (torch.arange(count, dtype=x.dtype) + 0.5) / count
    points = torch.cat([x, anchors]).unsqueeze(1)
    weights = torch.ones_like(points)
    weights[len(x) :] = (ANCHOR_WEIGHT * max(len(x), 1) / count) ** 0.5
    before, after = (b_splines(points, knots.unsqueeze(1), spline_order)[..., 0] for knots in (old, new))
    # gelsd gives the solution of least norm also where columns are zero; the other drivers give NaN.
    return torch.linalg.lstsq(after * weights, before * weights, driver="gelsd").solution
