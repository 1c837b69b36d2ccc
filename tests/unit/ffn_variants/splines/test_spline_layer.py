"""Sparse layers of splines: masks, pruning and the penalty; and knots of feature splines, against numpy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy
from transformers import AutoModelForCausalLM

from base.errors import UsageError
from ffn_variants import FFN_VARIANTS, build_ffn, build_model
from ffn_variants.splines.feature_knots import POLYNOMIAL, RIDGE, TAIL, eliminated, quantile_knots, refitted
from ffn_variants.splines.spline_layer import largest_levels, sparsity_penalty, spline_layers
from ffn_variants.variants.kan import KANLinear
from ffn_variants.variants.spline_kan import FeatureSplines
from tests.cases import SMALL

SPLINE_VARIANTS = [name for name, spec in FFN_VARIANTS.items() if "splines" in spec.options]

each_layer = pytest.mark.parametrize(
    "make", [lambda: KANLinear(6, 5, splines="sparse"), lambda: FeatureSplines(6, splines="sparse")]
)


def knots_of(layer: KANLinear | FeatureSplines) -> torch.Tensor:
    return layer.grid if isinstance(layer, KANLinear) else layer.knots


def trained_like(layer: KANLinear) -> KANLinear:
    """Give a layer curves of some size; they start as next to nothing."""
    layer.spline_weight.data.normal_()
    layer.spline_scaler.data.normal_()
    return layer


def test_the_variants_with_spline_layers_are_those_with_the_option():
    assert set(SPLINE_VARIANTS) == {"kan", "thesis-kan", "spline-kan", "spline-activation"}
    for name in FFN_VARIANTS:
        assert bool(spline_layers(build_ffn(name, 8, 8))) == (name in SPLINE_VARIANTS)


@pytest.mark.parametrize("name", SPLINE_VARIANTS)
def test_a_sparse_variant_starts_as_the_dense_one(name):
    ffns = []
    for splines in ("dense", "sparse"):
        torch.manual_seed(0)
        ffns.append(build_ffn(name, 6, 8, splines=splines))
    x = torch.randn(9, 6)
    assert torch.equal(ffns[0](x), ffns[1](x))
    assert set(ffns[1].state_dict()) - set(ffns[0].state_dict()) == {
        key for key in ffns[1].state_dict() if key.endswith("mask")
    }
    assert sum(key.endswith("mask") for key in ffns[1].state_dict()) == len(spline_layers(ffns[1]))


@pytest.mark.parametrize("threshold", [1e-3, 0.3])
def test_each_output_of_a_pruned_kan_layer_is_within_the_threshold(threshold):
    torch.manual_seed(1)
    layer = trained_like(KANLinear(7, 11, splines="sparse"))
    x = torch.randn(2000, 7)
    layer.update_grid(x)
    before = layer(x).detach().double()
    layer.prune(x.view(4, 500, 7), threshold)
    change = (layer(x) - before).square().mean(0).sqrt() / before.std(0)
    assert change.max() <= threshold * (1 + 1e-5)
    assert layer.mask is not None
    pruned = (~layer.mask).sum((1, 2))
    assert (pruned > 0).all() if threshold > 0.01 else True
    assert layer.mask.any((1, 2)).all()


def test_of_each_output_the_terms_that_add_least_are_pruned():
    """Against sizes computed term by term in float64, through layers with one coefficient each."""
    torch.manual_seed(2)
    layer = trained_like(KANLinear(3, 4, splines="sparse"))
    x = torch.randn(500, 3)
    sizes = np.zeros((4, 3, 8))
    for i, c in np.ndindex(3, 8):
        alone = KANLinear(3, 4).double()
        alone.grid.copy_(layer.grid)
        alone.base_weight.data.zero_()
        alone.spline_scaler.data.copy_(layer.spline_scaler)
        alone.spline_weight.data.zero_()
        alone.spline_weight.data[:, i, c] = layer.spline_weight[:, i, c]
        sizes[:, i, c] = np.sqrt((alone(x.double()).detach().numpy() ** 2).mean(0))
    layer.prune(x, 0.2)
    assert layer.mask is not None
    for own, kept in zip(sizes, layer.mask.numpy(), strict=True):
        assert own[~kept].size > 0
        assert own[~kept].max() < own[kept].min()


def test_pruning_again_only_takes_more():
    torch.manual_seed(4)
    layer, x = trained_like(KANLinear(5, 4, splines="sparse")), torch.randn(300, 5)
    layer.prune(x, 0.1)
    assert layer.mask is not None
    first = layer.mask.clone()
    layer.prune(x, 0.1)
    assert not (layer.mask & ~first).any()


@each_layer
def test_a_pruned_layer_moves_no_knots_and_a_dense_one_is_not_pruned(make):
    layer, x = make(), torch.randn(300, 6)
    layer.prune(x, 0.1)
    with pytest.raises(UsageError, match="cannot be moved after coefficients were pruned"):
        layer.update_grid(x)
    with pytest.raises(UsageError, match="build it with splines='sparse'"):
        type(layer)(6, *([5] if isinstance(layer, KANLinear) else [])).prune(x, 0.1)


@each_layer
def test_pruned_coefficients_stay_zero_through_training(make):
    torch.manual_seed(5)
    layer, x = make(), torch.randn(400, 6)
    layer.prune(x, 0.3)
    pruned = ~layer.mask
    assert pruned.any()
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        layer(x).square().sum().backward()
        optimizer.step()
    assert not layer.curve_coefficients()[pruned].any()


@pytest.mark.parametrize("name", SPLINE_VARIANTS)
def test_a_saved_model_comes_back_pruned(name, tmp_path):
    torch.manual_seed(6)
    model = build_model("gpt_neo", name, {"splines": "sparse"}, **SMALL).eval()
    for layer in spline_layers(model):
        features = len(knots_of(layer))
        layer.update_grid(torch.randn(300, features))
        layer.prune(torch.randn(300, features), 0.1)
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    masks = [[layer.mask for layer in spline_layers(m)] for m in (model, again)]
    assert all(torch.equal(a, b) for a, b in zip(*masks, strict=True))
    assert any((~mask).any() for mask in masks[1])
    tokens = torch.arange(20).view(2, 10)
    assert torch.equal(again(tokens).logits, model(tokens).logits)


@each_layer
def test_the_penalty_is_the_norm_and_the_entropy_of_the_curves(make):
    torch.manual_seed(7)
    layer = make()
    layer.mask.copy_(torch.rand(layer.mask.shape) < 0.7)
    if isinstance(layer, KANLinear):
        coefficients = layer.spline_weight * layer.spline_scaler[..., None]
    else:
        coefficients = layer.coefficients
    sizes = (coefficients * layer.mask).detach().double().numpy()
    norms = abs(sizes).mean(-1).ravel()
    expected = norms.sum() + entropy(norms / norms.sum())
    assert sparsity_penalty(layer).item() == pytest.approx(expected, rel=1e-6)


@each_layer
def test_the_penalty_of_curves_that_are_zero_has_a_finite_gradient(make):
    layer = make()
    layer.mask[2:] = False
    for mask in (layer.mask.clone(), torch.zeros_like(layer.mask)):
        layer.mask.copy_(mask)
        gradients = torch.autograd.grad(sparsity_penalty(layer), list(layer.parameters()), allow_unused=True)
        assert all(g.isfinite().all() for g in gradients if g is not None)


def test_levels_are_searched_for_each_output_by_itself():
    limits = torch.tensor([1e-9, 0.004, 0.02, 0.5], dtype=torch.float64)
    found = largest_levels(lambda levels: torch.where(levels <= limits, 0.0, 1.0), 4, 0.1)
    assert found[0] == 0
    assert (found <= limits).all()
    np.testing.assert_allclose(found[1:].numpy(), limits[1:].clamp(max=0.1).numpy(), rtol=1e-3)


# Knots of feature splines


def powers(x, knots):
    """(N,) inputs and (C,) knots to (N, C)."""
    return np.maximum(knots[None] - x[:, None], 0) ** 3


def curves(x, knots, coefficients):
    """(N, D) values of D splines at their inputs."""
    return np.stack(
        [powers(x[:, i].numpy(), knots[i].numpy()) @ coefficients[i].numpy() for i in range(len(knots))], 1
    )


def even(features, low=-2.0, high=2.0, count=10):
    return torch.linspace(low, high, count, dtype=torch.float64).repeat(features, 1)


def test_knots_are_quantiles_of_the_inputs_in_their_range_and_those_above_them():
    torch.manual_seed(0)
    x = torch.randn(4000, 4, dtype=torch.float64) * torch.tensor([0.2, 1.0, 9.0, 0.1])
    x[:, 2:] -= torch.tensor([3, 50])
    new = quantile_knots(x, even(4)).numpy()
    for i, own in enumerate(even(3).numpy()):
        column = x[:, i].numpy()
        column = column[abs(column) <= 2]
        above = own[own > np.quantile(column, 1 - TAIL)][:POLYNOMIAL]
        count = len(own) - len(above)
        levels = np.linspace(TAIL, 1 - TAIL, count + 1)[:-1]
        np.testing.assert_allclose(new[i], [*np.quantile(column, levels), *above], rtol=1e-12)
    assert [int((row > np.quantile(x[:, 0], 1 - TAIL)).sum()) for row in new[:1]] == [4]
    np.testing.assert_array_equal(new[3], even(1)[0])  # no input is in the range


@pytest.mark.parametrize("scale", [0.2, 3.0])
def test_the_refit_is_a_ridge_regression(scale):
    """Against the normal equations: the error of a thousandth of the spread weighs as much as old lengths."""
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.normal(size=(700, 4)) * scale)
    old, coefficients = even(4), torch.from_numpy(rng.normal(size=(4, 10)))
    new = quantile_knots(x, old)
    found = refitted(x, coefficients, old, new)
    before = curves(x, old, coefficients)
    for i in range(4):
        columns = powers(x[:, i].numpy(), new[i].numpy())
        ridge = (RIDGE * before[:, i].std() / np.linalg.norm(coefficients[i])) ** 2 * len(x)
        expected = np.linalg.solve(columns.T @ columns + ridge * np.eye(10), columns.T @ before[:, i])
        np.testing.assert_allclose(found[i].numpy(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (0.5, -1.0)])
def test_initial_curves_are_kept_within_2_percent_of_their_spread(scale, shift):
    """As a root mean square; 25% at any single input, which is reached among the outermost alone."""
    torch.manual_seed(3)
    layer = FeatureSplines(100)
    x = shift + scale * torch.randn(4000, 100)
    before = layer(x).detach()
    layer.update_grid(x)
    difference, spread = (layer(x).detach() - before).abs(), before.std(0)
    assert (difference.square().mean(0).sqrt() < 0.02 * spread).all()
    assert (difference.amax(0) < 0.25 * spread).all()
    # No coefficients so large that they cancel: the largest initial one is 0.02.
    assert layer.coefficients.abs().max() < 0.2


@each_layer
@pytest.mark.parametrize("value", [0.0, 0.3, -5.0, 1e20, math.nan, None])
def test_a_feature_with_one_value_or_none_keeps_its_knots_and_curve(make, value):
    torch.manual_seed(4)
    layer = make()
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    layer.update_grid(torch.empty(0, 6) if value is None else torch.full((50, 6), value))
    for name, tensor in layer.state_dict().items():
        torch.testing.assert_close(tensor, before[name], atol=1e-8, rtol=1e-5)
    assert torch.equal(knots_of(layer), before["grid" if isinstance(layer, KANLinear) else "knots"])
    layer.prune(torch.full((50, 6), math.nan), 0.5)
    assert layer.mask.any()


@each_layer
def test_inputs_that_are_not_finite_are_left_out(make):
    torch.manual_seed(5)
    x, layers = torch.randn(400, 6), []
    for rows in (x, torch.cat([x, torch.tensor([[math.nan, math.inf] * 3, [-math.inf, math.nan] * 3])])):
        torch.manual_seed(6)
        layers.append(make())
        layers[-1].update_grid(rows)
        layers[-1].prune(rows, 0.05)
    for a, b in zip(*(layer.state_dict().values() for layer in layers), strict=True):
        torch.testing.assert_close(a, b)
        assert a.isfinite().all()


def test_knots_that_were_planted_are_found():
    """Curves of three knots among seven without effect: those stay and no other."""
    x = torch.from_numpy(np.random.default_rng(7).normal(size=(2000, 4)))
    coefficients = torch.zeros(4, 10, dtype=torch.float64)
    planted = torch.tensor([[2, 5, 9], [3, 6, 8], [4, 6, 9], [3, 5, 7]])
    coefficients.scatter_(1, planted, torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64).expand(4, 3))
    everything = torch.ones(4, 10, dtype=torch.bool)
    mask, kept = eliminated(x, even(4), coefficients, everything, 1e-3)
    assert torch.equal(mask.nonzero()[:, 1].view(4, 3), planted)
    torch.testing.assert_close(kept, coefficients, atol=1e-4, rtol=0)


@given(
    features=st.integers(1, 4),
    num_knots=st.integers(2, 12),
    rows=st.integers(2, 80),
    scale=st.sampled_from([0.1, 1.0, 5.0]),
    threshold=st.sampled_from([1e-3, 0.05, 0.5]),
    seed=st.integers(0, 2**16),
)
def test_any_pruning_leaves_the_curves_within_the_threshold(
    features, num_knots, rows, scale, threshold, seed
):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(rows, features)) * scale)
    knots = even(features, count=num_knots)
    coefficients = torch.from_numpy(rng.normal(size=(features, num_knots)))
    allowed = torch.from_numpy(rng.random((features, num_knots)) < 0.9)
    mask, kept = eliminated(x, knots, coefficients * allowed, allowed, threshold)
    before = curves(x, knots, coefficients * allowed)
    after = curves(x, knots, kept)
    change = np.sqrt(((after - before) ** 2).mean(0))
    assert (change <= threshold * before.std(0) * (1 + 1e-6) + 1e-12).all()
    assert not (mask & ~allowed).any()  # what was pruned before stays so
    assert not kept[~mask].any()


def test_attention_multiplies_coefficients_by_shares_of_a_softmax():
    torch.manual_seed(11)
    plain, layer, x = FeatureSplines(5), FeatureSplines(5, splines="attention").double(), torch.randn(300, 5)
    plain.load_state_dict({name: layer.state_dict()[name] for name in ("knots", "coefficients")})
    torch.testing.assert_close(layer(x.double()).float(), plain(x))  # equal shares at the start
    assert layer.attention is not None
    layer.attention.data.normal_()
    raw = np.exp(layer.attention.detach().numpy())
    weighed = layer.coefficients.detach().numpy() * 10 * raw / raw.sum(1, keepdims=True)
    wanted = curves(x.double(), layer.knots.detach(), torch.from_numpy(weighed))
    np.testing.assert_allclose(layer(x.double()).detach().numpy(), wanted, rtol=1e-9, atol=1e-12)
    before = layer(x.double()).detach()
    layer.update_grid(x.double())
    assert not layer.attention.any()
    difference = (layer(x.double()) - before).square().mean(0).sqrt()
    assert (difference < 0.05 * before.std(0)).all()
