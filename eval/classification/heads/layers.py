"""Heads of one vector an example: a linear layer, two of them, and the layers of the FFN registry.

Shapes: n examples, D hidden_size, C labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from base.options import Option
from eval.classification.heads.spec import HeadOutput, HeadSpec
from ffn_variants.variants import cheby_kan, fourier_kan, gr_kan, kan, rbf_kan, spline_kan

INIT_STD = 0.02
"""Of linear layers at the start, as transformers' heads have it."""
MATCHABLE = ("linear", "fourier-kan", "kan", "cheby-kan", "rbf-kan", "gr-kan", "spline-kan")


class ExampleHead(nn.Module):
    """Any module from (n, D) to (n, C) as a head.

    Args:
        layers: The module.
    """

    def __init__(self, layers: nn.Module):
        super().__init__()
        self.layers = layers

    def forward(self, vectors: Tensor, mask: Tensor | None = None) -> HeadOutput:
        return HeadOutput(self.layers(vectors))


def linear(in_features: int, out_features: int) -> nn.Linear:
    """Make a linear layer that starts as transformers' heads do: normal weights, no bias."""
    layer = nn.Linear(in_features, out_features)
    nn.init.normal_(layer.weight, std=INIT_STD)
    nn.init.zeros_(layer.bias)
    return layer


def mlp_width(hidden_size: int, num_labels: int, num_params: int) -> int:
    """Return the width at which an ``mlp`` has about that many parameters, one at least."""
    return max(1, round((num_params - num_labels) / (hidden_size + num_labels + 1)))


def _mlp(hidden_size: int, num_labels: int, width: int, match: str) -> nn.Module:
    if match != "none":
        matched = next(spec for spec in SPECS if spec.name == match)
        width = mlp_width(hidden_size, num_labels, matched.num_params(hidden_size, num_labels))
    return nn.Sequential(linear(hidden_size, width), nn.Sigmoid(), linear(width, num_labels))


def _gr_kan(hidden_size: int, num_labels: int, groups: int) -> nn.Module:
    num_groups = gr_kan.choose_groups(hidden_size, hidden_size, groups)
    return nn.Sequential(gr_kan.GroupRational(num_groups, "identity"), linear(hidden_size, num_labels))


def _spline_kan(hidden_size: int, num_labels: int, num_knots: int) -> nn.Module:
    return nn.Sequential(spline_kan.FeatureSplines(hidden_size, num_knots), linear(hidden_size, num_labels))


def _spec(
    name: str, layer: Callable[..., nn.Module], formula: str, reference: str, options: dict[str, Option]
) -> HeadSpec:
    def build(hidden_size: int, num_labels: int, **options: Any) -> ExampleHead:
        return ExampleHead(layer(hidden_size, num_labels, **options))

    return HeadSpec(
        name=name, reads="example", build=build, formula=formula, reference=reference, options=options
    )


def _option(spec: Any, name: str) -> dict[str, Option]:
    """The option of the FFN variant that the head's layer shares."""
    return {name: spec.options[name]}


SPECS = (
    _spec("linear", linear, "W x + b", "the usual head", {}),
    _spec(
        "mlp",
        _mlp,
        "V sigmoid(W x + b) + c",
        "the comparison of Al Imran and Ishmam 2024",
        {
            "width": Option(default=128, minimum=1, help="hidden units"),
            "match": Option(
                default="none",
                choices=("none", *MATCHABLE),
                help="take the width that gives as many parameters as this head has",
            ),
        },
    ),
    _spec(
        "fourier-kan",
        lambda d, c, **options: fourier_kan.FourierKANLinear(d, c, bias=False, **options),
        "sum_i sum_{k<=grid_size} a_cik cos(k x_i) + b_cik sin(k x_i)",
        "FR-KAN: Al Imran and Ishmam 2024, arXiv:2408.08803",
        {
            **_option(fourier_kan.SPEC, "grid_size"),
            "init_scale": Option(default=1.0, help="standard deviation of a logit at the start"),
        },
    ),
    _spec(
        "kan",
        kan.KANLinear,
        "sum_i w_ci SiLU(x_i) + s_ci sum_k v_cik B_k(x_i)",
        kan.SPEC.reference,
        _option(kan.SPEC, "grid_size") | _option(kan.SPEC, "spline_order"),
    ),
    _spec(
        "cheby-kan",
        cheby_kan.ChebyKANLinear,
        "sum_i sum_k w_cik T_k(tanh x_i)",
        cheby_kan.SPEC.reference,
        _option(cheby_kan.SPEC, "degree"),
    ),
    _spec(
        "rbf-kan",
        rbf_kan.RBFKANLinear,
        "sum_i sum_g v_cig exp(-((LN(x)_i - t_g)/h)^2) + W SiLU(x) + b",
        rbf_kan.SPEC.reference,
        _option(rbf_kan.SPEC, "grid_size") | _option(rbf_kan.SPEC, "init_scale"),
    ),
    _spec(
        "gr-kan",
        _gr_kan,
        "W R(x) + b, with R(x_i) = P(x_i) / (1 + |A_g(x_i)|) for each group g of features",
        gr_kan.SPEC.reference,
        _option(gr_kan.SPEC, "groups"),
    ),
    _spec(
        "spline-kan",
        _spline_kan,
        "W S(x) + b, a spline S_i(x_i) = sum_k c_ik relu(t_ik - x_i)^3 for each feature",
        spline_kan.SPEC.reference,
        _option(spline_kan.SPEC, "num_knots"),
    ),
)
