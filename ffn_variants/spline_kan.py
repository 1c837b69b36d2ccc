"""`spline-kan`: the layer of the KAT5 post, a cubic spline per feature on the inputs and one on the outputs.

S(x)_i = sum_k c_ik relu(t_ik - x_i)^3, with knots t and coefficients c learnable for every feature.
https://havric.com/2024/06/07/kat5-an-experimental-initiative/

It mixes no features: output i depends on input i alone, and intermediate_size has no effect. A model with it
can move information between features only in its attention, which is part of what a comparison shows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ffn_variants.elementwise import elementwise
from ffn_variants.options import Option
from ffn_variants.spec import FFNSpec

KNOT_RANGE = (-2.0, 2.0)
INITIAL_RMS = 0.2


class FeatureSplines(nn.Module):
    """One truncated-power cubic spline per feature.

    Args:
        num_features: Number of features D.
        num_knots: Knots, and coefficients, of each spline.

    Knots start evenly spaced over ``KNOT_RANGE``, which holds 95% of a normalised input. Coefficients come
    from torch's global generator, normal, scaled so that standard normal inputs give outputs with a root
    mean square of ``INITIAL_RMS``. Two sets then give about 0.07, the size of a stock FFN's initial output,
    and at most 19 over four million values; at an ``INITIAL_RMS`` of 0.5 the cubic tails of the second set
    reach 700. A spline that starts as the identity needs knots out at 6 and coefficients that cancel to one
    part in a thousand, so that a single optimizer step would change the output by more than its own size.
    """

    def __init__(self, num_features: int, num_knots: int = 10):
        super().__init__()
        low, high = KNOT_RANGE
        # Not torch.linspace, which transformers puts on the CPU while it loads a model on the meta device.
        knots = low + (high - low) / (num_knots - 1) * torch.arange(num_knots)
        self.knots = nn.Parameter(knots.repeat(num_features, 1))
        self.coefficients = nn.Parameter(torch.randn(num_features, num_knots) * _coefficient_std(knots))

    def forward(self, x: Tensor) -> Tensor:
        # The terms are large and cancel, which the float32 sums of elementwise survive.
        knots, coefficients = self.knots.t().contiguous(), self.coefficients.t().contiguous()
        return elementwise(truncated_power_splines, x, knots, coefficients, gradients=spline_gradients)


def truncated_power_splines(x: Tensor, knots: Tensor, coefficients: Tensor) -> Tensor:
    """sum_k c_ki relu(t_ki - x_i)^3 of (N, D) inputs, (num_knots, D) knots and coefficients, to (N, D)."""
    return (torch.relu(knots - x.unsqueeze(1)) ** 3 * coefficients).sum(1)


def spline_gradients(
    grad: Tensor, x: Tensor, knots: Tensor, coefficients: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Differentiate ``truncated_power_splines`` by hand: a zero of relu needs no mask to stay a zero here."""
    reach = torch.relu(knots - x.unsqueeze(1))
    square = reach * reach
    slopes = square * (3 * coefficients)
    along = grad.unsqueeze(1)
    return -grad * slopes.sum(1), (slopes * along).sum(0), (square * reach * along).sum(0)


def _coefficient_std(knots: Tensor) -> Tensor:
    """Compute the coefficients' standard deviation that gives E[S(x)^2] = INITIAL_RMS^2 for x ~ N(0, 1)."""
    x = torch.arange(-800, 801, device=knots.device) / 100
    density = torch.exp(-(x**2) / 2)
    power = (torch.relu(knots - x[:, None]) ** 6).sum(1)
    return INITIAL_RMS / torch.sqrt((power * density).sum() / density.sum())


class SplineKANFFN(nn.Module):
    """Input splines, then output splines, in place of the whole feed-forward network.

    Args:
        hidden_size: D.
        intermediate_size: Has no effect, as the layer has no inner width; accepted as for every variant.
        num_knots: Knots of each spline.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, num_knots: int = 10):
        super().__init__()
        self.input_splines = FeatureSplines(hidden_size, num_knots)
        self.output_splines = FeatureSplines(hidden_size, num_knots)

    def forward(self, x: Tensor) -> Tensor:
        return self.output_splines(self.input_splines(x))


SPEC = FFNSpec(
    name="spline-kan",
    kind="block",
    build=SplineKANFFN,
    formula="twice: sum_k c_ik relu(t_ik - x_i)^3 per feature; mixes no features, ignores F",
    reference="KAT5 post 2024, havric.com/2024/06/07",
    options={"num_knots": Option(default=10, minimum=2, help="knots of each spline")},
    multiply_adds=lambda d, _, num_knots: 2 * d * num_knots,
)
