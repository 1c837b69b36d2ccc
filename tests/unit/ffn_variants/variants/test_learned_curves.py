"""Rationals of a channel group or a layer, against numpy in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares
from scipy.special import expit
from scipy.stats import norm

from ffn_variants import FFN_VARIANTS, UsageError, build_ffn, build_model
from ffn_variants.variants.learned_curves import EVEN_PARTS, GroupRational, choose_groups, grouped_rational
from tests.references import rational


@given(
    seed=st.integers(0, 2**32 - 1),
    groups=st.integers(1, 5),
    width=st.integers(1, 6),
    rows=st.lists(st.integers(1, 4), max_size=2),
)
def test_rationals_of_groups_are_their_formula(seed, groups, width, rows):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(*rows, groups * width)) * 1.5
    numerator, denominator = rng.normal(size=(groups, 6)), rng.normal(size=(groups, 4))
    y = grouped_rational(*map(torch.from_numpy, (x, numerator, denominator)))
    np.testing.assert_allclose(y.numpy(), rational(x, numerator, denominator), rtol=1e-11, atol=1e-11)


def test_bf16_inputs_of_rationals_are_evaluated_in_float32():
    torch.manual_seed(2)
    x, numerator, denominator = torch.randn(500, 12).bfloat16(), torch.randn(3, 6), torch.randn(3, 4)
    expected = grouped_rational(x.float(), numerator, denominator).bfloat16()
    assert torch.equal(grouped_rational(x, numerator, denominator), expected)


def test_coefficient_gradients_keep_their_digits_over_many_rows(check_float32_gradients):
    torch.manual_seed(0)
    check_float32_gradients(GroupRational(8, "swish"), torch.randn(4096, 128))


def test_gradient_agrees_with_finite_differences_where_the_absolute_value_turns():
    # A = x - x^3 changes its sign at -1, 0 and 1, between the inputs.
    x = torch.tensor([[-1.4, -0.6], [0.3, 1.7]], dtype=torch.float64, requires_grad=True)
    numerator = torch.arange(1, 7, dtype=torch.float64).div(7).view(1, 6).requires_grad_()
    denominator = torch.tensor([[1.0, 0.0, -1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(grouped_rational, (x, numerator, denominator))


STARTS = {
    "gelu": (lambda x: x * norm.cdf(x), 6, 2001, 0.5, 0.005),
    "swish": (lambda x: x * expit(x), 6, 2001, 0.5, 0.0001),
    "leaky-relu": (lambda x: np.where(x > 0, x, 0.01 * x), 3, 4001, 0.505, 0.027),
}
"""How far and at how many points each function was fitted, its slope at 0, and the error up to 3."""


@pytest.mark.parametrize("function", STARTS)
def test_starting_function_is_the_least_squares_fit(function):
    wanted, reach, points, slope, near = STARTS[function]
    x = np.linspace(-reach, reach, points)

    def miss(p):
        return (p[0] * x**2 + p[1] * x**4) / (1 + p[2] * x**2 + p[3] * x**4) - (wanted(x) - slope * x)

    begin = [1, 1, 1, 1] if function == "leaky-relu" else [0.3, 0.02, 0.1, 0.002]
    fit = least_squares(miss, begin, bounds=(0, np.inf), x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(EVEN_PARTS[function], fit.x, rtol=1e-4)
    x = np.linspace(-3, 3, 601)
    y = GroupRational(1, function)(torch.from_numpy(x)[:, None]).detach().numpy()[:, 0]
    assert np.abs(y - wanted(x)).max() < near


def test_first_rational_starts_as_the_identity_and_can_learn():
    rational = GroupRational(2, "identity")
    x = torch.randn(100, 6) * 3
    y = rational(x)
    torch.testing.assert_close(y, x, rtol=1e-6, atol=1e-6)
    y.pow(3).sum().backward()
    assert (rational.numerator.grad != 0).all()
    assert (rational.denominator.grad != 0).all()


def test_rational_has_ten_coefficients_that_start_as_leaky_relu():
    spec, x = FFN_VARIANTS["rational"], torch.linspace(-3, 3, 601)
    for options, start in (({}, "leaky-relu"), ({"init": "swish"}, "swish")):
        module = spec.build(6, **spec.resolve(options))
        assert [p.numel() for p in module.parameters()] == [6, 4]
        expected = GroupRational(1, start)(x.unsqueeze(-1))
        torch.testing.assert_close(module(x.unsqueeze(-1)), expected)


def test_gr_kan_is_rational_linear_rational_linear():
    torch.manual_seed(1)
    ffn = build_ffn("gr-kan", 6, 8, groups=2).double()
    for parameter in ffn.parameters():
        parameter.data = torch.randn_like(parameter)
    w = {key: value.numpy() for key, value in ffn.state_dict().items()}
    x = np.random.default_rng(2).normal(size=(2, 3, 6))

    def bent(x, name):
        return rational(x, np.tile(w[f"{name}.numerator"], (2, 1)), w[f"{name}.denominator"])

    hidden = bent(x, "input_rational") @ w["c_fc.weight"].T + w["c_fc.bias"]
    expected = bent(hidden, "hidden_rational") @ w["c_proj.weight"].T + w["c_proj.bias"]
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-9, atol=1e-9)


def test_a_model_starts_with_the_fitted_rationals():
    model = build_model(
        "gpt_neo", "gr-kan", {"init": "gelu"}, hidden_size=32, intermediate_size=64, vocab_size=9
    )
    for block in (m for m in model.modules() if hasattr(m, "input_rational")):
        for name, function in (("input_rational", "identity"), ("hidden_rational", "gelu")):
            for key, value in GroupRational(8, function).state_dict().items():
                assert torch.equal(getattr(block, name).state_dict()[key], value), (name, key)


@pytest.mark.parametrize(
    ("sizes", "groups"), [((512, 1024), 8), ((12, 20), 4), ((3, 4), 1), ((512, 1023), 1), ((14, 28), 7)]
)
def test_default_is_the_largest_number_of_groups_that_fits(sizes, groups):
    assert choose_groups(*sizes, groups=0) == groups


def test_groups_that_do_not_divide_the_sizes_are_a_usage_error():
    with pytest.raises(UsageError, match=r"must divide hidden_size 12 and .* 20, got 8; 4 does, or change"):
        build_ffn("gr-kan", 12, 20, groups=8)
    with pytest.raises(UsageError, match="option groups must be at least 0, got -1"):
        build_ffn("gr-kan", 12, 20, groups=-1)
