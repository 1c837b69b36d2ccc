"""KAN layers of every basis that is summed by one kernel, against their formulas in numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import eval_chebyt, eval_chebyu, eval_hermite, eval_jacobi, expit

from ffn_variants import build_ffn
from ffn_variants.variants.bump_kan import RBFKANLinear, ReLUKANLinear
from ffn_variants.variants.series_kan import (
    ChebyKANLinear,
    FourierKANLinear,
    HermiteBasis,
    JacobiBasis,
    PolynomialKANLinear,
    SineKANLinear,
)


def fourier_formula(x, coefficients, bias, grad):
    """Coefficients (2, O, I, G), cosines first."""
    k = np.arange(1, coefficients.shape[-1] + 1)
    cos, sin = np.cos(k * x[..., None]), np.sin(k * x[..., None])
    a, b = coefficients
    y = np.einsum("nig,oig->no", cos, a) + np.einsum("nig,oig->no", sin, b) + bias
    of_x = np.einsum("no,oig,nig->ni", grad, b * k, cos) - np.einsum("no,oig,nig->ni", grad, a * k, sin)
    of_coefficients = np.stack([np.einsum("no,nig->oig", grad, wave) for wave in (cos, sin)])
    return y, [of_x, of_coefficients, grad.sum(0).reshape(bias.shape)]


def rbf_formula(x, gamma, beta, splines, weight, bias, grad):
    """Normalise, sum the bumps of all inputs, and add the base layer."""
    deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    z = (x - x.mean(-1, keepdims=True)) / deviation
    n = gamma * z + beta
    grid = splines.shape[1] // x.shape[1]
    centres = np.linspace(-2, 2, grid)
    step = 4 / (grid - 1)
    v = splines.reshape(len(splines), x.shape[1], grid)
    bumps = np.exp(-(((n[..., None] - centres) / step) ** 2))
    y = np.einsum("nig,oig->no", bumps, v) + (x * expit(x)) @ weight.T + bias
    slopes = bumps * -2 * (n[..., None] - centres) / step**2
    of_n = np.einsum("no,oig,nig->ni", grad, v, slopes)
    of_z = of_n * gamma
    of_x = (of_z - of_z.mean(-1, keepdims=True) - z * (of_z * z).mean(-1, keepdims=True)) / deviation
    of_x += (grad @ weight) * expit(x) * (1 + x * expit(-x))
    of_splines = np.einsum("no,nig->oig", grad, bumps).reshape(splines.shape)
    parameters = [(of_n * z).sum(0), of_n.sum(0), of_splines, grad.T @ (x * expit(x)), grad.sum(0)]
    return y, [of_x, *parameters]


def polynomial_formula(values, slopes):
    """From P_k(u) and its derivative, as functions of k and u; coefficients (I, O, n + 1)."""

    def formula(x, coefficients, grad):
        u, terms = np.tanh(x), range(coefficients.shape[2])
        features = np.stack([values(k, u) for k in terms], -1)
        of_u = np.stack([slopes(k, u) for k in terms], -1)
        y = np.einsum("nik,iok->no", features, coefficients)
        of_x = np.einsum("no,nik,iok->ni", grad, of_u, coefficients) / np.cosh(x) ** 2
        return y, [of_x, np.einsum("no,nik->iok", grad, features)]

    return formula


chebyshev_formula = polynomial_formula(eval_chebyt, lambda k, u: k * eval_chebyu(k - 1, u) if k else 0 * u)
hermite_formula = polynomial_formula(
    eval_hermite, lambda k, u: 2 * k * eval_hermite(k - 1, u) if k else 0 * u
)


def jacobi_formula(alpha, beta):
    """P_k^(a, b)' is (k + a + b + 1) / 2 times P_{k - 1}^(a + 1, b + 1)."""

    def slopes(k, u):
        return (k + alpha + beta + 1) / 2 * eval_jacobi(k - 1, alpha + 1, beta + 1, u) if k else 0 * u

    return polynomial_formula(lambda k, u: eval_jacobi(k, alpha, beta, u), slopes)


def sine_formula(x, amplitudes, frequency, bias, grad, phase):
    """Sum sine by sine; amplitudes (O, I, G), phases (G, I)."""
    angle = frequency * x[..., None] + phase.T
    y = np.einsum("nig,oig->no", np.sin(angle), amplitudes) + bias
    of_angle = np.einsum("no,oig,nig->nig", grad, amplitudes, np.cos(angle))
    of_amplitudes = np.einsum("no,nig->oig", grad, np.sin(angle))
    of_frequency = np.einsum("nig,ni->g", of_angle, x)
    return y, [(of_angle * frequency).sum(-1), of_amplitudes, of_frequency, grad.sum(0)]


def relu_formula(x, weight, left, right, bias, grad):
    """Ends (K, I); r is 4 over the square of a bump's first width, four intervals of [-2, 2]."""
    bumps = len(left)
    width = 4 * 4 / (bumps - 3)
    w = weight.reshape(len(weight), bumps, -1)
    rise, fall = (np.maximum(v, 0) for v in (x[:, None] - left, right - x[:, None]))
    factor = (4 / width**2) ** 2
    y = np.einsum("nki,oki->no", factor * (rise * fall) ** 2, w) + bias
    of_bump = factor * np.einsum("no,oki->nki", grad, w)
    of_rise, of_fall = of_bump * 2 * rise * fall**2, of_bump * 2 * fall * rise**2
    of_weight = np.einsum("no,nki->oki", grad, factor * (rise * fall) ** 2).reshape(weight.shape)
    return y, [(of_rise - of_fall).sum(1), of_weight, -of_rise.sum(0), of_fall.sum(0), grad.sum(0)]


RBF_PARAMETERS = (
    *("layernorm.weight", "layernorm.bias"),
    *("spline_weight", "base_linear.weight", "base_linear.bias"),
)


@dataclass(frozen=True)
class Basis:
    """A KAN layer and what is to hold of it.

    Attributes:
        layer: Its class, called with inputs, outputs and the number of terms.
        formula: From x, the parameters and the gradient of the outputs, all in float64: the outputs, and
            the gradients of x and of every parameter.
        parameters: Their names, in the order of the formula's arguments.
        option: Of the variant: the number of terms.
        terms: Numbers of terms to try in float32.
        scales: Of inputs there.
        any_scales: Of inputs in float64, where the number of terms is any.
        limits: Errors of outputs and gradients there.
        drawn: Parameters that are constant at the start, drawn for that.
        constants: Buffers that the formula takes by name.
        least: The smallest number of terms, and of inputs.
        start: Arguments of the layer by which its curves are large enough to be seen.
        edge_inputs: Values to try besides random ones.
    """

    layer: Callable[..., torch.nn.Module]
    formula: Callable[..., tuple[np.ndarray, list[np.ndarray]]]
    parameters: tuple[str, ...]
    option: str
    terms: tuple[int, ...]
    scales: tuple[float, ...]
    any_scales: tuple[float, ...]
    limits: tuple[float, float]
    drawn: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    least: tuple[int, int] = (1, 1)
    start: dict[str, Any] = field(default_factory=dict)
    edge_inputs: tuple[float, ...] = ()

    def tensors(self, layer: torch.nn.Module) -> list[torch.Tensor]:
        named = dict(layer.named_parameters())
        assert set(named) == set(self.parameters)
        return [named[name] for name in self.parameters]

    def expected(self, layer, x, grad):
        """On the numbers that the layer really has."""
        numbers = (t.detach().double().numpy() for t in (x, *self.tensors(layer), grad))
        return self.formula(*numbers, **self.buffers(layer))

    def buffers(self, layer: torch.nn.Module) -> dict[str, np.ndarray]:
        return {name: layer.get_buffer(name).double().numpy() for name in self.constants}

    def check(self, layer, x, grad, error, output_limit, gradient_limit) -> None:
        x = x.requires_grad_()
        y = layer(x)
        gradients = torch.autograd.grad(y, [x, *self.tensors(layer)], grad)
        expected, expected_gradients = self.expected(layer, x, grad)
        assert error(y, expected) < output_limit
        for name, found, wanted in zip(("x", *self.parameters), gradients, expected_gradients, strict=True):
            assert error(found, wanted) < gradient_limit, name


BASES: dict[str, Basis] = {
    "cheby-kan": Basis(
        ChebyKANLinear,
        chebyshev_formula,
        ("cheby_coeffs",),
        option="degree",
        terms=(20, 4, 8),
        scales=(0.1, 1.0, 10.0),
        any_scales=(0.01, 1.0, 5.0),
        limits=(1e-12, 1e-11),
        edge_inputs=(50.0, -50.0, 0.0),
    ),
    "fourier-kan": Basis(
        FourierKANLinear,
        fourier_formula,
        ("fouriercoeffs", "bias"),
        option="grid_size",
        terms=(1, 5, 20),
        scales=(1.0, 10.0, 300.0),
        any_scales=(0.01, 1.0, 100.0),
        limits=(1e-11, 1e-11),
        drawn=("bias",),
        start={"init_scale": 0.1},
    ),
    "rbf-kan": Basis(
        RBFKANLinear,
        rbf_formula,
        RBF_PARAMETERS,
        option="grid_size",
        terms=(2, 8, 20),
        scales=(0.1, 1.0, 10.0),
        any_scales=(0.1, 1.0, 100.0),
        limits=(1e-12, 1e-10),
        drawn=RBF_PARAMETERS,
        least=(2, 2),
    ),
}


def of_polynomials(basis):
    """Called as the layers of other bases are, with inputs, outputs and the degree."""
    return lambda inputs, outputs, degree=4: PolynomialKANLinear(
        inputs, outputs, basis(degree), [1.0] * (degree + 1)
    )


def polynomials(basis, formula):
    return Basis(
        of_polynomials(basis),
        formula,
        ("coefficients",),
        option="degree",
        terms=(1, 4, 8),
        scales=(0.1, 1.0, 10.0),
        any_scales=(0.01, 1.0, 5.0),
        limits=(1e-12, 1e-11),
        edge_inputs=(50.0, -50.0, 0.0),
    )


BASES |= {
    "hermite-kan": polynomials(HermiteBasis, hermite_formula),
    "jacobi-kan": polynomials(lambda n: JacobiBasis(n, 1.0, 1.0), jacobi_formula(1, 1)),
    "sine-kan": Basis(
        SineKANLinear,
        sine_formula,
        ("amplitudes", "frequency", "bias"),
        option="grid_size",
        terms=(1, 8, 12),
        scales=(0.1, 1.0, 5.0),
        any_scales=(0.01, 1.0, 50.0),
        limits=(1e-11, 1e-10),
        drawn=("bias",),
        constants=("phase",),
    ),
    "relu-kan": Basis(
        ReLUKANLinear,
        relu_formula,
        ("weight", "left_knots", "right_knots", "bias"),
        option="grid_size",
        terms=(1, 5, 12),
        scales=(0.1, 1.0, 10.0),
        any_scales=(0.01, 1.0, 10.0),
        limits=(1e-12, 1e-10),
        drawn=("bias",),
    ),
}
each_basis = pytest.mark.parametrize("name", BASES)


@pytest.mark.parametrize(
    ("name", "terms", "scale"),
    [(name, *case) for name, basis in BASES.items() for case in zip(basis.terms, basis.scales, strict=True)],
)
def test_outputs_and_gradients_are_those_of_the_formula_in_float32(name, terms, scale, error):
    torch.manual_seed(0)
    basis = BASES[name]
    x = scale * torch.randn(200, 16)
    for row, value in enumerate(basis.edge_inputs):
        x[row] = value
    # Near the ends T_n has slope n^2: what float32 rounds off tanh x is 400 times as much in T_20.
    steep = (name, terms) == ("cheby-kan", 20)
    layer = basis.layer(16, 12, terms, **basis.start)
    basis.check(layer, x, torch.randn(200, 12), error, 1e-6, 1e-5 if steep else 5e-6)


@each_basis
@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 4)),
    terms=st.integers(1, 20),
    scale=st.integers(0, 2),
    seed=st.integers(0, 2**16),
)
def test_any_layer_is_its_formula_in_float64(name, sizes, terms, scale, seed, error):
    basis = BASES[name]
    assume(terms >= basis.least[0])
    assume(sizes[0] >= basis.least[1])
    torch.manual_seed(seed)
    layer = basis.layer(*sizes, terms).double()
    for parameter in basis.drawn:
        layer.get_parameter(parameter).data.normal_()
    x = basis.any_scales[scale] * torch.randn(6, sizes[0], dtype=torch.float64)
    basis.check(layer, x, torch.randn(6, sizes[1], dtype=torch.float64), error, *basis.limits)


@pytest.mark.parametrize(
    ("name", "way"), list(zip(BASES, itertools.cycle(["cast", "autocast"]), strict=False))
)
def test_bf16_is_within_a_hundredth(name, way, error):
    torch.manual_seed(3)
    basis = BASES[name]
    layer = basis.layer(64, 32, **basis.start).bfloat16()
    x, grad = torch.randn(256, 64).bfloat16(), torch.randn(256, 32).bfloat16()
    expected, expected_gradients = basis.expected(layer, x, grad)
    if way == "autocast":
        layer, x = layer.float(), x.float()
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way == "autocast"):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    assert error(y, expected) < 1e-2
    # Outputs may be far below 1 at the start; so also by their own size.
    assert np.linalg.norm(y.detach().double().numpy() - expected) < 1e-2 * np.linalg.norm(expected)
    found = torch.autograd.grad(y, [x, *basis.tensors(layer)], grad)
    for parameter, gradient, wanted in zip(("x", *basis.parameters), found, expected_gradients, strict=True):
        assert error(gradient, wanted) < 1e-2, parameter


WITH_A_NORM = ("cheby-kan", "hermite-kan", "jacobi-kan")


def normalized(hidden):
    """LayerNorm at its start."""
    return (hidden - hidden.mean(1, keepdims=True)) / np.sqrt(hidden.var(1, keepdims=True) + 1e-5)


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in BASES), ("cheby-kan", {"layer_norm": 0})],
)
def test_ffn_is_two_layers_with_a_norm_between_those_of_polynomials(name, options):
    torch.manual_seed(5)
    basis = BASES[name]
    ffn = build_ffn(name, 4, 3, **{basis.option: 3}, **options).double()
    layers = [layer for layer in ffn.layers if not isinstance(layer, torch.nn.LayerNorm)]
    assert len(layers) == 2
    assert len(ffn.layers) == (3 if name in WITH_A_NORM and not options else 2)
    x = y = np.random.default_rng(1).normal(size=(6, 4))
    for layer in layers:
        numbers = [p.detach().numpy() for p in basis.tensors(layer)]
        outputs = layer(torch.zeros(1, y.shape[1]).double()).shape[1]
        hidden = normalized(y) if layer is layers[1] and len(ffn.layers) == 3 else y
        y, _ = basis.formula(hidden, *numbers, np.zeros((6, outputs)), **basis.buffers(layer))
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), y, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", [name for name in BASES if name != "sine-kan"])
def test_ffns_tell_tokens_apart_from_the_start(name):
    """As much as the FFN of GELUs in a model does, whose outputs spread by 0.04 over tokens."""
    torch.manual_seed(6)
    with torch.no_grad():
        assert build_ffn(name, 96, 48)(torch.randn(500, 96)).std(0).mean() > 0.02
