"""B-spline bases against scipy's, and knots that follow the data against its least squares."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import make_lsq_spline
from torch.nn import functional as F

from ffn_variants.splines.b_splines import (
    ANCHOR_WEIGHT,
    EvenSplines,
    UnevenSplines,
    adapted_grid,
    b_splines,
    even_ends,
    knot_reciprocals,
    refitted,
    splines_on,
)
from ffn_variants.variants.kan import KANLinear
from tests.cases import listed
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


@pytest.mark.parametrize("case", listed(__file__, "even grids"))
@pytest.mark.parametrize(
    ("dtype", "value_limit", "slope_limit"), [(torch.float64, 1e-13, 1e-12), (torch.float32, 1e-6, 5e-6)]
)
def test_even_splines_and_their_slopes_are_scipys(case, dtype, value_limit, slope_limit, error):
    case = Case(*case)
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


def test_a_grid_made_in_float32_as_efficient_kan_makes_it_is_even():
    for grid_size, order in itertools.product(range(1, 51, 7), (1, 3, 5)):
        knots = torch.arange(-order, grid_size + order + 1) * (2 / grid_size) - 1
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


# Knots that follow the data

GRID, ORDER = 5, 3


def curves(layer, x):
    """Evaluate every edge's curve before its scaler, by scipy: (N, I) to (N, O, I), zero beyond the knots."""
    bases = scipy_bases(x, layer.grid.double().numpy(), layer.spline_order)
    return np.einsum("nic,oic->noi", bases, layer.spline_weight.detach().double().numpy())


def inner(grid, order=ORDER):
    return grid[:, order : grid.shape[1] - order]


def is_valid(grid, order=ORDER):
    """Knots increase, and no interval between the ends is shorter than a tenth of their mean."""
    widths = inner(grid.double(), order).diff(dim=1)
    return bool((grid.diff(dim=1) > 0).all()) and bool((widths.amin(1) > 0.0999 * widths.mean(1)).all())


def test_knots_are_the_quantiles_of_the_inputs_with_a_share_of_an_even_grid():
    x = torch.randn(4000, 3) * torch.tensor([0.1, 1.0, 7.0]) + torch.tensor([0.0, 2.0, -30.0])
    layer = KANLinear(3, 2)
    layer.update_grid(x, even_share=0.3)
    assert is_valid(layer.grid)
    for i in range(3):
        column = np.unique(x[:, i].double().numpy())
        low, high = column.min(), column.max()
        expected = 0.3 * np.linspace(low, high, GRID + 1) + 0.7 * np.quantile(
            column, np.linspace(0, 1, GRID + 1)
        )
        expected[[0, -1]] += np.array([-0.01, 0.01]) * (high - low)
        beyond = (high - low) / GRID * np.arange(1, ORDER + 1)
        expected = np.concatenate([expected[0] - beyond[::-1], expected, expected[-1] + beyond])
        np.testing.assert_allclose(layer.grid[i].numpy(), expected, atol=3e-7 * abs(expected).max())


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_repeated_inputs_pull_no_knots_together(share):
    torch.manual_seed(0)
    x = torch.randn(3000, 2)
    x[torch.rand(3000) < share] = 0.7
    grid = adapted_grid(x, KANLinear(2, 1).grid, ORDER, 0.02)
    assert is_valid(grid)
    # The many count as one, so nearly the same knots as without them.
    rest = x[(x != 0.7).all(1)]
    torch.testing.assert_close(grid, adapted_grid(rest, grid, ORDER, 0.02), atol=0.2, rtol=0)


@given(
    grid_size=st.integers(1, 20),
    order=st.integers(1, 5),
    rows=st.integers(2, 60),
    centre=st.sampled_from([0.0, 1.0, -1000.0, 1e6, 1e30]),
    scale=st.sampled_from([1e-8, 1e-6, 1e-3, 1.0, 1e3, 1e37]),
    power=st.sampled_from([1, 3, 9]),
    even_share=st.sampled_from([1e-6, 0.02, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_knots_of_any_inputs_increase(grid_size, order, rows, centre, scale, power, even_share, seed):
    rng = np.random.default_rng(seed)
    x = torch.tensor(centre + scale * rng.normal(size=(rows, 2)) ** power).float()
    layer = KANLinear(2, 3, grid_size, order)
    before = layer.grid.clone()
    layer.update_grid(x, even_share)
    assert (layer.grid.diff(dim=1) > 0).all()
    for tensor in (layer.grid, layer.spline_weight, layer(x[x.isfinite().all(1)])):
        assert tensor.isfinite().all()
    for i in range(2):
        column = x[:, i][x[:, i].isfinite()]
        if not torch.equal(layer.grid[i], before[i]):
            assert inner(layer.grid, order)[i, 0] <= column.min()
            assert inner(layer.grid, order)[i, -1] >= column.max()


def test_values_further_apart_than_rounding_move_the_knots_and_others_do_not():
    for step, moves in ((1e-3, True), (1.2e-7, False)):
        layer = KANLinear(1, 1)
        before = layer.grid.clone()
        layer.update_grid(1 + torch.tensor([[0.0], [step], [5 * step]]))
        assert torch.equal(layer.grid, before) != moves


@pytest.mark.parametrize(("grid_size", "order"), [(12, 3), (8, 1), (6, 5)])
def test_the_refit_is_scipys_weighted_least_squares(grid_size, order):
    rng = np.random.default_rng(4)
    old = KANLinear(2, 3, grid_size, order).double()
    old.spline_weight.data = torch.from_numpy(rng.normal(size=old.spline_weight.shape))
    x = torch.from_numpy(rng.normal(size=(500, 2)))
    given = old.grid.clone()
    new = adapted_grid(x, old.grid, order, 0.02)
    assert torch.equal(old.grid, given)
    found = refitted(x, old.spline_weight.detach(), old.grid, new, order).numpy()
    for i in range(2):
        knots = new[i].numpy()
        low, high = knots[order], knots[-1 - order]
        # Anchors: evenly through the grid, four for each knot, all together a thousandth of the data.
        count = 4 * len(knots)
        anchors = low + (high - low) * (np.arange(count) + 0.5) / count
        points = np.concatenate([x[:, i].numpy(), anchors])
        weights = np.concatenate([np.ones(500), np.full(count, math.sqrt(ANCHOR_WEIGHT * 500 / count))])
        at = np.repeat(points[:, None], 2, 1)
        values = curves(old, at)[:, :, i]
        rank = np.argsort(points)
        spline = make_lsq_spline(points[rank], values[rank], knots, order, weights[rank])
        np.testing.assert_allclose(found[:, i], spline.c.T, atol=1e-7)


@given(
    scaler=st.sampled_from([-30.0, -1.0, 1e-3, 0.1, 1.0, 50.0]), gap=st.booleans(), seed=st.integers(0, 2**16)
)
def test_curves_are_kept_at_the_data_whatever_their_scaler(scaler, gap, seed):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    layer = KANLinear(2, 4, grid_size=5)
    layer.spline_scaler.data.fill_(scaler)
    smooth = np.sin(np.linspace(0, 3, GRID + ORDER) + rng.uniform(0, 6, size=(4, 2, 1)))
    layer.spline_weight.data = torch.from_numpy(smooth).float()
    base = layer.base_weight.detach().clone()
    # Normal inputs, or two clusters with nothing between.
    x = torch.randn(600, 2) * (0.05 if gap else 0.4) + 0.8 * gap * torch.randn(600, 1).sign()
    before = curves(layer, x.double().numpy())
    outputs = layer(x)
    layer.update_grid(x)
    assert torch.equal(layer.spline_scaler, torch.full_like(layer.spline_scaler, scaler))
    assert torch.equal(layer.base_weight, base)
    after = curves(layer, x.double().numpy())
    assert np.sqrt(((after - before) ** 2).mean()) < 0.02
    change = (layer(x) - outputs).square().mean().sqrt().item()
    assert change < 0.02 * abs(scaler) * 2
    # Where there are no inputs, coefficients stay of the size that they had.
    assert layer.spline_weight.abs().max() < 4


def test_a_second_update_follows_the_new_inputs_from_the_moved_knots():
    torch.manual_seed(6)
    layer = KANLinear(2, 3).double()
    layer.update_grid(torch.randn(500, 2).double())
    first = layer.grid.clone()
    x = torch.rand(500, 2).double() * 0.5
    before = layer(x)
    layer.update_grid(x)
    assert is_valid(layer.grid)
    assert not torch.equal(layer.grid, first)
    assert (inner(layer.grid)[:, 0] > -0.02).all()
    assert (layer(x) - before).square().mean().sqrt() < 1e-3
    again = layer.grid.clone(), layer.spline_weight.clone()
    layer.update_grid(x)
    for a, b in zip(again, (layer.grid, layer.spline_weight), strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


def test_a_layer_in_bf16_can_be_updated():
    torch.manual_seed(9)
    layer = KANLinear(3, 4).bfloat16()
    x = torch.randn(500, 3).bfloat16()
    before = layer(x).float()
    layer.update_grid(x)
    assert layer.grid.dtype == layer.spline_weight.dtype == torch.bfloat16
    assert (layer.grid.diff(dim=1) > 0).all()
    assert (layer(x).float() - before).norm() < 0.05 * before.norm()
