"""The edges of every kind of KAN layer: their functions, and the parameters that weigh them.

Shapes: N rows, I inputs, O outputs, K functions of each input.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ffn_variants.inside.edges import Edges, edges_of, hide_layers_of
from ffn_variants.splines.b_splines import splines_on
from ffn_variants.variants import efficient_kan
from ffn_variants.variants.cheby_kan import ChebyKANLinear, ChebyshevBasis
from ffn_variants.variants.edge_kan import MLPEdgeLinear, WavKANLinear
from ffn_variants.variants.fourier_kan import FourierBasis, FourierKANLinear
from ffn_variants.variants.kan import KANLinear
from ffn_variants.variants.moe import MoEFFN
from ffn_variants.variants.polynomial_kan import PolynomialKANLinear
from ffn_variants.variants.product_key_memory import ProductKeyMemory
from ffn_variants.variants.rbf_kan import GaussianBasis, RBFKANLinear
from ffn_variants.variants.relu_kan import ReLUKANLinear
from ffn_variants.variants.sine_kan import SineKANLinear, waves
from ffn_variants.variants.spline_kan import FeatureSplines, SplineActivation

for network in (MLPEdgeLinear, WavKANLinear, MoEFFN, ProductKeyMemory):
    hide_layers_of(network)


def _b_spline_edges(layer: Any) -> Edges:
    basis, constants = splines_on(layer.grid, layer.spline_order)
    coefficients = layer.spline_weight * layer.spline_scaler.unsqueeze(-1)
    mask = getattr(layer, "mask", None)
    splines = coefficients if mask is None else coefficients * mask
    weight = torch.cat([layer.base_weight.unsqueeze(-1), splines], -1)
    return Edges(
        parameters=(layer.base_weight.detach(), layer.spline_weight.detach()),
        effective=weight.detach().transpose(1, 2),
        features=lambda x: basis(x, *constants),
    )


edges_of.register(KANLinear, _b_spline_edges)
if efficient_kan.INSTALLED:
    from efficient_kan import KANLinear as PackageKANLinear  # type: ignore[missing-import]

    edges_of.register(PackageKANLinear, _b_spline_edges)


@edges_of.register
def _(layer: FourierKANLinear) -> Edges:
    coefficients = layer.fouriercoeffs.detach().permute(1, 2, 0, 3)  # cosines, then sines, as the basis
    return Edges(parameters=(coefficients,), features=FourierBasis(layer.grid_size))


@edges_of.register
def _(layer: ChebyKANLinear) -> Edges:
    coefficients = layer.cheby_coeffs.detach().transpose(0, 1)
    return Edges(parameters=(coefficients,), features=ChebyshevBasis(layer.degree))


@edges_of.register
def _(layer: PolynomialKANLinear) -> Edges:
    return Edges(parameters=(layer.coefficients.detach().transpose(0, 1),), features=layer.basis)


@edges_of.register
def _(layer: ReLUKANLinear) -> Edges:
    @torch.no_grad()
    def features(x: Tensor) -> Tensor:
        return layer.bumps(x, layer.left_knots, layer.right_knots)

    weight = layer.weight.detach().unflatten(1, layer.left_knots.shape).transpose(1, 2)
    return Edges(parameters=(weight,), features=features)


@edges_of.register
def _(layer: SineKANLinear) -> Edges:
    @torch.no_grad()
    def features(x: Tensor) -> Tensor:
        return waves(x, layer.frequency, layer.phase)

    return Edges(parameters=(layer.amplitudes.detach(),), features=features)


@edges_of.register
def _(layer: RBFKANLinear) -> Edges:
    """Bumps of the normalised input, and SiLU of the input itself, which is no function of the former."""
    bumps = GaussianBasis(layer.grid_size)
    weight = layer.spline_weight.detach().unflatten(1, (layer.in_features, layer.grid_size))

    def features(x: Tensor) -> Tensor:
        return torch.cat([bumps(layer._normalized(x)), F.silu(x).unsqueeze(1)], 1)

    return Edges(
        parameters=(weight, layer.base_linear.weight.detach()),
        features=features,
        coordinates=layer._normalized,
        basis=bumps,
    )


@edges_of.register
def _(layer: FeatureSplines) -> Edges:
    knots = layer.knots.detach().t()
    return Edges(
        parameters=(layer.coefficients.detach().unsqueeze(0),),
        effective=layer.curve_coefficients().detach().t().unsqueeze(0),
        features=lambda x: torch.relu(knots - x.unsqueeze(1)) ** 3,
    )


# An activation between two linear layers, whose edges are those of the FFN.
edges_of.register(SplineActivation, edges_of.dispatch(object))
