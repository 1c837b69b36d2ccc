"""Elementwise variants: what stands between the two linear layers of a stock feed-forward network.

Shapes: D hidden_size, F intermediate_size. Learnable variants hold one parameter per channel (F in all). They
cast it to the input's dtype, so that autocast keeps activations in bf16 instead of promoting them to float32.

`gaussian-topk`: what of a token's channels exceeds their mean by a number of deviations (Gemma 3n).

y = max(0, x - m - z s), with the mean m and the deviation s of a token's F values and the z that a normal
variable exceeds with probability 1 - sparsity: no sorting, and about that share of the channels is left.
Google 2025; the formula is that of ``Gemma3nTextMLP`` in transformers, which has it at a sparsity of 0.95 in
the first ten layers, there with a GELU after it and in a gated network. Here it stands alone. The method is
the statistical top-k of Spark Transformer (2025, arXiv:2506.06644; its abstract was read, its equation not).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from base.errors import UsageError
from base.options import Option
from ffn_variants.kernels.elementwise import elementwise
from ffn_variants.spec import FFNSpec


class GELU(nn.Module):
    """Gaussian error linear unit, x * Phi(x) (Hendrycks and Gimpel 2016).

    Args:
        approximate: ``"tanh"`` for their approximation (GPT-Neo's ``gelu_new``), ``"none"`` for the error
            function (RoBERTa's ``gelu``). ``"auto"`` is tanh here; a model given ``"auto"`` keeps the form of
            its family.
    """

    def __init__(self, approximate: str = "auto"):
        super().__init__()
        self.approximate = "tanh" if approximate == "auto" else approximate

    def forward(self, x: Tensor) -> Tensor:
        if self.approximate == "tanh" and x.device.type == "cpu" and torch.compiler.is_compiling():
            return gelu_by_sigmoid(x)
        return F.gelu(x, approximate=self.approximate)


def gelu_by_sigmoid(x: Tensor) -> Tensor:
    """Tanh-GELU as x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3): the same function up to rounding.

    On a CPU Inductor's exponential takes a quarter of the time of its tanh.
    """
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    u = math.sqrt(2 / math.pi) * (exact + 0.044715 * exact**3)
    return (exact * torch.sigmoid(2 * u)).to(x.dtype)


class PerChannel(nn.Module):
    """A function with a learnable beta for each channel.

    Args:
        function: Of (..., F) inputs and (F,) betas, in the dtype of the inputs.
        intermediate_size: Number of channels F.
        init: Initial beta.
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], intermediate_size: int, init: float):
        super().__init__()
        self.function = function
        self.beta = nn.Parameter(torch.full((intermediate_size,), init))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.beta.to(x.dtype))


def learnable_gelu(x: Tensor, beta: Tensor) -> Tensor:
    """Tanh-GELU scaled per channel; at a beta of 1 it is GELU."""
    return beta * F.gelu(x, approximate="tanh")


def swish(x: Tensor, beta: Tensor) -> Tensor:
    """Swish with a learnable beta (Ramachandran et al. 2017); at 1 it is SiLU."""
    return x * torch.sigmoid(beta * x)


def thesis_swish(x: Tensor, beta: Tensor) -> Tensor:
    """What the source study trained as "swish": x * SiLU(beta * x) = beta * x^2 * sigmoid(beta * x).

    It multiplies by the input once more than Swish does (``LearnableSwish`` in the study's
    ``activations_gpt_neo.py``), under a name of its own so that the published scores can be reproduced.
    """
    return x * F.silu(beta * x)


class SquaredReLU(nn.Module):
    """max(0, x)^2 (So et al. 2021, who found it by search in Primer)."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x).square()


class LeakySquaredReLU(nn.Module):
    """leaky_relu(x, a)^2: x^2 above zero and a^2 x^2 below, where squared ReLU is flat.

    Args:
        slope: a.
    """

    def __init__(self, slope: float = 0.5):
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, self.slope).square()


class PReLU(nn.Module):
    """Parametric ReLU per channel of the last dimension: max(0, x) + a * min(0, x) (He et al. 2015).

    ``torch.nn.PReLU`` takes dimension 1 as the channels, which in a (batch, tokens, F) tensor are the tokens;
    so all rows are put into one dimension before it.

    Args:
        intermediate_size: Number of channels F.
        init: Initial slope a for negative inputs.
    """

    def __init__(self, intermediate_size: int, init: float = 0.25):
        super().__init__()
        self.weight = nn.Parameter(torch.full((intermediate_size,), init))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        return F.prelu(rows, self.weight.to(x.dtype)).view_as(x)


def snake(x: Tensor, frequency: Tensor) -> Tensor:
    """X + sin(a x)^2 / a as x + a x^2 sinc(a x)^2, which is x at a = 0 and divides by nothing."""
    return x + frequency * (x * _sinc(frequency * x)).square()


def snake_gradients(grad: Tensor, x: Tensor, frequency: Tensor) -> tuple[Tensor, Tensor]:
    """1 + sin(2 a x) for x; x^2 s (2 cos(a x) - s) for a, where s = sin(a x) / (a x)."""
    angle = frequency * x
    sinc, cosine = _sinc(angle), angle.cos()
    of_frequency = grad * x.square() * sinc * (2 * cosine - sinc)
    return grad * (1 + 2 * angle * sinc * cosine), of_frequency.sum(0)


def _sinc(angle: Tensor) -> Tensor:
    """sin(x) / x, which is 1 at zero."""
    return torch.where(angle == 0, 1, angle.sin() / torch.where(angle == 0, 1, angle))


class Snake(nn.Module):
    """Snake with a learnable frequency per channel: x + sin(a x)^2 / a (Ziyin et al. 2020).

    The paper's own initialisation and its correction of the variance are not used.

    Args:
        intermediate_size: Number of channels F.
        init: Initial frequency a.
    """

    def __init__(self, intermediate_size: int, init: float = 1.0):
        super().__init__()
        self.frequency = nn.Parameter(torch.full((intermediate_size,), init))

    def forward(self, x: Tensor) -> Tensor:
        return elementwise(snake, x, self.frequency, gradients=snake_gradients)


class ActivationFFN(nn.Module):
    """A stock feed-forward network, linear - activation - linear, around an elementwise variant.

    Parameters are named as in GPT-Neo. The linear layers start with PyTorch's initialisation; a model of this
    project gives its own layers the family's.

    Args:
        hidden_size: D.
        intermediate_size: F.
        activation: Elementwise module on (..., F).
        bias: Whether the linear layers have biases.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, activation: nn.Module, bias: bool = True):
        super().__init__()
        self.c_fc = nn.Linear(hidden_size, intermediate_size, bias=bias)
        self.act = activation
        self.c_proj = nn.Linear(intermediate_size, hidden_size, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(self.act(self.c_fc(x)))


def _activation(
    name: str,
    build: Callable[..., nn.Module],
    formula: str,
    reference: str,
    options: Mapping[str, Option] | None = None,
) -> FFNSpec:
    """Make the spec of an elementwise variant."""
    return FFNSpec(
        name=name,
        kind="activation",
        build=build,
        formula=formula,
        reference=reference,
        options=options or {},
        multiply_adds=lambda d, f, **_: 2 * d * f,
    )


def _initial(default: float, parameter: str) -> dict[str, Option]:
    return {"init": Option(default=default, help=f"initial {parameter} of every channel")}


ACTIVATION_SPECS = (
    _activation(
        "gelu",
        lambda _, approximate: GELU(approximate),
        "x Phi(x)",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415",
        {
            "approximate": Option(
                default="auto",
                choices=("auto", "tanh", "none"),
                help="form of GELU; auto is the family's (tanh in GPT-Neo and T5, erf in RoBERTa and Llama)",
            )
        },
    ),
    _activation(
        "learnable-gelu",
        lambda f, init: PerChannel(learnable_gelu, f, init),
        "beta_f GELU_tanh(x)",
        "AISE-TUDelft/tiny-transformers",
        _initial(1.0, "beta"),
    ),
    _activation("relu", lambda _: nn.ReLU(), "max(0, x)", "Nair and Hinton 2010, ICML"),
    _activation("relu2", lambda _: SquaredReLU(), "max(0, x)^2", "So et al. 2021, arXiv:2109.08668"),
    _activation(
        "leaky-relu2",
        lambda _, slope: LeakySquaredReLU(slope),
        "leaky_relu(x, a)^2",
        "openai/parameter-golf 2026, pull request 493; KellerJordan/modded-nanogpt, 249 (closed)",
        {"slope": Option(default=0.5, help="a, the slope below zero before squaring")},
    ),
    _activation(
        "prelu",
        PReLU,
        "max(0, x) + a_f min(0, x)",
        "He et al. 2015, arXiv:1502.01852",
        _initial(0.25, "slope a"),
    ),
    _activation("silu", lambda _: nn.SiLU(), "x sigmoid(x)", "Elfwing et al. 2017, arXiv:1702.03118"),
    _activation(
        "swish",
        lambda f, init: PerChannel(swish, f, init),
        "x sigmoid(beta_f x)",
        "Ramachandran et al. 2017, arXiv:1710.05941",
        _initial(1.0, "beta"),
    ),
    _activation(
        "snake",
        Snake,
        "x + sin(a_f x)^2 / a_f",
        "Ziyin et al. 2020, arXiv:2006.08195",
        _initial(1.0, "frequency a"),
    ),
    _activation("none", lambda _: nn.Identity(), "x", "control: two linear layers"),
    _activation(
        "thesis-swish",
        lambda f, init: PerChannel(thesis_swish, f, init),
        "x SiLU(beta_f x) = beta_f x^2 sigmoid(beta_f x)",
        'the source study\'s "swish", AISE-TUDelft/tiny-transformers',
        _initial(1.0, "beta"),
    ),
)


@dataclass(frozen=True)
class AboveThreshold:
    """What of each value is above its row's threshold.

    Attributes:
        deviations: z, how many deviations the threshold is above the mean.
    """

    deviations: float

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate (N, F) inputs."""
        centred = x - x.mean(-1, keepdim=True)
        # A row of equal values has no deviation, and sqrt no slope at zero.
        variance = centred.square().mean(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
        return torch.relu(centred - self.deviations * variance.sqrt())


class GaussianTopK(nn.Module):
    """The activation; it has no parameters.

    Args:
        sparsity: Share of channels that is to be zero.

    Raises:
        UsageError: Unless it is between 0 and 1.
    """

    def __init__(self, sparsity: float = 0.95):
        super().__init__()
        if not 0 < sparsity < 1:
            raise UsageError(f"'gaussian-topk' option sparsity must be between 0 and 1, got {sparsity:g}")
        self.function = AboveThreshold(NormalDist().inv_cdf(sparsity))

    def forward(self, x: Tensor) -> Tensor:
        return elementwise(self.function, x)


GAUSSIAN_TOPK_SPEC = FFNSpec(
    name="gaussian-topk",
    kind="activation",
    build=lambda _, sparsity: GaussianTopK(sparsity),
    formula="max(0, x - m - z s), m and s of a token's F values, z the quantile of the sparsity",
    reference="Gemma 3n, Google 2025 (transformers' Gemma3nTextMLP); Spark Transformer, arXiv:2506.06644",
    options={"sparsity": Option(default=0.95, help="share of channels that is to be zero, between 0 and 1")},
    multiply_adds=lambda d, f, **_: 2 * d * f,
)
