"""KAN layers of every basis and with a network on every edge, against their formulas in float64."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import eval_chebyt, eval_chebyu, eval_hermite, eval_jacobi
from torch.nn import functional as F

from ffn_variants import UsageError, build_ffn
from ffn_variants.kernels import elementwise
from ffn_variants.variants.bump_kan import RBFKANLinear, ReLUKANLinear
from ffn_variants.variants.edge_kan import MEAN_SQUARES, SILU_MEAN_SQUARE, MLPEdgeLinear, WavKANLinear
from ffn_variants.variants.series_kan import (
    ChebyKANLinear,
    FourierKANLinear,
    HermiteBasis,
    JacobiBasis,
    PolynomialKANLinear,
    SineKANLinear,
)
from ffn_variants.variants.spline_kan import FeatureSplines


def by_autograd(formula):
    """Of a formula in torch the outputs, and the gradients of x and of every parameter, as numpy's arrays."""

    def evaluated(x, *numbers, **constants):
        *inputs, grad = (torch.from_numpy(each) for each in (x, *numbers))
        for each in inputs:
            each.requires_grad_()
        y = formula(*inputs, **{name: torch.from_numpy(each) for name, each in constants.items()})
        return y.detach().numpy(), [each.numpy() for each in torch.autograd.grad(y, inputs, grad)]

    return evaluated


def fourier_formula(x, coefficients, bias):
    """Coefficients (2, O, I, G), cosines first."""
    angle = torch.arange(1, coefficients.shape[-1] + 1) * x[..., None]
    waves = torch.stack([angle.cos(), angle.sin()])
    return torch.einsum("wnig,woig->no", waves, coefficients) + bias


def rbf_formula(x, gamma, beta, splines, weight, bias):
    """Normalise, sum the bumps of all inputs, and add the base layer."""
    centred = x - x.mean(-1, keepdim=True)
    n = gamma * centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() + beta
    grid = splines.shape[1] // x.shape[1]
    centres = torch.linspace(-2, 2, grid, dtype=torch.float64)
    bumps = torch.exp(-(((n[..., None] - centres) * (grid - 1) / 4) ** 2))
    curves = torch.einsum("nig,oig->no", bumps, splines.reshape(len(splines), -1, grid))
    return curves + (x * x.sigmoid()) @ weight.T + bias


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


def sine_formula(x, amplitudes, frequency, bias, phase):
    """Amplitudes (O, I, G), phases (G, I)."""
    return torch.einsum("nig,oig->no", (frequency * x[..., None] + phase.T).sin(), amplitudes) + bias


def relu_formula(x, weight, left, right, bias):
    """Ends (K, I); r is 4 over the square of a bump's first width, four intervals of [-2, 2]."""
    width = 4 * 4 / (len(left) - 3)
    rise, fall = (each.clamp(min=0) for each in (x[:, None] - left, right - x[:, None]))
    bumps = (4 / width**2) ** 2 * (rise * fall) ** 2
    return torch.einsum("nki,oki->no", bumps, weight.reshape(len(weight), len(left), -1)) + bias


def spline_formula(x, knots, coefficients):
    """Truncated cubes of the features, (D, C) of each."""
    return ((knots - x[..., None]).clamp(min=0) ** 3 * coefficients).sum(-1)


WAVELETS = {
    "mexican-hat": lambda z: 2 / (math.sqrt(3) * math.pi**0.25) * (z**2 - 1) * torch.exp(-(z**2) / 2),
    "morlet": lambda z: torch.cos(5 * z) * torch.exp(-(z**2) / 2),
    "dog": lambda z: -z * torch.exp(-(z**2) / 2),
}


def wavelet_formula(wavelet):
    """Of every edge, (O, I) each."""
    return lambda x, weight, place, width: (weight * wavelet((x[:, None] - place) / width)).sum(2)


def network_formula(x, inner, inner_bias, outer, bias):
    """Of every edge, (H, O, I) each."""
    z = inner * x[:, None, None] + inner_bias
    return (outer * z * z.sigmoid()).sum((1, 3)) + bias


RBF_PARAMETERS = ["layernorm.weight", "layernorm.bias", "spline_weight"]
RBF_PARAMETERS += ["base_linear.weight", "base_linear.bias"]


@dataclass(frozen=True)
class Basis:
    """A KAN layer and what is to hold of it.

    Attributes:
        layer: Called with inputs, outputs and the number of terms.
        formula: From x, the parameters and the gradient of the outputs, all in float64: the outputs, and
            the gradients of x and of every parameter.
        parameters: Their names, in the order of the formula's arguments.
        option: Of the variant: the number of terms.
        terms: Numbers of terms to try in float32.
        scales: Of inputs there.
        any_scales: Of inputs in float64, where the number of terms is any.
        drawn: Parameters that are constant at the start, drawn for that.
        constants: Buffers that the formula takes by name.
        least: The smallest number of terms, and of inputs.
        edge_inputs: Values to try besides random ones.
    """

    layer: Callable[..., torch.nn.Module]
    formula: Callable[..., tuple[np.ndarray, list[np.ndarray]]]
    parameters: tuple[str, ...]
    option: str = "grid_size"
    terms: tuple[int, ...] = (1, 5, 12)
    scales: tuple[float, ...] = (0.1, 1.0, 10.0)
    any_scales: tuple[float, ...] = (0.01, 1.0, 10.0)
    drawn: tuple[str, ...] = ("bias",)
    constants: tuple[str, ...] = ()
    least: int = 1
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

    def check(self, layer, x, error, output_limit, gradient_limit) -> None:
        x = x.requires_grad_()
        y = layer(x)
        grad = torch.randn_like(y)
        gradients = torch.autograd.grad(y, [x, *self.tensors(layer)], grad)
        expected, expected_gradients = self.expected(layer, x, grad)
        assert error(y, expected) < output_limit
        for name, found, wanted in zip(("x", *self.parameters), gradients, expected_gradients, strict=True):
            assert error(found, wanted) < gradient_limit, name


def of_polynomials(basis):
    """Called as the layers of other bases are, with inputs, outputs and the degree."""
    return lambda inputs, outputs, degree=4: PolynomialKANLinear(
        inputs, outputs, basis(degree), [1.0] * (degree + 1)
    )


def polynomials(layer, formula, parameter="coefficients", terms=(1, 4, 8)):
    how = {"option": "degree", "any_scales": (0.01, 1.0, 5.0), "drawn": (), "edge_inputs": (50.0, -50.0, 0.0)}
    return Basis(layer, formula, (parameter,), terms=terms, **how)


BASES: dict[str, Basis] = {
    "cheby-kan": polynomials(ChebyKANLinear, chebyshev_formula, "cheby_coeffs", (20, 4, 8)),
    "hermite-kan": polynomials(of_polynomials(HermiteBasis), hermite_formula),
    "jacobi-kan": polynomials(of_polynomials(lambda n: JacobiBasis(n, 1.0, 1.0)), jacobi_formula(1, 1)),
    "fourier-kan": Basis(
        lambda *sizes: FourierKANLinear(*sizes, init_scale=0.1),
        by_autograd(fourier_formula),
        ("fouriercoeffs", "bias"),
        terms=(1, 5, 20),
        scales=(1.0, 10.0, 300.0),
    ),
    "rbf-kan": Basis(
        RBFKANLinear,
        by_autograd(rbf_formula),
        RBF_PARAMETERS,
        terms=(2, 8, 20),
        drawn=RBF_PARAMETERS,
        least=2,
    ),
    "sine-kan": Basis(
        SineKANLinear,
        by_autograd(sine_formula),
        ("amplitudes", "frequency", "bias"),
        terms=(1, 8, 12),
        scales=(0.1, 1.0, 5.0),
        constants=("phase",),
    ),
    "relu-kan": Basis(
        ReLUKANLinear, by_autograd(relu_formula), ("weight", "left_knots", "right_knots", "bias")
    ),
    "spline-kan": Basis(
        lambda inputs, outputs, knots=10: FeatureSplines(inputs, knots),
        by_autograd(spline_formula),
        ("knots", "coefficients"),
        option="num_knots",
        terms=(2, 10, 20),
        drawn=("knots", "coefficients"),
        least=2,
    ),
    "mlp-edge": Basis(
        MLPEdgeLinear,
        by_autograd(network_formula),
        ("inner_weight", "inner_bias", "outer_weight", "bias"),
        option="units",
    ),
    **{
        name: Basis(
            lambda inputs, outputs, terms=1, name=name: WavKANLinear(inputs, outputs, name),
            by_autograd(wavelet_formula(wavelet)),
            ("weight", "translation", "scale"),
            drawn=("weight", "translation"),
        )
        for name, wavelet in WAVELETS.items()
    },
}
ELEMENTWISE = ("spline-kan", "mlp-edge", *WAVELETS)
"""Without a matrix product, which autocast would round."""
FFNS = [name for name in BASES if name not in WAVELETS]
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
    layer = basis.layer(16, 12, terms)
    basis.check(layer, x, error, 1e-6, 1e-5 if steep else 5e-6)


@each_basis
@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 4)),
    terms=st.integers(1, 20),
    scale=st.integers(0, 2),
    seed=st.integers(0, 2**16),
)
def test_any_layer_is_its_formula_in_float64(name, sizes, terms, scale, seed, error):
    basis = BASES[name]
    assume(min(terms, sizes[0]) >= basis.least)
    torch.manual_seed(seed)
    layer = basis.layer(*sizes, terms).double()
    for parameter in basis.drawn:
        layer.get_parameter(parameter).data.normal_()
    x = basis.any_scales[scale] * torch.randn(6, sizes[0], dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise, "BLOCK_NUMBERS", {"cpu": 7})  # several blocks, of the elementwise ones
        basis.check(layer, x, error, 1e-11, 1e-10)


@each_basis
@pytest.mark.parametrize("way", ["cast", "autocast"])
def test_bf16_is_within_a_hundredth(name, way, error):
    torch.manual_seed(3)
    basis = BASES[name]
    layer = basis.layer(64, 64).bfloat16()
    x, grad = torch.randn(2, 256, 64).bfloat16()
    expected, expected_gradients = basis.expected(layer, x, grad)
    if way == "autocast":
        layer, x = layer.float(), x.float()
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way == "autocast"):
        y = layer(x)
    assert y.dtype == (x.dtype if name in ELEMENTWISE else torch.bfloat16)
    assert error(y, expected) < 1e-2
    # Outputs may be far below 1 at the start; so also by their own size.
    assert np.linalg.norm(y.detach().double().numpy() - expected) < 1e-2 * np.linalg.norm(expected)
    found = torch.autograd.grad(y, [x, *basis.tensors(layer)], grad.to(y.dtype))
    for parameter, gradient, wanted in zip(("x", *basis.parameters), found, expected_gradients, strict=True):
        assert error(gradient, wanted) < 1e-2, parameter


WITH_A_NORM = ("cheby-kan", "hermite-kan", "jacobi-kan")


def normalized(hidden):
    """LayerNorm at its start."""
    return (hidden - hidden.mean(1, keepdims=True)) / np.sqrt(hidden.var(1, keepdims=True) + 1e-5)


@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in FFNS), ("cheby-kan", {"layer_norm": 0})]
)
def test_ffn_is_two_layers_with_a_norm_between_those_of_polynomials(name, options):
    torch.manual_seed(5)
    basis = BASES[name]
    ffn = build_ffn(name, 4, 3, **{basis.option: 3}, **options).double()
    parts = list(getattr(ffn, "layers", ffn.children()))
    layers = [part for part in parts if not isinstance(part, torch.nn.LayerNorm)]
    assert len(layers) == 2
    assert len(parts) == (3 if name in WITH_A_NORM and not options else 2)
    x = y = np.random.default_rng(1).normal(size=(6, 4))
    for layer in layers:
        numbers = [p.detach().numpy() for p in basis.tensors(layer)]
        outputs = layer(torch.zeros(1, y.shape[1]).double()).shape[1]
        hidden = normalized(y) if layer is layers[1] and len(parts) == 3 else y
        y, _ = basis.formula(hidden, *numbers, np.zeros((6, outputs)), **basis.buffers(layer))
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), y, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    "name", [name for name in FFNS if name not in ("sine-kan", "mlp-edge", "spline-kan")]
)
def test_ffns_tell_tokens_apart_from_the_start(name):
    """As much as the FFN of GELUs in a model does, whose outputs spread by 0.04 over tokens."""
    torch.manual_seed(6)
    with torch.no_grad():
        assert build_ffn(name, 96, 48)(torch.randn(500, 96)).std(0).mean() > 0.02


X = torch.tensor([[0.0], [1e-5], [0.5], [-1.0], [2.0], [-4.0], [9.0]], dtype=torch.float64)
U = torch.tanh(X[:, 0]).numpy()


@pytest.mark.parametrize(("alpha", "beta"), [(0, 0), (0.5, 2), (-0.5, -0.5), (-0.9, 3)])
def test_any_alpha_and_beta_give_the_polynomials_of_scipy(alpha, beta):
    features = JacobiBasis(9, alpha, beta)(X)[:, :, 0].numpy()
    expected = np.stack([eval_jacobi(k, alpha, beta, U) for k in range(10)], 1)
    np.testing.assert_allclose(features, expected, rtol=1e-10, atol=1e-11)


def test_jacobi_kan_takes_alpha_and_beta_as_options():
    first, _, second = build_ffn("jacobi-kan", 5, 6, alpha=0, beta=0.5, degree=3).layers
    assert first.basis == second.basis == JacobiBasis(3, 0, 0.5)
    with pytest.raises(UsageError, match="alpha and beta must be above -1, got alpha 1, beta -1"):
        build_ffn("jacobi-kan", 5, 6, beta=-1)


def test_coefficients_start_as_those_of_the_sources_but_for_the_norms_of_hermite():
    torch.manual_seed(0)
    jacobi = build_ffn("jacobi-kan", 100, 80).layers[0].coefficients
    for drawn in (jacobi, ChebyKANLinear(100, 80, 4).cheby_coeffs):
        assert drawn.shape == (100, 80, 5)
        assert abs(drawn.mean().item()) < 0.02 / 500
        assert drawn.std().item() == pytest.approx(1 / 500, rel=0.02)
    hermite = build_ffn("hermite-kan", 100, 80).layers[0].coefficients
    for k, deviation in enumerate(hermite.std((0, 1)).tolist()):
        assert deviation == pytest.approx(1 / 500 / math.sqrt(2**k * math.factorial(k)), rel=0.05)


def test_infinite_inputs_are_the_ends_of_chebyshevs_polynomials():
    layer = ChebyKANLinear(1, 3)
    x = torch.tensor([[torch.inf], [-torch.inf], [1e30]], requires_grad=True)
    y = layer(x)
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    ends = layer.cheby_coeffs[0].sum(1), (layer.cheby_coeffs[0] * signs).sum(1)
    torch.testing.assert_close(y, torch.stack([ends[0], ends[1], ends[0]]))
    y.sum().backward()
    assert not x.grad.any()


def test_initial_outputs_of_fourier_kan_have_unit_variance_whatever_the_input():
    torch.manual_seed(1)
    layer = FourierKANLinear(256, 512)
    std = layer.fouriercoeffs.std().item()
    assert abs(std * np.sqrt(256 * 5) - 1) < 0.01
    for scale in (0.1, 1.0, 10.0):
        assert abs(layer(scale * torch.randn(32, 256)).var().item() - 1) < 0.1


@pytest.mark.parametrize(("grid", "inputs"), [(1, 7), (8, 1), (5, 7)])
def test_phases_are_those_of_sinekan_but_for_whole_turns(grid, inputs):
    phase = np.arange(1, grid + 1) / (grid + 1) + np.linspace(0, np.pi, inputs)[:, None]
    for size in range(1, grid):  # as its grid grows, term by term
        phase = phase * (0.9724108095811765 * size**-0.9884401790754128 + 0.999449553483052)
    found = SineKANLinear(inputs, 3, grid).phase.numpy().T
    np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * phase), atol=1e-5)
    assert ((found >= 0) & (found <= 2 * np.pi)).all()


def test_sine_kan_starts_as_sinekan_does():
    torch.manual_seed(0)
    first, second = build_ffn("sine-kan", 100, 80, grid_size=4).layers
    assert first.frequency.tolist() == [1, 2, 3, 4]
    assert second.frequency.tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert first.amplitudes[..., 0].std().item() == pytest.approx(0.4 / 80, rel=0.02)
    assert second.amplitudes[..., 0].abs().max().item() == pytest.approx(1 / 100, rel=0.02)
    for layer, outputs in ((first, 80), (second, 100)):
        amplitudes = layer.amplitudes.detach()
        for g in range(4):
            torch.testing.assert_close(amplitudes[..., g], amplitudes[..., 0] / (g + 1))
        assert layer.bias.tolist() == pytest.approx([1 / outputs] * outputs)


def test_bumps_are_one_in_their_middles_and_cover_the_grid():
    layer = build_ffn("relu-kan", 1, 2).layers[0]
    middles = ((layer.left_knots + layer.right_knots) / 2)[:, 0]
    values = layer.bumps(middles[:, None], layer.left_knots, layer.right_knots)[..., 0]
    torch.testing.assert_close(values.diagonal(), torch.ones(8))
    ends = layer.left_knots[0, 0].item(), layer.right_knots[-1, 0].item()
    assert ends == pytest.approx((-2 - 3 * 0.8, 2 + 3 * 0.8))


@pytest.mark.parametrize(("width", "grid"), [(512, 8), (256, 2), (64, 20)])
def test_initial_curves_of_rbf_kan_add_up_to_the_chosen_size(width, grid):
    torch.manual_seed(4)
    layer = RBFKANLinear(width, 400, grid, init_scale=0.3)
    with torch.no_grad():
        curves = layer(x := torch.randn(400, width)) - layer.base_linear(F.silu(x))
    assert abs(curves.std().item() / 0.3 - 1) < 0.05


@pytest.mark.parametrize(
    ("name", "options"),
    [("mlp-edge", {}), ("relu-kan", {}), *(("wav-kan", {"wavelet": wavelet}) for wavelet in WAVELETS)],
)
def test_layers_start_with_the_deviation_that_is_asked_for(name, options):
    torch.manual_seed(4)
    first, second = build_ffn(name, 64, 128, init_scale=0.3, **options).layers
    assert first(torch.randn(500, 64)).std().item() == pytest.approx(1, rel=0.1)
    assert second(torch.randn(500, 128)).std().item() == pytest.approx(0.3, rel=0.1)


def test_mean_squares_are_those_of_the_functions():
    x = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    for name, wavelet in WAVELETS.items():
        assert MEAN_SQUARES[name] == pytest.approx((wavelet(x) ** 2 * density).sum().item(), rel=1e-9)
    z = math.sqrt(2) * x
    found = ((z * z.sigmoid()) ** 2 * density).sum().item()
    assert pytest.approx(found, rel=0.05) == SILU_MEAN_SQUARE
