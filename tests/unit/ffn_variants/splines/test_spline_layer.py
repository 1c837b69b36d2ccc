"""Sparse KAN layers: their masks, what pruning leaves, and the penalty that makes something to prune."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from transformers import AutoModelForCausalLM

from base.errors import UsageError
from ffn_variants import FFN_VARIANTS, build_ffn, build_model
from ffn_variants.splines.spline_layer import largest_levels, sparsity_penalty, spline_layers
from ffn_variants.variants.kan import KANLinear
from ffn_variants.variants.spline_kan import FeatureSplines

SPLINE_VARIANTS = [name for name, spec in FFN_VARIANTS.items() if "splines" in spec.options]

each_layer = pytest.mark.parametrize(
    "make", [lambda: KANLinear(6, 5, splines="sparse"), lambda: FeatureSplines(6, splines="sparse")]
)


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


def test_coefficients_without_effect_go_and_outputs_stay():
    torch.manual_seed(3)
    layer = trained_like(KANLinear(5, 4, splines="sparse"))
    unused = torch.rand(layer.spline_weight.shape) < 0.5
    layer.spline_weight.data[unused] = 0
    x = torch.randn(300, 5)
    before = layer(x)
    layer.prune(x, 1e-9)
    assert layer.mask is not None
    assert not layer.mask[unused].any()
    assert torch.equal(layer(x), before)


def test_pruning_again_only_takes_more():
    torch.manual_seed(4)
    layer, x = trained_like(KANLinear(5, 4, splines="sparse")), torch.randn(300, 5)
    layer.prune(x, 0.1)
    assert layer.mask is not None
    first = layer.mask.clone()
    layer.prune(x, 0.1)
    assert not (layer.mask & ~first).any()
    layer.prune(torch.full((3, 5), torch.nan), 0.1)  # says nothing of any coefficient
    assert layer.mask.any()


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
    sizes = {"hidden_size": 16, "intermediate_size": 12, "num_heads": 2, "num_layers": 1, "vocab_size": 50}
    torch.manual_seed(6)
    model = build_model("gpt_neo", name, {"splines": "sparse"}, **sizes).eval()
    for layer in spline_layers(model):
        features = layer.in_features if isinstance(layer, KANLinear) else len(layer.get_parameter("knots"))
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
