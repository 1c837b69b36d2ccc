"""The rational activation against numpy in float64, and what it starts as; its kernels are gr-kan's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import least_squares

from ffn_variants import FFN_VARIANTS
from ffn_variants.variants.learned_curves import EVEN_PARTS, initial_coefficients


def build(**options):
    spec = FFN_VARIANTS["rational"]
    return spec.build(6, **spec.resolve(options))


@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-12), ("float32", 1e-6), ("bfloat16", 1e-2)])
def test_value(dtype, limit, error):
    torch.manual_seed(0)
    module = build().to(getattr(torch, dtype))
    for parameter in module.parameters():
        parameter.data.normal_()
    x = torch.randn(2, 40, 6).to(getattr(torch, dtype))
    a, b = (p.detach().double().numpy() for p in (module.numerator, module.denominator))
    u = x.double().numpy()
    expected = np.polyval(a[::-1], u) / (1 + np.abs(np.polyval([*b[::-1], 0], u)))
    assert error(module(x), expected) < limit


def test_it_starts_as_leaky_relu_to_what_the_fit_can():
    x = torch.linspace(-3, 3, 601)
    start = build()(x.unsqueeze(-1)).squeeze(-1)
    assert (start - torch.nn.functional.leaky_relu(x)).abs().max() < 0.027
    swish = build(init="swish")(x.unsqueeze(-1)).squeeze(-1)
    assert (swish - torch.nn.functional.silu(x)).abs().max() < 1e-4
    assert build(init="identity")(x.unsqueeze(-1)).squeeze(-1).allclose(x, atol=1e-6)


def test_the_fit_made_again_gives_its_constants():
    x = np.linspace(-3, 3, 4001)

    def miss(p):
        return (p[0] * x**2 + p[1] * x**4) / (1 + p[2] * x**2 + p[3] * x**4) - 0.495 * np.abs(x)

    fit = least_squares(miss, [1, 1, 1, 1], bounds=(0, np.inf), xtol=1e-15, ftol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(EVEN_PARTS["leaky-relu"], fit.x, rtol=1e-4)


def test_ten_coefficients_for_a_layer_of_which_none_begins_without_a_slope():
    module = build()
    assert [p.numel() for p in module.parameters()] == [6, 4]
    module(torch.randn(50, 6)).square().sum().backward()
    assert all(p.grad.all() for p in module.parameters())
    assert len(initial_coefficients("gelu")[0]) == 6
