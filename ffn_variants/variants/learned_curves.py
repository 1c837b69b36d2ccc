"""Activations with a few learned numbers: rational functions, polynomials and a curve of two pieces.

`gr-kan`: the group-rational KAN layers of the Kolmogorov-Arnold Transformer (Yang and Wang 2024).

Twice a rational function of every channel, then a linear layer, in the place of the MLP (arXiv:2409.10594).
A rational is F(x) = P(x) / Q(x) with P(x) = a_0 + a_1 x + ... + a_5 x^5 and Q(x) = 1 + |A(x)|, where
A(x) = b_1 x + ... + b_4 x^4, so it has no pole. As in the authors' code (Adamdad/rational_kat_cu), all groups
of channels share the a and each has its own b. This code is the project's own and differs in two places:

- Q is the paper's; the authors' Triton kernels compute 1 + |b_1 x| + ... + |b_4 x^4|.
- The first rational starts as the identity, as theirs does, but not with b = 0: there |A| has no slope, and b
  would never move.

Initial weights: the paper draws a layer's weights with variance gain / inputs, where gain = 1 / E[F(x)^2] for
x ~ N(0, 1), so that variances stay the same from layer to layer. Here linear layers start as all others of a
model do (normal with ``initializer_range``, 0.02, and zero biases), so that a comparison of variants is not
one of initial scales. The authors' training code ends there too: its ``init_weights_vit_kan_*`` draw the
paper's values and then overwrite them with a deviation of 0.02 (Adamdad/kat at 0d10ea3).

Shapes: R rows, G groups, C channels of a group.

`rational`: a learned rational function as the activation, the Padé activation unit (Molina et al. 2019).

F(x) = P(x) / (1 + |A(x)|) with P of degree 5 and A(x) = b_1 x + ... + b_4 x^4, so it has no pole. All the
channels of a layer share the ten coefficients, as in the paper (arXiv:1907.06732, its safe form; version B of
https://github.com/ml-research/rational_activations, whose default, as the authors' first code, has the sum of
the |b_k x^k| below). `gr-kan` has such functions for groups of channels, with the same kernels. It starts as
leaky ReLU, as its authors' does, or as another function; the fits are this project's own.

`polyrelu` and `polynorm`: polynomials of third degree as activations (PolyCom, Zhuo et al. 2024).

PolyReLU is a_1 r + a_2 r^2 + a_3 r^3 + a_0 with r = max(0, x). PolyNorm is a_1 n(x) + a_2 n(x^2) + a_3 n(x^3)
+ a_0, where n divides a token's F values by their root mean square; so it is no function of one number.
arXiv:2411.03884; names, shapes and initial values (1/3, and a_0 = 0) are those of
https://github.com/BryceZhuo/PolyCom. The code is this project's own.

`xielu`: a parabola above zero and an integrated ELU below, both learned (Huang and Schlag 2024).

f(x) = a_p x^2 + b x for x > 0 and a_n (e^x - 1 - x) + b x elsewhere, with a_p > 0 and a_n > b learned, one of
each for a layer, and b = 0.5 fixed. arXiv:2411.13010; transformers has it in ``activations.py``, which clamps
x to at most -1e-6 below zero, as this does not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from base import kan_layers
from base.errors import UsageError
from base.options import Option
from ffn_variants.kernels.compilation import compiled, needs_plain_torch
from ffn_variants.kernels.elementwise import Function, elementwise
from ffn_variants.spec import FFNSpec

DEFAULT_GROUPS = 8

EVEN_PARTS = {
    "gelu": (0.41534868, 0.015112569, 0.24537408, 0.0012858309),
    "swish": (0.24983762, 0.0053786706, 0.10446711, 0.00045345529),
    "leaky-relu": (2.4849775, 1.9115540, 7.2758852, 0.66731072),
    "identity": (0.0, 0.0, 0.10446711, 0.00045345529),
}
"""a_2, a_4, b_2, b_4 of the least-squares fit (a_2 x^2 + a_4 x^4) / (1 + b_2 x^2 + b_4 x^4) to f(x) - s x.

s is the slope at zero, of ``SLOPES``. The difference is even for erf-GELU, for swish, x sigmoid(x), and for
leaky ReLU, where it is 0.495 |x|. So the fit needs no odd powers, and a_1, a_3, a_5 follow from s and b. For
example swish is about (x / 2) (1 + 0.104 x^2 + ...) + 0.250 x^2 + ..., over 1 + 0.104 x^2 + .... The identity
is x Q(x) / Q(x) with the Q of swish.

Fits of GELU and swish are over [-6, 6], not the authors' [-3, 3], where the best b_4 of GELU is negative and
the function falls to -2 at x = -6. That of leaky ReLU is over [-3, 3]. Largest errors over [-3, 3]: 0.0045
for GELU, 0.00008 for swish, 0.027 for leaky ReLU, at |x| = 0.12. These are constants so that every machine
starts from the same numbers; ``test_learned_curves.py`` fits them again.
"""
LEAKY_SLOPE = 0.01
SLOPES = {"gelu": 0.5, "swish": 0.5, "leaky-relu": (1 + LEAKY_SLOPE) / 2, "identity": 1.0}


def initial_coefficients(function: str) -> tuple[list[float], list[float]]:
    """Return numerator a_0 ... a_5 and denominator b_1 ... b_4 of a function in ``EVEN_PARTS``."""
    (a_2, a_4, b_2, b_4), slope = EVEN_PARTS[function], SLOPES[function]
    return [0.0, slope, a_2, slope * b_2, a_4, slope * b_4], [0.0, b_2, 0.0, b_4]


def _horner(coefficients: Sequence[Tensor], x: Tensor) -> Tensor:
    """Evaluate c_0 + c_1 x + c_2 x^2 + ..."""
    value = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value


def _derivative(coefficients: Sequence[Tensor]) -> list[Tensor]:
    return [power * coefficient for power, coefficient in enumerate(coefficients)][1:]


def _columns(coefficients: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Split (G, K) coefficients into K tensors (G, 1), which broadcast over (R, G, C)."""
    return list(coefficients.to(dtype).unsqueeze(-1).unbind(1))


@functools.partial(compiled, slow_eagerly=True)
def _rational_values(x: Tensor, numerator: Tensor, denominator: Tensor) -> Tensor:
    """Evaluate P / Q at x (R, G, C) in one pass; the result has the shape and the dtype of x."""
    # x^5 spans more than bf16 resolves, so all is computed in float32 at least, whatever the input's dtype.
    exact = torch.promote_types(x.dtype, torch.float32)
    a, b = _columns(numerator, exact), _columns(denominator, exact)
    u = x.to(exact)
    return (_horner(a, u) / (1 + (_horner(b, u) * u).abs())).to(x.dtype)


@functools.partial(compiled, slow_eagerly=True)
def _rational_gradients(
    grad: Tensor, x: Tensor, numerator: Tensor, denominator: Tensor
) -> tuple[Tensor, Tensor]:
    """Differentiate P / Q in one pass over x.

    Args:
        grad: (R, G, C) gradient of the result.
        x: (R, G, C) input.
        numerator: (G, 6).
        denominator: (G, 4).

    Returns:
        (R, G, C) gradient of x, and for each row the (10, R, G) gradients of a_0 ... a_5, b_1 ... b_4.
        Their sum over rows is left to torch, which adds pairwise: a compiled loop has one accumulator, and
        with it ten times the error at 4,096 rows.
    """
    exact = torch.promote_types(x.dtype, torch.float32)
    a, b = _columns(numerator, exact), _columns(denominator, exact)
    u = x.to(exact)
    inner = _horner(b, u) * u
    inverse = 1 / (1 + inner.abs())
    of_p = grad.to(exact) * inverse
    of_inner = -of_p * _horner(a, u) * inverse * inner.sign()
    inner_slope = _horner([power * coefficient for power, coefficient in enumerate(b, 1)], u)
    grad_x = of_p * _horner(_derivative(a), u) + of_inner * inner_slope
    sums = []
    for _ in a:
        sums.append(of_p.sum(-1))
        of_p = of_p * u
    for _ in b:
        of_inner = of_inner * u
        sums.append(of_inner.sum(-1))
    return grad_x.to(x.dtype), torch.stack(sums)


class _GroupedRational(torch.autograd.Function):
    """Keeps x and the coefficients alone for the backward pass, which computes all else again.

    Left to autograd, the backward pass would keep or write a tensor of the size of x for every coefficient.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, numerator: Tensor, denominator: Tensor) -> Tensor:
        ctx.save_for_backward(x, numerator, denominator)
        return _rational_values(x, numerator, denominator)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[bad-override]
        x, numerator, denominator = ctx.saved_tensors
        grad_x, sums = _rational_gradients(grad_outputs[0], x, numerator, denominator)
        of_a, of_b = sums.sum(1).t().split([numerator.shape[1], denominator.shape[1]], dim=1)
        return grad_x, of_a.to(numerator.dtype), of_b.to(denominator.dtype)


def grouped_rational(x: Tensor, numerator: Tensor, denominator: Tensor) -> Tensor:
    """Apply one rational function to each group of neighbouring channels.

    Args:
        x: (..., G C) inputs.
        numerator: (G, 6) coefficients a_0 ... a_5 of P.
        denominator: (G, 4) coefficients b_1 ... b_4 of A; the function is P / (1 + |A|).

    Returns:
        (..., G C) values in the dtype of x, computed in float32 at least; there x^5 overflows from |x| = 5e7.
        Where A is 0, its absolute value is given the slope 0.
    """
    groups = denominator.shape[0]
    # The view is made out here: inside, the compiler could not tell that it needs no copy.
    grouped = x.reshape(-1, groups, x.shape[-1] // groups)
    evaluate = _rational_values if needs_plain_torch() else _GroupedRational.apply
    return evaluate(grouped, numerator, denominator).reshape(x.shape)


class GroupRational(nn.Module):
    """One rational function per group of neighbouring channels, with a numerator that all groups share.

    Args:
        num_groups: G; it divides the number of channels.
        function: What it starts as: ``"identity"``, ``"gelu"`` or ``"swish"``.
    """

    def __init__(self, num_groups: int, function: str):
        super().__init__()
        numerator, denominator = initial_coefficients(function)
        self.numerator = nn.Parameter(torch.tensor(numerator))
        self.denominator = nn.Parameter(torch.tensor(denominator).repeat(num_groups, 1))

    def forward(self, x: Tensor) -> Tensor:
        numerator = self.numerator.expand(len(self.denominator), -1)
        return grouped_rational(x, numerator, self.denominator)


def choose_groups(hidden_size: int, intermediate_size: int, groups: int) -> int:
    """Return the number of groups for both rationals.

    Args:
        hidden_size: D.
        intermediate_size: F.
        groups: As the user gave it; 0 takes the largest number up to 8 that divides both sizes.

    Raises:
        UsageError: If a number other than 0 does not divide both sizes.
    """
    sizes = (hidden_size, intermediate_size)
    largest = max(n for n in range(1, DEFAULT_GROUPS + 1) if not any(size % n for size in sizes))
    if any(size % (groups or 1) for size in sizes):
        raise UsageError(
            f"'gr-kan' option groups must divide hidden_size {hidden_size} and intermediate_size "
            f"{intermediate_size}, got {groups}; {largest} does, or change the sizes"
        )
    return groups or largest


class GRKANFFN(nn.Module):
    """Rational - linear - rational - linear in place of the whole feed-forward network: D to F to D.

    Args:
        hidden_size: D.
        intermediate_size: F.
        groups: Groups of channels of each rational; 0 takes the largest number up to 8 that divides D and F.
        init: What the second rational starts as, ``"swish"`` or ``"gelu"``; the first starts as the identity.

    Raises:
        UsageError: If ``groups`` does not divide both sizes.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, groups: int = 0, init: str = "swish"):
        super().__init__()
        num_groups = choose_groups(hidden_size, intermediate_size, groups)
        self.input_rational = GroupRational(num_groups, "identity")
        self.c_fc = nn.Linear(hidden_size, intermediate_size)
        self.hidden_rational = GroupRational(num_groups, init)
        self.c_proj = nn.Linear(intermediate_size, hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(self.hidden_rational(self.c_fc(self.input_rational(x))))


GR_KAN_SPEC = FFNSpec(
    name="gr-kan",
    kind="block",
    build=GRKANFFN,
    formula="twice: linear of P(x_i) / (1 + |A_g(x_i)|), P of degree 5, A_g of degree 4 per group g",
    reference=kan_layers.GR_KAN.reference,
    options={
        **kan_layers.GR_KAN.options,
        "init": Option(default="swish", choices=("swish", "gelu"), help="what the second rational starts as"),
    },
    multiply_adds=lambda d, f, **_: 2 * d * f,
)


class Rational(nn.Module):
    """One rational function for all channels.

    Args:
        init: What it starts as.
    """

    def __init__(self, init: str = "leaky-relu"):
        super().__init__()
        numerator, denominator = initial_coefficients(init)
        self.numerator = nn.Parameter(torch.tensor(numerator))
        self.denominator = nn.Parameter(torch.tensor(denominator))

    def forward(self, x: Tensor) -> Tensor:
        return grouped_rational(x, self.numerator.unsqueeze(0), self.denominator.unsqueeze(0))


RATIONAL_SPEC = FFNSpec(
    name="rational",
    kind="activation",
    build=lambda _, init: Rational(init),
    formula="P(x) / (1 + |A(x)|), P of degree 5, A of degree 4; ten coefficients of a layer",
    reference="Molina et al. 2019, arXiv:1907.06732",
    options={
        "init": Option(
            default="leaky-relu",
            choices=("leaky-relu", "gelu", "swish", "identity"),
            help="what it starts as",
        )
    },
    multiply_adds=lambda d, f, **_: 2 * d * f,
)


EPSILON = 1e-6
"""Added to the mean square in PolyNorm."""


def polyrelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """a_3 r^3 + a_2 r^2 + a_1 r + a_0 of (N, F) inputs; weight (3,) from a_3 down, bias (1,)."""
    r = torch.relu(x)
    return ((weight[0] * r + weight[1]) * r + weight[2]) * r + bias


def polynorm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """a_3 n(x^3) + a_2 n(x^2) + a_1 n(x) + a_0 of (N, F) inputs; weight (3,) from a_3 down, bias (1,)."""
    square = x * x
    powers = square * x, square, x
    return sum((a * _over_rms(power) for a, power in zip(weight.unbind(), powers, strict=True)), bias)


def _over_rms(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON)


class PolyCom(nn.Module):
    """One of the two functions, with four coefficients for a layer.

    Args:
        function: ``polyrelu`` or ``polynorm``.
    """

    def __init__(self, function: Function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.full((3,), 1 / 3))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return elementwise(self.function, x, self.weight, self.bias)


def _polycom(function: Function, formula: str) -> FFNSpec:
    return FFNSpec(
        name=function.__name__,
        kind="activation",
        build=lambda _: PolyCom(function),
        formula=formula,
        reference="Zhuo et al. 2024, arXiv:2411.03884",
        multiply_adds=lambda d, f: 2 * d * f,
    )


POLYCOM_SPECS = (
    _polycom(polyrelu, "a_0 + a_1 r + a_2 r^2 + a_3 r^3, r = max(0, x); a of a layer"),
    _polycom(polynorm, "a_0 + a_1 n(x) + a_2 n(x^2) + a_3 n(x^3), n divides by the RMS over F; a of a layer"),
)


@dataclass(frozen=True)
class XIELUFunction:
    """The function of x and of what softplus makes a_p and a_n - b of.

    Attributes:
        beta: b, the slope at zero.
    """

    beta: float

    def __call__(self, x: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Evaluate (N, C) inputs with two scalars."""
        above = F.softplus(positive) * x * x
        # Where x > 0 this branch is not taken, but e^x must be finite for its gradient.
        below = (self.beta + F.softplus(negative)) * (torch.expm1(x.clamp(max=0)) - x)
        return torch.where(x > 0, above, below) + self.beta * x


class XIELU(nn.Module):
    """xIELU with two learnable scalars.

    Args:
        init: Where a_p and a_n begin.
        beta: b, the slope at zero; not learned.

    Raises:
        UsageError: Unless 0 <= beta < init.
    """

    def __init__(self, init: float = 0.8, beta: float = 0.5):
        super().__init__()
        if not 0 <= beta < init:
            raise UsageError(f"'xielu' options must be 0 <= beta < init, got beta {beta:g}, init {init:g}")
        self.function = XIELUFunction(beta)
        self.positive = nn.Parameter(torch.tensor([_inverse_softplus(init)]))
        self.negative = nn.Parameter(torch.tensor([_inverse_softplus(init - beta)]))

    def forward(self, x: Tensor) -> Tensor:
        return elementwise(self.function, x, self.positive, self.negative)


def _inverse_softplus(value: float) -> float:
    return value + math.log(-math.expm1(-value))


XIELU_SPEC = FFNSpec(
    name="xielu",
    kind="activation",
    build=lambda _, init, beta: XIELU(init, beta),
    formula="a_p x^2 + b x for x > 0, a_n (e^x - 1 - x) + b x elsewhere; a_p, a_n of a layer",
    reference="Huang and Schlag 2024, arXiv:2411.13010",
    options={
        "init": Option(default=0.8, help="where a_p and a_n begin, above beta"),
        "beta": Option(default=0.5, minimum=0, help="b, the slope at 0; not learned"),
    },
    multiply_adds=lambda d, f, **_: 2 * d * f,
)
