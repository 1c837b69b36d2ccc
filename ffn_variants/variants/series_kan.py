"""KAN layers whose edges are truncated series: orthogonal polynomials, Fourier series, sines.

`jacobi-kan` and `hermite-kan`: layers whose edges are orthogonal polynomials of tanh(x).

y_o = sum_i sum_{k=0..n} c_iok P_k(tanh x_i). `jacobi-kan` is after JacobiKAN (SpaceLearner 2024), with the
Jacobi polynomials of alpha = beta = 1; alpha = beta = 0 makes them Legendre's. `hermite-kan` is after
HermiteKAN (Boris-73-TA/OrthogPolyKANs 2024), with the physicists' Hermite polynomials. Coefficients have the
shape of theirs. So has their initial deviation, 1 / (I (n + 1)), but that a Hermite polynomial's is divided
by sqrt(2^k k!), its norm: H_4(0) is 12, which would drown the 0.02 of a model's embeddings. The code is this
project's own; `cheby-kan` is the third of the kind.

Between the two layers stands a LayerNorm, as in the networks of the sources, whose authors call it
necessary: of what a first layer gives at the start, tanh leaves next to nothing but a constant. With the
option ``layer_norm`` at 0 there is none.

`cheby-kan`: layers whose edges are Chebyshev polynomials of tanh(x), after ChebyKAN (SynodicMonth 2024).

y_o = sum_i sum_{k=0..n} c_iok T_k(tanh x_i). The coefficients have the name, the shape and the initialisation
of https://github.com/SynodicMonth/ChebyKAN; Sidharth et al. 2024, arXiv:2405.07200, is the paper of the idea.
The code is this project's own. Between the two layers stands a LayerNorm, as in its author's networks: of
what a first layer gives at the start, tanh leaves next to nothing but a constant.

`fourier-kan`: layers whose edges are truncated Fourier series, after FourierKAN (GistNoesis 2024).

y_j = bias_j + sum_i sum_{k=1..G} a_jik cos(k x_i) + b_jik sin(k x_i). The coefficients have the name, the
shape and, at ``init_scale`` 1, the initialisation of https://github.com/GistNoesis/FourierKAN, which drowns
the 0.02 of a model's embeddings: ``configs/tiny.yaml`` then ended at a held-out loss of 4.19 nats, at 0.1 at
2.07, at 0.02 at 2.09 (one seed each). The bias is a vector, as in a linear layer.

`sine-kan`: layers whose edges are sums of sines, with frequencies that all edges learn (SineKAN 2024).

y_o = b_o + sum_i sum_{g=1..G} A_oig sin(w_g x_i + p_gi). Frequencies w, phases p and amplitudes A begin as in
https://github.com/ereinha/SineKAN (Reinhardt et al. 2024, arXiv:2407.04149): w_g = g in the first layer and
g / (G + 1) in the second; the phases, fixed, are its own, here less whole turns. The code is this project's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from base import kan_layers
from base.errors import UsageError
from base.options import Option
from ffn_variants.kernels.basis_linear import Basis, FeatureByFeature, basis_linear
from ffn_variants.spec import FFNSpec, in_first, out_first


class TwoLayers(nn.Module):
    """Two KAN layers in place of the whole feed-forward network: D to F to D.

    Args:
        hidden: From (..., D) to (..., F).
        output: From (..., F) to (..., D).
        norm_width: F, for a LayerNorm between them; 0 for none.
    """

    def __init__(self, hidden: nn.Module, output: nn.Module, norm_width: int = 0):
        super().__init__()
        self.layers = nn.Sequential(hidden, *([nn.LayerNorm(norm_width)] if norm_width else []), output)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@dataclass(frozen=True)
class JacobiBasis(FeatureByFeature):
    """P_0(tanh x) ... P_n(tanh x), orthogonal for the weight (1 - u)^alpha (1 + u)^beta, by their recurrence.

    Attributes:
        degree: n, at least 1.
        alpha: Above -1.
        beta: Above -1.
    """

    degree: int
    alpha: float
    beta: float

    def each(self, x: Tensor) -> list[Tensor]:
        """Evaluate (N, I) inputs to features (N, I) each."""
        a, b = self.alpha, self.beta
        u = torch.tanh(x)
        polynomials = [torch.ones_like(u), ((a + b + 2) / 2) * u + (a - b) / 2]
        for n in range(2, self.degree + 1):
            s = 2 * n + a + b
            whole = 2 * n * (n + a + b) * (s - 2)
            slope, shift = (s - 1) * s * (s - 2) / whole, (s - 1) * (a * a - b * b) / whole
            last = 2 * (n + a - 1) * (n + b - 1) * s / whole
            polynomials.append((slope * u + shift) * polynomials[-1] - last * polynomials[-2])
        return polynomials


@dataclass(frozen=True)
class HermiteBasis(FeatureByFeature):
    """H_0(tanh x) ... H_n(tanh x) by the recurrence H_{k+1}(u) = 2 u H_k(u) - 2 k H_{k-1}(u).

    Attributes:
        degree: n, at least 1.
    """

    degree: int

    def each(self, x: Tensor) -> list[Tensor]:
        """Evaluate (N, I) inputs to features (N, I) each."""
        u = torch.tanh(x)
        polynomials = [torch.ones_like(u), 2 * u]
        for k in range(1, self.degree):
            polynomials.append(2 * (u * polynomials[-1] - k * polynomials[-2]))
        return polynomials


@dataclass(frozen=True)
class ChebyshevBasis(FeatureByFeature):
    """T_0(tanh x) ... T_n(tanh x) by the recurrence T_{k+1}(u) = 2 u T_k(u) - T_{k-1}(u).

    Attributes:
        degree: n, at least 1.
    """

    degree: int

    def each(self, x: Tensor) -> list[Tensor]:
        """Evaluate (N, I) inputs to features (N, I) each."""
        u = torch.tanh(x)
        polynomials = [torch.ones_like(u), u]
        for _ in range(self.degree - 1):
            polynomials.append(2 * u * polynomials[-1] - polynomials[-2])
        return polynomials


class PolynomialKANLinear(nn.Module):
    """One layer of polynomials from (..., I) to (..., O). P_0 = 1 serves as its bias.

    Args:
        in_features: I.
        out_features: O.
        basis: The polynomials, ``len(norms)`` of them.
        norms: What the initial deviation of each polynomial's coefficients is divided by.

    Coefficients are drawn from torch's global generator, normal, at norm 1 with deviation 1 / (I (n + 1)).
    """

    coefficients_name = "coefficients"

    def __init__(self, in_features: int, out_features: int, basis: Basis, norms: Sequence[float]):
        super().__init__()
        self.basis = basis
        deviations = torch.tensor([1 / (in_features * len(norms) * norm) for norm in norms])
        coefficients = torch.randn(in_features, out_features, len(norms)) * deviations
        self.register_parameter(self.coefficients_name, nn.Parameter(coefficients))

    def forward(self, x: Tensor) -> Tensor:
        # (I, O, n + 1) to all inputs' P_0, then P_1, ...
        weight = getattr(self, self.coefficients_name).permute(1, 2, 0).flatten(1)
        return basis_linear(x, weight, self.basis)


class ChebyKANLinear(PolynomialKANLinear):
    """One Chebyshev layer from (..., I) to (..., O), with the parameter's name of ChebyKAN.

    Args:
        in_features: I.
        out_features: O.
        degree: Highest degree n of the polynomials.
    """

    coefficients_name = "cheby_coeffs"

    def __init__(self, in_features: int, out_features: int, degree: int = 4):
        super().__init__(in_features, out_features, ChebyshevBasis(degree), [1.0] * (degree + 1))


def _jacobi(in_features: int, out_features: int, degree: int, alpha: float, beta: float) -> nn.Module:
    if min(alpha, beta) <= -1:
        raise UsageError(
            f"'jacobi-kan' options alpha and beta must be above -1, got alpha {alpha:g}, beta {beta:g}"
        )
    basis, norms = JacobiBasis(degree, alpha, beta), [1.0] * (degree + 1)
    return PolynomialKANLinear(in_features, out_features, basis, norms)


def _hermite(in_features: int, out_features: int, degree: int) -> nn.Module:
    norms = [math.sqrt(2**k * math.factorial(k)) for k in range(degree + 1)]
    return PolynomialKANLinear(in_features, out_features, HermiteBasis(degree), norms)


def _polynomial_spec(
    name: str, layer: Callable[..., nn.Module], formula: str, description: kan_layers.KANLayer
) -> FFNSpec:
    """Make the spec of two layers with a LayerNorm between them."""
    coefficients = "cheby_coeffs" if layer is ChebyKANLinear else "coefficients"
    return FFNSpec(
        name=name,
        kind="block",
        build=lambda d, f, layer_norm, **options: TwoLayers(
            layer(d, f, **options), layer(f, d, **options), f if layer_norm else 0
        ),
        formula=formula,
        reference=description.reference,
        options={**description.options, **kan_layers.HIDDEN_NORM},
        multiply_adds=lambda d, f, degree, **_: 2 * d * f * (degree + 1),
        matrices={coefficients: in_first},
    )


CHEBY_SPEC = _polynomial_spec(
    "cheby-kan", ChebyKANLinear, "per layer: sum_i sum_k c_iok T_k(tanh x_i)", kan_layers.CHEBY_KAN
)
JACOBI_SPEC = _polynomial_spec(
    "jacobi-kan",
    _jacobi,
    "per layer: sum_i sum_k c_iok P_k(tanh x_i), Jacobi polynomials; Legendre at alpha = beta = 0",
    kan_layers.JACOBI_KAN,
)
HERMITE_SPEC = _polynomial_spec(
    "hermite-kan",
    _hermite,
    "per layer: sum_i sum_k c_iok H_k(tanh x_i), Hermite polynomials",
    kan_layers.HERMITE_KAN,
)


@dataclass(frozen=True)
class FourierBasis(FeatureByFeature):
    """cos(x) ... cos(Gx), sin(x) ... sin(Gx) from one cosine and one sine, by the angle sum identities.

    Attributes:
        grid_size: G, the number of frequencies.
    """

    grid_size: int

    def each(self, x: Tensor) -> list[Tensor]:
        """Evaluate (N, I) inputs to 2 G features (N, I)."""
        cosines, sines = [x.cos()], [x.sin()]
        for _ in range(self.grid_size - 1):
            last_cosine, last_sine = cosines[-1], sines[-1]
            cosines.append(last_cosine * cosines[0] - last_sine * sines[0])
            sines.append(last_sine * cosines[0] + last_cosine * sines[0])
        return cosines + sines


class FourierKANLinear(nn.Module):
    """One Fourier layer from (..., I) to (..., O).

    Args:
        in_features: I.
        out_features: O.
        grid_size: G, the number of frequencies.
        init_scale: Standard deviation of an output at the start.
        bias: Whether outputs have one.

    Coefficients are drawn from torch's global generator, normal with deviation init_scale / sqrt(I G):
    as cos^2 + sin^2 = 1, every output then has variance init_scale^2 whatever the input.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        grid_size: int = 5,
        init_scale: float = 1.0,
        bias: bool = True,
    ):
        super().__init__()
        self.in_features, self.out_features, self.grid_size = in_features, out_features, grid_size
        std = init_scale / math.sqrt(in_features * grid_size)
        # [0] multiplies the cosines, [1] the sines.
        self.fouriercoeffs = nn.Parameter(torch.randn(2, out_features, in_features, grid_size) * std)
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        # (2, O, I, G) to all inputs' first cosine, second cosine, ..., first sine, ...
        weight = self.fouriercoeffs.permute(1, 0, 3, 2).reshape(self.out_features, -1)
        out = basis_linear(x, weight, FourierBasis(self.grid_size))
        return out if self.bias is None else out + self.bias.to(out.dtype)


FOURIER_SPEC = FFNSpec(
    name="fourier-kan",
    kind="block",
    build=lambda d, f, grid_size, init_scale: TwoLayers(
        FourierKANLinear(d, f, grid_size, init_scale), FourierKANLinear(f, d, grid_size, init_scale)
    ),
    formula="per layer: sum_i sum_k a_oik cos(k x_i) + b_oik sin(k x_i), + bias_o",
    reference=kan_layers.FOURIER_KAN.reference,
    options={
        **kan_layers.FOURIER_KAN.options,
        "init_scale": Option(
            default=0.1,
            help="standard deviation of each layer's output at the start; FourierKAN has 1, which drowns "
            "a model's embeddings",
        ),
    },
    multiply_adds=lambda d, f, grid_size, **_: 4 * d * f * grid_size,
    matrices={"fouriercoeffs": in_first},  # cosines and sines of an output beside each other
)


RATIO = (0.9724108095811765, 0.9884401790754128, 0.999449553483052)
"""A, K, C of SineKAN: from a grid of g terms to one of g + 1, phases grow by A g^-K + C."""


def waves(x: Tensor, frequency: Tensor, phase: Tensor) -> Tensor:
    """Evaluate sin(w_g x_i + p_gi): x (N, I), frequency (G,), phase (G, I) to (N, G, I)."""
    return (frequency.unsqueeze(1) * x.unsqueeze(1) + phase).sin()


class SineKANLinear(nn.Module):
    """One layer of sines from (..., I) to (..., O).

    Args:
        in_features: I.
        out_features: O.
        grid_size: G, the number of sines of each edge.
        is_first: Whether it begins as the first layer of a SineKAN, with whole frequencies.

    Amplitudes are drawn from torch's global generator: one number for an edge, over O and, for its sine g,
    over g; it is normal with deviation 0.4 in a first layer, else uniform in [-1, 1].
    """

    def __init__(self, in_features: int, out_features: int, grid_size: int = 8, is_first: bool = True):
        super().__init__()
        numbers = torch.arange(1, grid_size + 1, dtype=torch.get_default_dtype())
        shape = (out_features, in_features, 1)
        draws = 0.4 * torch.randn(shape) if is_first else 2 * torch.rand(shape) - 1
        self.amplitudes = nn.Parameter(draws / out_features / numbers)
        self.frequency = nn.Parameter(numbers / (1 if is_first else grid_size + 1))
        self.bias = nn.Parameter(torch.full((out_features,), 1 / out_features))
        self.register_buffer("phase", _phases(numbers, in_features))

    def forward(self, x: Tensor) -> Tensor:
        # (O, I, G) to all inputs' first sine, second sine, ...
        weight = self.amplitudes.transpose(1, 2).flatten(1)
        out = basis_linear(x, weight, waves, self.frequency, self.phase)
        return out + self.bias.to(out.dtype)


def _phases(numbers: Tensor, in_features: int) -> Tensor:
    """(G, I) phases of SineKAN, from 0 to a whole turn: in bf16 they would be off by a tenth beyond."""
    grid_size = len(numbers)
    # Not torch.linspace, which transformers puts on the CPU while it loads a model on the meta device.
    of_inputs = math.pi / max(1, in_features - 1) * torch.arange(in_features, dtype=numbers.dtype)
    a, k, c = RATIO
    growth = math.prod(a * g**-k + c for g in range(1, grid_size))
    return ((numbers / (grid_size + 1)).unsqueeze(1) + of_inputs).mul(growth).remainder(2 * math.pi)


SINE_SPEC = FFNSpec(
    name="sine-kan",
    kind="block",
    build=lambda d, f, grid_size: TwoLayers(
        SineKANLinear(d, f, grid_size), SineKANLinear(f, d, grid_size, is_first=False)
    ),
    formula="per layer: sum_i sum_g A_oig sin(w_g x_i + p_gi), + bias_o; w learned, p fixed",
    reference=kan_layers.SINE_KAN.reference,
    options=kan_layers.SINE_KAN.options,
    multiply_adds=lambda d, f, grid_size: 2 * d * f * grid_size,
    matrices={"amplitudes": out_first},
)
