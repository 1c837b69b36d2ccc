"""The registry of feed-forward variants: a dict of frozen specs, and the two functions that read it.

Shapes: D hidden_size, F intermediate_size, G grid terms, K spline order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from ffn_variants import activations, fourier_kan, kan, spline_kan
from ffn_variants.errors import UsageError, unknown_name
from ffn_variants.options import Option, resolve_options

FFNName = Literal[
    "gelu",
    "learnable-gelu",
    "relu",
    "prelu",
    "silu",
    "swish",
    "none",
    "kan",
    "fourier-kan",
    "spline-kan",
    "thesis-swish",
]
"""Every name in ``FFN_VARIANTS``, for typing and for the choices of a command."""


@dataclass(frozen=True, kw_only=True)
class FFNSpec:
    """What the project knows of one variant."""

    name: str
    """As typed after ``--ffn`` and stored in config.json."""
    kind: Literal["activation", "block"]
    """Elementwise between the stock linear layers, or the whole map from D over F to D."""
    build: Callable[..., nn.Module]
    """``build(intermediate_size, **options)`` for an activation, ``build(hidden_size, intermediate_size,
    **options)`` for a block; every option is given."""
    formula: str
    """Plain text, for the table of ``python -m ffn_variants`` and the report."""
    reference: str
    """Paper or repository."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """What ``ffn_options`` may hold."""
    parameters: Callable[..., int]
    """``parameters(D, F, **options)``: learnable numbers of one FFN, linear layers and biases included."""
    multiply_adds: Callable[..., int]
    """``multiply_adds(D, F, **options)`` of one token's forward pass through one FFN."""

    def resolve(self, options: Mapping[str, Any] | None) -> dict[str, int | float | str]:
        """Return a value for every option; ``UsageError`` for one that does not exist or does not fit."""
        return resolve_options(self.name, self.options, options)

    def num_params(self, hidden_size: int, intermediate_size: int, **options: Any) -> int:
        """Count the learnable parameters of one FFN of this variant."""
        return self.parameters(hidden_size, intermediate_size, **self.resolve(options))

    def flops_per_token(self, hidden_size: int, intermediate_size: int, **options: Any) -> int:
        """Count the floating-point operations of one token's forward pass through one FFN.

        Two for each multiply-add of the weights; activations, bases and biases are left out, as usual.
        Training costs about three times as much.
        """
        return 2 * self.multiply_adds(hidden_size, intermediate_size, **self.resolve(options))


def _activation(
    name: str,
    build: Callable[..., nn.Module],
    formula: str,
    reference: str,
    options: Mapping[str, Option] | None = None,
    learnable: bool = False,
) -> FFNSpec:
    """Make the spec of an elementwise variant; a learnable one has one parameter per channel."""
    return FFNSpec(
        name=name,
        kind="activation",
        build=build,
        formula=formula,
        reference=reference,
        options=options or {},
        parameters=lambda d, f, **_: 2 * d * f + f + d + (f if learnable else 0),
        multiply_adds=lambda d, f, **_: 2 * d * f,
    )


def _initial(default: float, parameter: str) -> dict[str, Option]:
    return {"init": Option(default=default, help=f"initial {parameter} of every channel")}


_GRID_SIZE = Option(default=5, minimum=1, help="intervals of each spline's grid over [-1, 1]")
_RAMACHANDRAN = "Ramachandran et al. 2017, arXiv:1710.05941"

_SPECS = (
    _activation(
        "gelu",
        lambda _, approximate: activations.GELU(approximate),
        "x Phi(x)",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415",
        {
            "approximate": Option(
                default="auto",
                choices=("auto", "tanh", "none"),
                help="form of GELU; auto keeps the model family's own (tanh in GPT-Neo, erf in RoBERTa)",
            )
        },
    ),
    _activation(
        "learnable-gelu",
        activations.LearnableGELU,
        "beta_f GELU_tanh(x)",
        "AISE-TUDelft/tiny-transformers",
        _initial(1.0, "beta"),
        learnable=True,
    ),
    _activation("relu", lambda _: nn.ReLU(), "max(0, x)", "Nair and Hinton 2010, ICML"),
    _activation(
        "prelu",
        activations.PReLU,
        "max(0, x) + a_f min(0, x)",
        "He et al. 2015, arXiv:1502.01852",
        _initial(0.25, "slope a"),
        learnable=True,
    ),
    _activation("silu", lambda _: nn.SiLU(), "x sigmoid(x)", "Elfwing et al. 2017, arXiv:1702.03118"),
    _activation(
        "swish",
        activations.Swish,
        "x sigmoid(beta_f x)",
        _RAMACHANDRAN,
        _initial(1.0, "beta"),
        learnable=True,
    ),
    _activation("none", lambda _: nn.Identity(), "x", "control: two linear layers"),
    FFNSpec(
        name="kan",
        kind="block",
        build=kan.KANFFN,
        formula="per layer: sum_i w_oi SiLU(x_i) + s_oi sum_c v_oic B_c(x_i)",
        reference="Liu et al. 2024, arXiv:2404.19756; Blealtan/efficient-kan",
        options={
            "grid_size": _GRID_SIZE,
            "spline_order": Option(default=3, minimum=1, help="degree of the spline's pieces"),
            "layers": Option(
                default="both",
                choices=("both", "first"),
                help="which linear layers become KAN layers",
            ),
            "activation": Option(
                default="none", choices=("none", "gelu"), help="what stands between the two layers"
            ),
        },
        # Beside its coefficients an edge has a base weight and a scaler, which costs no multiply-add a token.
        parameters=lambda d, f, grid_size, spline_order, layers, **_: (
            kan.count_edge_numbers(d, f, grid_size, spline_order, layers, 2) + (d if layers == "first" else 0)
        ),
        multiply_adds=lambda d, f, grid_size, spline_order, layers, **_: kan.count_edge_numbers(
            d, f, grid_size, spline_order, layers, 1
        ),
    ),
    FFNSpec(
        name="fourier-kan",
        kind="block",
        build=fourier_kan.FourierKANFFN,
        formula="per layer: sum_i sum_k a_oik cos(k x_i) + b_oik sin(k x_i), + bias_o",
        reference="GistNoesis/FourierKAN 2024",
        options={
            "grid_size": Option(default=5, minimum=1, help="number of frequencies k"),
            "init_scale": Option(
                default=0.1,
                help="standard deviation of each layer's output at the start; FourierKAN has 1, which drowns "
                "a model's embeddings",
            ),
        },
        parameters=lambda d, f, grid_size, **_: 4 * d * f * grid_size + f + d,
        multiply_adds=lambda d, f, grid_size, **_: 4 * d * f * grid_size,
    ),
    FFNSpec(
        name="spline-kan",
        kind="block",
        build=spline_kan.SplineKANFFN,
        formula="twice: sum_k c_ik relu(t_ik - x_i)^3 per feature; mixes no features, ignores F",
        reference="KAT5 post 2024, havric.com/2024/06/07",
        options={"num_knots": Option(default=10, minimum=2, help="knots of each spline")},
        parameters=lambda d, _, num_knots: 4 * d * num_knots,
        multiply_adds=lambda d, _, num_knots: 2 * d * num_knots,
    ),
    _activation(
        "thesis-swish",
        activations.ThesisSwish,
        "x SiLU(beta_f x) = beta_f x^2 sigmoid(beta_f x)",
        'the source study\'s "swish", AISE-TUDelft/tiny-transformers',
        _initial(1.0, "beta"),
        learnable=True,
    ),
)

FFN_VARIANTS: dict[str, FFNSpec] = {spec.name: spec for spec in _SPECS}


def get_variant(name: str) -> FFNSpec:
    """Look a variant up.

    Raises:
        UsageError: If there is none of that name; lists all and the closest match.
    """
    if name not in FFN_VARIANTS:
        raise unknown_name("FFN variant", name, FFN_VARIANTS)
    return FFN_VARIANTS[name]


def build_ffn(name: str, hidden_size: int, intermediate_size: int, **options: Any) -> nn.Module:
    """Build one feed-forward network.

    Args:
        name: A name in ``FFN_VARIANTS``.
        hidden_size: D.
        intermediate_size: F.
        **options: Options of the variant. ``gelu`` without any is tanh-GELU here.

    Returns:
        A module from (..., D) to (..., D), initialised from torch's global generator.

    Raises:
        UsageError: For an unknown variant or option, or a size below 1.
    """
    spec = get_variant(name)
    resolved = spec.resolve(options)
    for label, size in (("hidden_size", hidden_size), ("intermediate_size", intermediate_size)):
        if size < 1:
            raise UsageError(f"{label} must be at least 1, got {size!r}")
    if spec.kind == "block":
        return spec.build(hidden_size, intermediate_size, **resolved)
    activation = spec.build(intermediate_size, **resolved)
    return activations.ActivationFFN(hidden_size, intermediate_size, activation)
