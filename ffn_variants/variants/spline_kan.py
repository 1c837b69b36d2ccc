"""`spline-kan`, the layer of the KAT5 post, and `spline-activation`, its splines between two linear layers.

S(x)_i = sum_k c_ik relu(t_ik - x_i)^3, with knots t and coefficients c learnable for every feature.
https://havric.com/2024/06/07/kat5-an-experimental-initiative/

`spline-kan` has such a spline for each feature of the inputs and one of the outputs. It mixes no features:
output i depends on input i alone, and intermediate_size has no effect. A model with it can move information
between features only in its attention. The function is the post's. Its initialisation is not, as outputs of
that are in the millions; the option ``initialisation`` brings it. The post's own model is no T5.
`spline-activation` is the stock feed-forward network with a spline for each inner channel, so that the
difference between the two shows what the mixing is worth.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from base import kan_layers
from base.options import Option
from ffn_variants.kernels.elementwise import elementwise
from ffn_variants.spec import FFNSpec
from ffn_variants.splines.feature_knots import eliminated, quantile_knots, refitted
from ffn_variants.splines.spline_layer import SplineLayer

KNOT_RANGE = (-2.0, 2.0)
INITIAL_RMS = 0.2

PRE_ACTIVATION_STD = 0.45
"""Of a stock FFN's first linear layer at the start, for normalised inputs: initializer_range x sqrt(512)."""
PRE_ACTIVATION_RANGE = (-1.0, 1.0)


class FeatureSplines(SplineLayer):
    """One truncated-power cubic spline per feature.

    Args:
        num_features: Number of features D.
        num_knots: Knots, and coefficients, of each spline.
        splines: ``"sparse"`` for splines whose knots can be pruned; ``"attention"`` for ones that weigh their
            knots: c_ik is multiplied by C softmax(a_i)_k, with a learnable and zero at the start.
        initialisation: ``"published"`` draws knots and coefficients from N(0, 1), as the KAT5 post does.
            The outputs of two sets then have a median size of 2 and a root mean square of over a million.

    Otherwise knots start evenly spaced over ``KNOT_RANGE``, which holds 95% of a normalised input.
    Coefficients come from torch's global generator, normal, scaled so that standard normal inputs give
    outputs with a root mean square of ``INITIAL_RMS``. Two sets then give about 0.07, the size of a stock
    FFN's initial output, and at most 19 over four million values; at an ``INITIAL_RMS`` of 0.5 the cubic
    tails of the second set reach 700. A spline that starts as the identity needs knots out at 6 and
    coefficients that cancel to one part in a thousand, so that a single optimizer step would change the
    output by more than its own size.
    """

    knot_range = KNOT_RANGE

    def __init__(
        self, num_features: int, num_knots: int = 10, splines: str = "dense", initialisation: str = "scaled"
    ):
        super().__init__()
        low, high = self.knot_range
        # Not torch.linspace, which transformers puts on the CPU while it loads a model on the meta device.
        knots = low + (high - low) / (num_knots - 1) * torch.arange(num_knots)
        coefficients = self.draw_coefficients(num_features, knots)
        knots = knots.repeat(num_features, 1)
        if initialisation == "published":
            knots, coefficients = torch.randn_like(knots), torch.randn_like(coefficients)
        self.knots, self.coefficients = nn.Parameter(knots), nn.Parameter(coefficients)
        self.attention = nn.Parameter(torch.zeros_like(knots)) if splines == "attention" else None
        self.make_mask(self.coefficients, splines)

    @staticmethod
    def draw_coefficients(num_features: int, knots: Tensor) -> Tensor:
        """(D, num_knots) initial coefficients for (num_knots,) knots."""
        return torch.randn(num_features, len(knots)) * _coefficient_std(knots)

    def curve_coefficients(self) -> Tensor:
        """(D, num_knots) coefficients."""
        coefficients = self.coefficients
        if self.attention is not None:
            coefficients = coefficients * (coefficients.shape[1] * self.attention.softmax(1))
        return coefficients if self.mask is None else coefficients * self.mask

    def forward(self, x: Tensor) -> Tensor:
        # The terms are large and cancel, which the float32 sums of elementwise survive.
        knots, coefficients = self.knots.t().contiguous(), self.curve_coefficients().t().contiguous()
        return elementwise(truncated_power_splines, x, knots, coefficients, gradients=spline_gradients)

    @torch.no_grad()
    def update_grid(self, x: Tensor) -> None:
        """Move the knots to quantiles of the inputs, but for up to four above them, and refit the curves."""
        self.check_unpruned()
        rows = x.reshape(-1, x.shape[-1])
        knots = quantile_knots(rows, self.knots).to(self.knots)  # refitted as they are stored
        self.coefficients.copy_(refitted(rows, self.curve_coefficients(), self.knots, knots))
        self.knots.copy_(knots)
        if self.attention is not None:  # it is in the new coefficients
            self.attention.zero_()

    @torch.no_grad()
    def prune(self, x: Tensor, threshold: float) -> None:
        """Take out knots that the others can make up for, with refitted coefficients."""
        mask = self.needed_mask()
        rows = x.reshape(-1, x.shape[-1])
        needed, coefficients = eliminated(rows, self.knots, self.curve_coefficients(), mask, threshold)
        mask.copy_(needed)
        self.coefficients.copy_(coefficients)


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


class SplineActivation(FeatureSplines):
    """A spline per channel, as the activation of a stock feed-forward network.

    Knots start over ``PRE_ACTIVATION_RANGE``, which holds 97% of the first linear layer's initial outputs.
    Coefficients are normal, without what gives a curve a value at zero, which the top knots alone would
    decide and which would be most of every token's output. They are scaled to the root mean square of GELU's
    output. Curves fitted to GELU would begin no better, and of coefficients that cancel, which bf16 cannot
    hold.

    Args:
        num_features: Number of channels F.
        num_knots: Knots, and coefficients, of each spline.
        splines: As in ``FeatureSplines``.
    """

    knot_range = PRE_ACTIVATION_RANGE

    @staticmethod
    def draw_coefficients(num_features: int, knots: Tensor) -> Tensor:
        """(F, num_knots) initial coefficients for (num_knots,) knots."""
        x = torch.arange(-800, 801, device=knots.device) / 200 * PRE_ACTIVATION_STD
        shares = torch.softmax(-((x / PRE_ACTIVATION_STD) ** 2) / 2, 0)
        powers = torch.relu(knots - x[:, None]) ** 3
        at_zero = torch.relu(knots) ** 3
        coefficients = torch.randn(num_features, len(knots))
        coefficients = coefficients - torch.outer(coefficients @ at_zero / (at_zero @ at_zero), at_zero)
        power = (shares @ (powers @ coefficients.t()).square()).mean()
        return coefficients * (shares @ F.gelu(x).square() / power).sqrt()


class SplineKANFFN(nn.Module):
    """Input splines, then output splines, in place of the whole feed-forward network.

    Args:
        hidden_size: D.
        intermediate_size: Has no effect, as the layer has no inner width; accepted as for every variant.
        num_knots: Knots of each spline.
        splines: As in ``FeatureSplines``.
        initialisation: As in ``FeatureSplines``.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        num_knots: int = 10,
        splines: str = "dense",
        initialisation: str = "scaled",
    ):
        super().__init__()
        self.input_splines = FeatureSplines(hidden_size, num_knots, splines, initialisation)
        self.output_splines = FeatureSplines(hidden_size, num_knots, splines, initialisation)

    def forward(self, x: Tensor) -> Tensor:
        return self.output_splines(self.input_splines(x))


_SPLINES = Option(
    default="dense",
    choices=("dense", "sparse", "attention"),
    help="sparse: knots can be pruned; attention: a softmax weighs the knots",
)

SPLINE_SPEC = FFNSpec(
    name="spline-kan",
    kind="block",
    build=SplineKANFFN,
    formula="twice: sum_k c_ik relu(t_ik - x_i)^3 per feature; mixes no features, ignores F",
    reference=kan_layers.SPLINE_KAN.reference,
    options={
        **kan_layers.SPLINE_KAN.options,
        "splines": _SPLINES,
        "initialisation": Option(
            default="scaled",
            choices=("scaled", "published"),
            help="published: knots and coefficients from N(0, 1), as the KAT5 post; outputs in the millions",
        ),
    },
    multiply_adds=lambda d, _, num_knots, **__: 2 * d * num_knots,
)

SPLINE_ACTIVATION_SPEC = FFNSpec(
    name="spline-activation",
    kind="activation",
    build=SplineActivation,
    formula="sum_k c_fk relu(t_fk - x)^3",
    reference="the splines of spline-kan between two linear layers",
    options={
        # With fewer, a curve through zero is flat at one side of it.
        "num_knots": Option(default=10, minimum=4, help="knots of each channel's spline"),
        "splines": _SPLINES,
    },
    multiply_adds=lambda d, f, **_: 2 * d * f,
)
