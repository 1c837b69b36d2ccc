"""Knots that follow the data, against scipy's least squares and what update_grid promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import make_lsq_spline

from ffn_variants.splines.b_splines import ANCHOR_WEIGHT, adapted_grid, refitted
from ffn_variants.variants.kan import KANLinear
from tests.references import scipy_bases

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


@pytest.mark.parametrize(("grid_size", "order"), [(1, 3), (5, 3), (20, 3), (50, 5)])
def test_crowded_inputs_pull_no_knots_together(grid_size, order):
    torch.manual_seed(0)
    x = torch.randn(3000, 2) ** 9  # heavy tails
    x[:2900, 1] = 0.7 + 1e-3 * torch.randn(2900)  # nine in ten within a thousandth
    grid = adapted_grid(x, KANLinear(2, 1, grid_size, order).grid, order, 0.02)
    assert is_valid(grid, order)
    ends = inner(grid, order)[:, [0, -1]]
    span = x.amax(0) - x.amin(0)
    torch.testing.assert_close(ends, torch.stack([x.amin(0) - span / 100, x.amax(0) + span / 100], 1))


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


@pytest.mark.parametrize("value", [0.0, -5.0, 1e20])
def test_one_value_or_none_keeps_knots_and_curves(value):
    torch.manual_seed(1)
    layer = KANLinear(2, 3)
    before = {key: tensor.clone() for key, tensor in layer.state_dict().items()}
    for x in (torch.full((50, 2), value), torch.full((50, 2), math.nan), torch.empty(0, 2)):
        layer.update_grid(x)
        for key, tensor in layer.state_dict().items():
            torch.testing.assert_close(tensor, before[key], atol=1e-8, rtol=1e-5)
    assert torch.equal(layer.grid, before["grid"])


def test_inputs_that_are_not_finite_are_left_out():
    torch.manual_seed(2)
    x = torch.randn(400, 2)
    layers = []
    for rows in (x, torch.cat([x, torch.tensor([[math.nan, math.inf], [-math.inf, math.nan]])])):
        torch.manual_seed(3)
        layers.append(KANLinear(2, 3))
        layers[-1].update_grid(rows)
    for a, b in zip(*(layer.state_dict().values() for layer in layers), strict=True):
        torch.testing.assert_close(a, b)
        assert a.isfinite().all()


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
    x = (
        torch.randn(600, 2) * 0.4
        if not gap
        else torch.randn(600, 2) * 0.05 + torch.randn(600, 1).sign() * 0.8
    )
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
