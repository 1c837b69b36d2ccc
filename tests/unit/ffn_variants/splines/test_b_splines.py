"""B-spline bases against scipy's, in the closed form and by the recursion."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from ffn_variants.splines.b_splines import (
    EvenSplines,
    UnevenSplines,
    b_splines,
    even_ends,
    knot_reciprocals,
    splines_on,
)
from ffn_variants.variants.kan import KANLinear
from tests.references import scipy_bases


class Case(NamedTuple):
    grid_size: int
    order: int
    low: float
    high: float

    @property
    def knots(self):
        step = (self.high - self.low) / self.grid_size
        return self.low + step * np.arange(-self.order, self.grid_size + self.order + 1)


def reference(x, knots, order, derivative=0):
    """Evaluate (N,) inputs to (N, G + K) bases on one list of knots."""
    return scipy_bases(x[:, None], knots[None], order, derivative)[:, 0]


def points(knots, order):
    """Inputs between knots, within a thousandth of a step on both sides of each, on them, and far out."""
    step = np.diff(knots).max()
    between = np.random.default_rng(0).uniform(knots[0] - step, knots[-1] + step, size=200)
    # On the knots the slope of a piecewise linear curve is anybody's choice.
    on = knots if order > 1 else knots[:0]
    return np.concatenate([between, knots - 1e-3 * step, knots + 1e-3 * step, on, [1e30, -1e30, 50, -50]])


def values_and_slopes(function, x):
    """Evaluate a function from (N, 1) to (N, B, 1), and its slopes by autograd, as (N, B) each."""
    x = x.clone().requires_grad_()
    values = function(x)[..., 0]
    slopes = [torch.autograd.grad(column.sum(), x, retain_graph=True)[0][:, 0] for column in values.unbind(1)]
    return values.detach(), torch.stack(slopes, 1)


def recursion(knots, order, dtype=torch.float64):
    knots = torch.tensor(knots, dtype=dtype).unsqueeze(1)
    return lambda x: b_splines(x, knots, order)


@pytest.mark.parametrize(
    "case",
    [
        Case(1, 1, -1, 1),
        Case(3, 2, -3, -1),
        Case(5, 3, -1, 1),
        Case(8, 4, -3, -1),
        Case(20, 3, -1, 1),
        Case(6, 5, 0, 1 / 3),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("dtype", "value_limit", "slope_limit"), [(torch.float64, 1e-13, 1e-12), (torch.float32, 1e-6, 5e-6)]
)
def test_even_splines_and_their_slopes_are_scipys(case, dtype, value_limit, slope_limit, error):
    x = torch.tensor(points(case.knots, case.order), dtype=dtype).unsqueeze(1)
    values, slopes = values_and_slopes(lambda x: EvenSplines(*case)(x)[:, 1:], x)
    exact = x.double().numpy()[:, 0]
    assert error(values, reference(exact, case.knots, case.order)) < value_limit
    assert error(slopes, reference(exact, case.knots, case.order, 1)) < slope_limit


@pytest.mark.parametrize(("grid_size", "order"), [(1, 1), (4, 2), (20, 3), (1, 4), (4, 5)])
@pytest.mark.parametrize(
    ("dtype", "value_limit", "slope_limit"), [(torch.float64, 1e-13, 1e-12), (torch.float32, 1e-6, 5e-6)]
)
def test_uneven_splines_and_their_slopes_are_scipys(order, grid_size, dtype, value_limit, slope_limit, error):
    rng = np.random.default_rng(order * 100 + grid_size)
    # Intervals from a tenth of the longest up, as update_grid leaves them; rounded to float32, as a layer is.
    widths = rng.uniform(0.1, 1, size=grid_size + 2 * order)
    knots = np.cumsum(np.concatenate([[-2.0], 4 * widths / widths.sum()])).astype(np.float32).astype(float)
    x = torch.tensor(points(knots, order), dtype=dtype).unsqueeze(1)
    kernel, constants = splines_on(torch.tensor(knots, dtype=dtype).unsqueeze(0), order)
    assert kernel == UnevenSplines(order)
    values, slopes = values_and_slopes(lambda x: kernel(x, *constants)[:, 1:], x)
    exact = x.double().numpy()[:, 0]
    assert error(values, reference(exact, knots, order)) < value_limit
    assert error(slopes, reference(exact, knots, order, 1)) < slope_limit


@pytest.mark.parametrize("order", [1, 4])
def test_every_feature_has_its_own_knots(order):
    rng = np.random.default_rng(4)
    knots = np.sort(rng.uniform(-2, 2, size=(3, 5 + 2 * order)), axis=1)
    x = rng.normal(size=(30, 3))
    bases = b_splines(torch.from_numpy(x), torch.from_numpy(knots).t(), order).numpy()
    np.testing.assert_allclose(bases.swapaxes(1, 2), scipy_bases(x, knots, order), atol=1e-11)


@pytest.mark.parametrize("order", [1, 3])
def test_infinite_inputs_give_zero_splines_and_zero_slopes(order, monkeypatch):
    # The first feature is not a spline; and torch's own slope of SiLU at infinity is NaN.
    monkeypatch.setattr(F, "silu", torch.relu)
    case = Case(5, order, -1, 1)
    far = torch.tensor([math.inf, -math.inf, 1e30, -1e30, 3e38]).unsqueeze(1)
    for function in (lambda x: EvenSplines(*case)(x)[:, 1:], recursion(case.knots, order, torch.float32)):
        values, slopes = values_and_slopes(function, far)
        assert not values.any()
        assert not slopes.any()


def test_nan_is_not_hidden():
    case = Case(5, 3, -1, 1)
    nan = torch.tensor([[math.nan]])
    assert EvenSplines(*case)(nan).isnan().all()
    assert recursion(case.knots, 3)(nan.double()).isnan().all()


@pytest.mark.parametrize(
    "knots",
    [
        pytest.param([-2, -1.5, -1, 0, 0, 0, 0, 1.5, 2, 2.5], id="four within"),
        pytest.param([-1, -1, -1, -1, 0, 0.5, 1, 1, 1, 1], id="at both ends"),
    ],
)
def test_knots_may_coincide(knots):
    order, knots = 3, np.array(knots, dtype=float)
    inside = np.setdiff1d(np.linspace(-3, 3, 241), knots)
    for nu, result in enumerate(
        values_and_slopes(recursion(knots, order), torch.from_numpy(inside).unsqueeze(1))
    ):
        np.testing.assert_allclose(result.numpy(), reference(inside, knots, order, nu), atol=1e-12)
    far = torch.tensor([[-1e30], [-3.0], [3.0], [1e30], [math.inf]])
    assert not recursion(knots, order, torch.float32)(far).any()


def test_the_first_feature_is_silu():
    x = torch.randn(20, 2, dtype=torch.float64)
    knots = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None].expand(-1, 2)
    for features in (EvenSplines(3, 2, -1, 1)(x), UnevenSplines(2)(x, knots, knot_reciprocals(knots, 2))):
        assert features.shape == (20, 6, 2)
        assert torch.equal(features[:, 0], F.silu(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ends", [(-1.0, 1.0), (-3.0, -1.0), (0.0, 1 / 3), (1.0, 2.0), (-1.5, 40.0)])
@pytest.mark.parametrize(("grid_size", "order"), [(1, 1), (5, 3), (20, 5)])
def test_an_even_grid_gives_back_its_ends_also_when_cast(dtype, ends, grid_size, order):
    grid = torch.tensor(Case(grid_size, order, *ends).knots).to(dtype).expand(3, -1)
    if not grid[0, 0] <= 0 <= grid[0, -1]:
        assert even_ends(grid, order) is None
        return
    step = (ends[1] - ends[0]) / grid_size
    rounding = torch.finfo(dtype).eps * grid.abs().max().item()
    found = even_ends(grid, order)
    assert found == pytest.approx(ends, abs=2 * rounding)
    assert found[0] < found[1]
    if ends == (-1.0, 1.0) or (ends == (-3.0, -1.0) and step < 1):
        assert found == ends


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grids_made_in_their_own_dtype_as_efficient_kan_makes_them_are_even(dtype):
    for grid_size in range(1, 51, 7):
        for order in (1, 3, 5):
            if dtype == torch.float32:
                knots = torch.arange(-order, grid_size + order + 1) * (2 / grid_size) - 1
            else:
                torch.set_default_dtype(dtype)
                try:
                    knots = KANLinear(1, 1, grid_size, order).grid[0]
                finally:
                    torch.set_default_dtype(torch.float32)
            assert even_ends(knots.expand(2, -1), order) == (-1.0, 1.0)


def test_what_is_not_even_is_seen():
    grid = torch.tensor(Case(5, 3, -1, 1).knots, dtype=torch.float32).repeat(3, 1)
    assert even_ends(grid, 3) == (-1.0, 1.0)
    for change in (0.05, 1e-5):
        other = grid.clone()
        other[2, 6] += change  # one knot of one feature
        assert even_ends(other, 3) is None
    shifted = grid.clone()
    shifted[1] += 0.01  # even, but not the same
    assert even_ends(shifted, 3) is None
    assert even_ends(torch.zeros(2, 12), 3) is None
    moved = grid.clone()
    moved[:, 6] += 0.05
    assert even_ends(moved.bfloat16(), 3) is None


def test_a_grid_far_from_zero_keeps_its_accuracy(error):
    case = Case(5, 3, 1000.125, 1001.125)
    layer_grid = KANLinear(1, 1, grid_range=(case.low, case.high)).grid
    kernel, constants = splines_on(layer_grid, 3)
    x = torch.linspace(999, 1002, 301).unsqueeze(1)
    expected = reference(x.double().numpy()[:, 0], layer_grid[0].double().numpy(), 3)
    assert error(kernel(x, *constants)[:, 1:, 0], expected) < 1e-6
