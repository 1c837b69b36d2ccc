"""Activations with coefficients of a layer, or of a whole row, against numpy in float64."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import norm
from transformers.activations import XIELUActivation
from transformers.models.gemma3n.configuration_gemma3n import Gemma3nTextConfig
from transformers.models.gemma3n.modeling_gemma3n import Gemma3nTextMLP

from ffn_variants import FFN_VARIANTS, UsageError, build_ffn

F = 24


def softplus(x):
    return np.log1p(np.exp(x))


def xielu(x, positive, negative):
    above = softplus(positive) * x**2 + 0.5 * x
    return np.where(x > 0, above, (0.5 + softplus(negative)) * (np.expm1(np.minimum(x, 0)) - x) + 0.5 * x)


def polyrelu(x, weight, bias):
    r = np.maximum(x, 0)
    return weight[2] * r + weight[1] * r**2 + weight[0] * r**3 + bias


def polynorm(x, weight, bias):
    powers = [x**3, x**2, x]
    return bias + sum(
        w * p / np.sqrt((p**2).mean(-1, keepdims=True) + 1e-6) for w, p in zip(weight, powers, strict=True)
    )


def gaussian_topk(x):
    mean, deviation = x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
    return np.maximum(x - mean - norm.ppf(0.95) * deviation, 0)


FORMULAS = {"xielu": xielu, "polyrelu": polyrelu, "polynorm": polynorm, "gaussian-topk": gaussian_topk}
each_curve = pytest.mark.parametrize("name", FORMULAS)


def build(name, width=F, **options):
    spec = FFN_VARIANTS[name]
    module = spec.build(width, **spec.resolve(options))
    for parameter in module.parameters():  # the formula is to hold for any
        parameter.data += 0.3 * torch.randn(parameter.shape)
    return module


def expected(name, module, x):
    """On the numbers that the module really has."""
    return FORMULAS[name](x.double().numpy(), *(p.detach().double().numpy() for p in module.parameters()))


@each_curve
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-13), ("float32", 1e-6), ("bfloat16", 1e-2)])
@pytest.mark.parametrize("scale", [0.01, 1.0, 5.0])
def test_value(name, dtype, limit, scale, error):
    torch.manual_seed(0)
    module = build(name).to(getattr(torch, dtype))
    x = (scale * torch.randn(3, 50, F)).to(getattr(torch, dtype))
    y = module(x)
    assert y.dtype == x.dtype
    assert error(y, expected(name, module, x)) < limit


@each_curve
def test_float32_gradients_are_those_of_float64(name, error):
    torch.manual_seed(2)
    module, x, grad = build(name), torch.randn(200, F), torch.randn(200, F)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        module, inputs = module.to(dtype), x.to(dtype).requires_grad_()
        gradients.append(torch.autograd.grad(module(inputs), [inputs, *module.parameters()], grad.to(dtype)))
    for single, exact in zip(*gradients, strict=True):
        assert error(single, exact) < 5e-6


@pytest.mark.slow
@each_curve
def test_compiled_values_and_gradients_are_the_eager_ones(name, compiled_kernels, error):
    torch.manual_seed(3)
    module, x = build(name), torch.randn(100, F, requires_grad=True)
    y = module(x)
    assert error(y, expected(name, module, x.detach())) < 1e-6
    found = torch.autograd.grad(y.square().sum(), [x, *module.parameters()])
    exact = module.double(), x.detach().double().requires_grad_()
    wanted = torch.autograd.grad(exact[0](exact[1]).square().sum(), [exact[1], *exact[0].parameters()])
    for a, b in zip(found, wanted, strict=True):
        assert error(a, b) < 5e-6


def test_xielu_is_that_of_transformers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = XIELUActivation(dtype=torch.float64)
    spec = FFN_VARIANTS["xielu"]
    ours = spec.build(F, **spec.resolve(None)).double()
    x = torch.linspace(-5, 5, 101, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs._xielu_python(x), atol=1e-6, rtol=1e-6)


def test_xielu_begins_where_it_is_told():
    spec = FFN_VARIANTS["xielu"]
    module = spec.build(F, **spec.resolve({"init": 2.0, "beta": 0.25}))
    positive, negative = (softplus(p.item()) for p in (module.positive, module.negative))
    np.testing.assert_allclose([positive, 0.25 + negative], 2.0, rtol=1e-6)
    with pytest.raises(UsageError, match=r"must be 0 <= beta < init, got beta 0\.5, init 0\.5"):
        build_ffn("xielu", 3, 4, init=0.5)


@pytest.mark.parametrize("name", ["polyrelu", "polynorm"])
def test_polynomials_start_with_thirds_and_no_constant(name):
    weight, bias = FFN_VARIANTS[name].build(F).parameters()
    assert weight.tolist() == [pytest.approx(1 / 3)] * 3
    assert bias.tolist() == [0]


def test_gaussian_topk_is_that_of_gemma_3n():
    theirs = Gemma3nTextMLP(Gemma3nTextConfig(hidden_size=8, intermediate_size=[F], num_hidden_layers=1))
    theirs.activation_sparsity = 0.8
    x = torch.randn(20, F)
    torch.testing.assert_close(build("gaussian-topk", sparsity=0.8)(x), theirs._gaussian_topk(x))


def test_gaussian_topk_leaves_about_the_share_that_was_asked_for():
    torch.manual_seed(4)
    for sparsity in (0.5, 0.95):
        y = build("gaussian-topk", sparsity=sparsity)(torch.randn(50, 4000))
        assert (y == 0).double().mean().item() == pytest.approx(sparsity, abs=0.005)
    for wrong in (0, 1, -0.5):
        with pytest.raises(UsageError, match="sparsity must be between 0 and 1, got"):
            build("gaussian-topk", sparsity=wrong)


def test_equal_channels_have_no_deviation_and_a_finite_gradient():
    x = torch.ones(3, F, requires_grad=True)
    y = build("gaussian-topk")(x)
    y.sum().backward()
    assert not y.any()
    assert x.grad.isfinite().all()
