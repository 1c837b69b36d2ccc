"""Activations, of a channel, a layer or a whole row, against their formulas in numpy float64."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import norm

from ffn_variants import FFN_VARIANTS, UsageError, build_ffn
from tests.references import gelu_tanh, rational

CHANNELS = 24


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


# From the papers; p is the per-channel parameter, where there is one.
FORMULAS: dict[str, Callable[..., np.ndarray]] = {
    "gelu": lambda x, p: gelu_tanh(x),
    "learnable-gelu": lambda x, p: p * gelu_tanh(x),
    "relu": lambda x, p: np.maximum(x, 0),
    "relu2": lambda x, p: np.where(x > 0, x * x, 0),
    "leaky-relu2": lambda x, p: np.where(x > 0, x * x, x * x / 4),
    "prelu": lambda x, p: np.maximum(x, 0) + p * np.minimum(x, 0),
    "silu": lambda x, p: x * expit(x),
    "swish": lambda x, p: x * expit(p * x),
    "snake": lambda x, p: x + np.sin(p * x) ** 2 / p,
    "none": lambda x, p: x,
    "thesis-swish": lambda x, p: p * x**2 * expit(p * x),
    "xielu": xielu,
    "polyrelu": polyrelu,
    "polynorm": polynorm,
    "gaussian-topk": lambda x, p: gaussian_topk(x),
    "spline-activation": lambda x, knots, c: (np.maximum(knots - x[..., None], 0) ** 3 * c).sum(-1),
    "rational": lambda x, numerator, denominator: rational(x, numerator[None], denominator[None]),
}
each_activation = pytest.mark.parametrize("name", FORMULAS)


def build(name, **options):
    spec = FFN_VARIANTS[name]
    return spec.build(CHANNELS, **spec.resolve(options)).double()


def drawn(name):
    """With parameters that are none of those that it begins with: the formula is to hold for any."""
    module = build(name)
    for parameter in module.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)
    return module


def test_every_activation_has_a_formula_here():
    assert FORMULAS.keys() == {name for name, spec in FFN_VARIANTS.items() if spec.kind == "activation"}


@each_activation
@pytest.mark.parametrize(
    ("dtype", "limit", "scale"),
    [("float64", 1e-13, 5.0), ("float32", 1e-6, 0.01), ("float32", 1e-6, 5.0), ("bfloat16", 1e-2, 1.0)],
)
def test_value(name, dtype, limit, scale, error):
    torch.manual_seed(0)
    module = drawn(name).to(getattr(torch, dtype))
    # Channels last, with batch and token dimensions of other sizes: a parameter applied along the wrong
    # dimension cannot pass.
    x = (scale * torch.randn(3, 50, CHANNELS)).to(getattr(torch, dtype))
    y = module(x)
    assert y.dtype == x.dtype
    parameters = [p.detach().double().numpy() for p in module.parameters()]
    assert error(y, FORMULAS[name](x.double().numpy(), *(parameters or [None]))) < limit


@each_activation
def test_float32_gradients_are_those_of_float64(name, check_float32_gradients):
    torch.manual_seed(2)
    check_float32_gradients(drawn(name), torch.randn(200, CHANNELS))


def test_snake_of_frequency_zero_is_the_input():
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    snake = build("snake", init=0.0)
    out = snake(x.unsqueeze(1).expand(-1, CHANNELS))
    assert torch.equal(out[:, 0], x)
    out.sum().backward()
    torch.testing.assert_close(snake.frequency.grad, x.square().sum().expand(CHANNELS))


@pytest.mark.parametrize(
    ("name", "options", "formula"),
    [
        ("leaky-relu2", {"slope": 0.0}, lambda x: np.maximum(x, 0) ** 2),
        ("leaky-relu2", {"slope": 0.9}, lambda x: np.where(x > 0, x, 0.9 * x) ** 2),
        ("gelu", {"approximate": "none"}, lambda x: x * norm.cdf(x)),
    ],
)
def test_the_formula_has_options(name, options, formula):
    x = np.linspace(-4, 4, 41)
    y = build(name, **options)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(y, formula(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "initial"),
    [("learnable-gelu", 1.0), ("prelu", 0.25), ("swish", 1.0), ("snake", 1.0), ("thesis-swish", 1.0)],
)
def test_learnable_ones_have_one_parameter_per_channel(name, initial):
    (parameter,) = build(name).parameters()
    assert parameter.shape == (CHANNELS,)
    assert (parameter == initial).all()
    (parameter,) = build(name, init=0.5).parameters()
    assert (parameter == 0.5).all()


@pytest.mark.parametrize("name", ["gelu", "swish"])
def test_ffn_is_linear_activation_linear(name):
    torch.manual_seed(0)
    ffn = build_ffn(name, 4, CHANNELS).double()
    weights = {key: value.numpy() for key, value in ffn.state_dict().items()}
    x = np.random.default_rng(1).normal(size=(3, 4))
    p = next((value for key, value in weights.items() if key.startswith("act.")), None)
    hidden = FORMULAS[name](x @ weights["c_fc.weight"].T + weights["c_fc.bias"], p)
    expected = hidden @ weights["c_proj.weight"].T + weights["c_proj.bias"]
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-10, atol=1e-12)


def test_xielu_begins_where_it_is_told():
    module = build("xielu", init=2.0, beta=0.25)
    positive, negative = (softplus(p.item()) for p in (module.positive, module.negative))
    np.testing.assert_allclose([positive, 0.25 + negative], 2.0, rtol=1e-6)
    with pytest.raises(UsageError, match=r"must be 0 <= beta < init, got beta 0\.5, init 0\.5"):
        build_ffn("xielu", 3, 4, init=0.5)


@pytest.mark.parametrize("name", ["polyrelu", "polynorm"])
def test_polynomials_start_with_thirds_and_no_constant(name):
    weight, bias = build(name).parameters()
    assert weight.tolist() == [pytest.approx(1 / 3)] * 3
    assert bias.tolist() == [0]


def test_gaussian_topk_leaves_about_the_share_that_was_asked_for():
    torch.manual_seed(4)
    y = build("gaussian-topk", sparsity=0.7)(torch.randn(50, 4000))
    assert (y == 0).double().mean().item() == pytest.approx(0.7, abs=0.005)
    for wrong in (0, 1):
        with pytest.raises(UsageError, match="sparsity must be between 0 and 1, got"):
            build("gaussian-topk", sparsity=wrong)


def test_equal_channels_have_no_deviation_and_a_finite_gradient():
    x = torch.ones(3, CHANNELS, requires_grad=True)
    y = build("gaussian-topk")(x)
    y.sum().backward()
    assert not y.any()
    assert x.grad.isfinite().all()
