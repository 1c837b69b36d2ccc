"""Group rationals against numpy in float64, their starting functions against a fit made again, and errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares
from scipy.special import expit
from scipy.stats import norm

from ffn_variants import UsageError, build_ffn, build_model
from ffn_variants.variants.learned_curves import EVEN_PARTS, GroupRational, choose_groups, grouped_rational

FUNCTIONS = {"gelu": lambda x: x * norm.cdf(x), "swish": lambda x: x * expit(x)}


def formula(x, numerator, denominator):
    """P / (1 + |A|) one channel at a time, by powers."""
    width = x.shape[-1] // len(denominator)
    y = np.empty_like(x)
    for channel in range(x.shape[-1]):
        a, b = numerator[channel // width], denominator[channel // width]
        p = sum(c * x[..., channel] ** k for k, c in enumerate(a))
        inner = sum(c * x[..., channel] ** k for k, c in enumerate(b, 1))
        y[..., channel] = p / (1 + np.abs(inner))
    return y


def gradients(x, numerator, denominator, weights):
    """Gradients of sum(weights * F(x)) by the quotient rule, one element at a time."""
    of_x, of_a, of_b = np.zeros_like(x), np.zeros_like(numerator), np.zeros_like(denominator)
    width = x.shape[-1] // len(denominator)
    for index, value in np.ndenumerate(x):
        group = index[-1] // width
        a, b = np.polynomial.Polynomial(numerator[group]), np.polynomial.Polynomial([0, *denominator[group]])
        inner = b(value)
        q, weight, sign = 1 + abs(inner), weights[index], np.sign(inner)
        of_x[index] = weight * (a.deriv()(value) * q - a(value) * sign * b.deriv()(value)) / q**2
        of_a[group] += weight * value ** np.arange(6) / q
        of_b[group] -= weight * a(value) * sign * value ** np.arange(1, 5) / q**2
    return of_x, of_a, of_b


def draw(seed, groups=3, width=4, rows=(2, 7)):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(*rows, groups * width)) * 1.5
    return x, rng.normal(size=(groups, 6)), rng.normal(size=(groups, 4))


@given(
    seed=st.integers(0, 2**32 - 1),
    groups=st.integers(1, 5),
    width=st.integers(1, 6),
    rows=st.lists(st.integers(1, 4), max_size=2),
)
def test_value(seed, groups, width, rows):
    x, numerator, denominator = draw(seed, groups, width, rows)
    y = grouped_rational(*map(torch.from_numpy, (x, numerator, denominator)))
    np.testing.assert_allclose(y.numpy(), formula(x, numerator, denominator), rtol=1e-11, atol=1e-11)


def test_bf16_inputs_are_evaluated_in_float32():
    x, numerator, denominator = (torch.from_numpy(array) for array in draw(2, rows=(500,)))
    x = x.bfloat16()
    expected = grouped_rational(x.float(), numerator.float(), denominator.float()).bfloat16()
    assert torch.equal(grouped_rational(x, numerator.float(), denominator.float()), expected)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-11), ("float32", 5e-6)])
def test_gradients(dtype, tolerance):
    arrays = draw(3, rows=(100,))
    weights = np.random.default_rng(4).normal(size=arrays[0].shape)
    given_ = [torch.from_numpy(array).to(getattr(torch, dtype)).requires_grad_() for array in arrays]
    (grouped_rational(*given_) * torch.from_numpy(weights).to(given_[0])).sum().backward()
    # float32 rounds the inputs themselves, so the reference starts from the rounded ones.
    rounded = [tensor.detach().double().numpy() for tensor in given_]
    for tensor, expected in zip(given_, gradients(*rounded, weights), strict=True):
        scale = np.maximum(1, np.abs(expected).max())
        np.testing.assert_allclose(tensor.grad.double().numpy(), expected, rtol=0, atol=tolerance * scale)


def test_coefficient_gradients_keep_their_digits_over_many_rows():
    torch.manual_seed(0)
    rational, x = GroupRational(8, "swish"), torch.randn(4096, 512)
    weights = torch.randn(4096, 512)
    found = []
    for dtype in (torch.float64, torch.float32):
        rational.to(dtype).zero_grad()
        (rational(x.to(dtype)) * weights.to(dtype)).sum().backward()
        found.append([parameter.grad.double().clone() for parameter in rational.parameters()])
    for exact, single in zip(*found, strict=True):
        assert (single - exact).abs().max() < 5e-6 * exact.abs().max()


def test_gradient_agrees_with_finite_differences_where_the_absolute_value_turns():
    # A = x - x^3 changes its sign at -1, 0 and 1, between the inputs.
    x = torch.tensor([[-1.4, -0.6], [0.3, 1.7]], dtype=torch.float64, requires_grad=True)
    numerator = torch.arange(1, 7, dtype=torch.float64).div(7).view(1, 6).requires_grad_()
    denominator = torch.tensor([[1.0, 0.0, -1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(grouped_rational, (x, numerator, denominator))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_starting_function_is_the_least_squares_fit(function):
    x = np.linspace(-6, 6, 2001)
    even = FUNCTIONS[function](x) - x / 2

    def residuals(p):
        return (p[0] * x**2 + p[1] * x**4) / (1 + p[2] * x**2 + p[3] * x**4) - even

    fit = least_squares(residuals, [0.3, 0.02, 0.1, 0.002], x_scale="jac", ftol=1e-15, xtol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(EVEN_PARTS[function], fit.x, rtol=1e-5)


@pytest.mark.parametrize(("function", "near", "far"), [("gelu", 0.005, 0.03), ("swish", 0.0001, 0.015)])
def test_starting_function_is_near_the_true_one(function, near, far):
    rational = GroupRational(1, function)
    for reach, allowed in ((3, near), (8, far)):
        x = np.linspace(-reach, reach, 601)
        y = rational(torch.from_numpy(x)[:, None]).detach().numpy()[:, 0]
        assert np.abs(y - FUNCTIONS[function](x)).max() < allowed


def test_first_rational_starts_as_the_identity_and_can_learn():
    rational = GroupRational(2, "identity")
    x = torch.randn(100, 6) * 3
    y = rational(x)
    torch.testing.assert_close(y, x, rtol=1e-6, atol=1e-6)
    y.pow(3).sum().backward()
    assert (rational.numerator.grad != 0).all()
    assert (rational.denominator.grad != 0).all()


def test_ffn_is_rational_linear_rational_linear():
    torch.manual_seed(1)
    ffn = build_ffn("gr-kan", 6, 8, groups=2).double()
    for parameter in ffn.parameters():
        parameter.data = torch.randn_like(parameter)
    w = {key: value.numpy() for key, value in ffn.state_dict().items()}
    x = np.random.default_rng(2).normal(size=(2, 3, 6))

    def rational(x, name):
        return formula(x, np.tile(w[f"{name}.numerator"], (2, 1)), w[f"{name}.denominator"])

    hidden = rational(x, "input_rational") @ w["c_fc.weight"].T + w["c_fc.bias"]
    expected = rational(hidden, "hidden_rational") @ w["c_proj.weight"].T + w["c_proj.bias"]
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])  # of T5 test_modeling says it
def test_model_starts_with_the_fitted_rationals_and_the_linear_layers_of_the_family(family):
    torch.manual_seed(3)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "vocab_size": 50, "initializer_range": 0.03}
    model = build_model(family, "gr-kan", {"init": "gelu"}, **sizes)
    blocks = [m for m in model.modules() if hasattr(m, "input_rational")]
    assert len(blocks) == 2
    for block in blocks:
        for name, function in (("input_rational", "identity"), ("hidden_rational", "gelu")):
            for key, value in GroupRational(8, function).state_dict().items():
                assert torch.equal(getattr(block, name).state_dict()[key], value), (name, key)
        for linear in (block.c_fc, block.c_proj):
            assert abs(linear.weight.std().item() / 0.03 - 1) < 0.03
            assert not linear.bias.any()


@pytest.mark.parametrize(
    ("sizes", "groups"), [((512, 1024), 8), ((12, 20), 4), ((3, 4), 1), ((512, 1023), 1), ((14, 28), 7)]
)
def test_default_is_the_largest_number_of_groups_that_fits(sizes, groups):
    assert choose_groups(*sizes, groups=0) == groups


def test_groups_that_do_not_divide_the_sizes_are_a_usage_error():
    message = (
        r"'gr-kan' option groups must divide hidden_size 12 and intermediate_size 20, got 8; "
        r"4 does, or change the sizes"
    )
    with pytest.raises(UsageError, match=message):
        build_ffn("gr-kan", 12, 20, groups=8)
    with pytest.raises(UsageError, match="option groups must be at least 0, got -1"):
        build_ffn("gr-kan", 12, 20, groups=-1)
