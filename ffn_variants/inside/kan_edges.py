"""The edges of every kind of KAN layer: their functions, their weights and their removal.

Shapes: N rows, I inputs, O outputs, K functions of each input.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ffn_variants.inside.edges import Edges, edges_of, hide_layers_of, itself, remove_edges
from ffn_variants.splines.b_splines import splines_on
from ffn_variants.variants import efficient_kan
from ffn_variants.variants.cheby_kan import ChebyKANLinear, ChebyshevBasis
from ffn_variants.variants.edge_kan import MLPEdgeLinear, WavKANLinear
from ffn_variants.variants.fourier_kan import FourierBasis, FourierKANLinear
from ffn_variants.variants.kan import KANLinear
from ffn_variants.variants.moe import MoEFFN
from ffn_variants.variants.polynomial_kan import PolynomialKANLinear
from ffn_variants.variants.product_key_memory import ProductKeyMemory
from ffn_variants.variants.rbf_kan import GRID_RANGE, GaussianBasis, RBFKANLinear
from ffn_variants.variants.relu_kan import ReLUKANLinear
from ffn_variants.variants.sine_kan import SineKANLinear, waves
from ffn_variants.variants.spline_kan import FeatureSplines, SplineActivation

SATURATED = 0.99
"""Of tanh: beyond, a polynomial of it hardly moves."""

for network in (MLPEdgeLinear, WavKANLinear, MoEFFN, ProductKeyMemory):
    hide_layers_of(network)


def _b_spline_edges(layer: Any) -> Edges:
    order = layer.spline_order
    basis, constants = splines_on(layer.grid, order)
    coefficients = layer.spline_weight * layer.spline_scaler.unsqueeze(-1)
    mask = getattr(layer, "mask", None)
    splines = (coefficients if mask is None else coefficients * mask).detach().transpose(1, 2)

    def features(x: Tensor) -> Tensor:
        return basis(x, *constants)

    return Edges(
        kind="B-splines and SiLU",
        weight=torch.cat([layer.base_weight.detach().unsqueeze(1), splines], 1),
        bias=None,
        features=features,
        coordinates=itself,
        basis=features,
        limits=(layer.grid[:, order], layer.grid[:, -1 - order]),
    )


@torch.no_grad()
def _remove_b_splines(layer: Any, removed: Tensor) -> None:
    layer.base_weight[removed] = 0
    layer.spline_weight[removed] = 0


edges_of.register(KANLinear, _b_spline_edges)
remove_edges.register(KANLinear, _remove_b_splines)
if efficient_kan.INSTALLED:
    from efficient_kan import KANLinear as PackageKANLinear  # type: ignore[missing-import]

    edges_of.register(PackageKANLinear, _b_spline_edges)
    remove_edges.register(PackageKANLinear, _remove_b_splines)


@edges_of.register
def _(layer: FourierKANLinear) -> Edges:
    features = FourierBasis(layer.grid_size)
    return Edges(
        kind="cosines and sines",
        weight=layer.fouriercoeffs.detach().permute(1, 0, 3, 2).flatten(1, 2),
        bias=None if layer.bias is None else layer.bias.detach(),
        features=features,
        coordinates=itself,
        basis=features,
        limits=_shared_ends(-torch.pi, torch.pi, layer.fouriercoeffs, layer.in_features),
    )


@remove_edges.register
@torch.no_grad()
def _(layer: FourierKANLinear, removed: Tensor) -> None:
    layer.fouriercoeffs[:, removed] = 0


@edges_of.register
def _(layer: ChebyKANLinear) -> Edges:
    features = ChebyshevBasis(layer.degree)
    end = float(torch.atanh(torch.tensor(SATURATED)))
    return Edges(
        kind="Chebyshev polynomials of tanh",
        weight=layer.cheby_coeffs.detach().permute(1, 2, 0),
        bias=None,
        features=features,
        coordinates=itself,
        basis=features,
        limits=_shared_ends(-end, end, layer.cheby_coeffs, len(layer.cheby_coeffs)),
    )


@remove_edges.register
@torch.no_grad()
def _(layer: ChebyKANLinear, removed: Tensor) -> None:
    layer.cheby_coeffs[removed.t()] = 0


@edges_of.register
def _(layer: PolynomialKANLinear) -> Edges:
    end = float(torch.atanh(torch.tensor(SATURATED)))
    return Edges(
        kind="orthogonal polynomials of tanh",
        weight=layer.coefficients.detach().permute(1, 2, 0),
        bias=None,
        features=layer.basis,
        coordinates=itself,
        basis=layer.basis,
        limits=_shared_ends(-end, end, layer.coefficients, len(layer.coefficients)),
    )


@remove_edges.register
@torch.no_grad()
def _(layer: PolynomialKANLinear, removed: Tensor) -> None:
    layer.coefficients[removed.t()] = 0


@edges_of.register
def _(layer: ReLUKANLinear) -> Edges:
    @torch.no_grad()
    def features(x: Tensor) -> Tensor:
        return layer.bumps(x, layer.left_knots, layer.right_knots)

    return Edges(
        kind="bumps of two ReLUs",
        weight=layer.weight.detach().unflatten(1, layer.left_knots.shape),
        bias=layer.bias.detach(),
        features=features,
        coordinates=itself,
        basis=features,
        limits=(layer.left_knots.detach().min(0).values, layer.right_knots.detach().max(0).values),
    )


@remove_edges.register
@torch.no_grad()
def _(layer: ReLUKANLinear, removed: Tensor) -> None:
    layer.weight.unflatten(1, layer.left_knots.shape).transpose(1, 2)[removed] = 0


@edges_of.register
def _(layer: SineKANLinear) -> Edges:
    @torch.no_grad()
    def features(x: Tensor) -> Tensor:
        return waves(x, layer.frequency, layer.phase)

    return Edges(
        kind="sines",
        weight=layer.amplitudes.detach().transpose(1, 2),
        bias=layer.bias.detach(),
        features=features,
        coordinates=itself,
        basis=features,
    )


@remove_edges.register
@torch.no_grad()
def _(layer: SineKANLinear, removed: Tensor) -> None:
    layer.amplitudes[removed] = 0


@edges_of.register
def _(layer: RBFKANLinear) -> Edges:
    """Bumps of the normalised input, and SiLU of the input itself, which is no function of the former."""
    bumps = GaussianBasis(layer.grid_size)
    weight = layer.spline_weight.detach().unflatten(1, (layer.in_features, layer.grid_size)).transpose(1, 2)

    def features(x: Tensor) -> Tensor:
        return torch.cat([bumps(layer._normalized(x)), F.silu(x).unsqueeze(1)], 1)

    return Edges(
        kind="Gaussian bumps of the normalised input",
        weight=torch.cat([weight, layer.base_linear.weight.detach().unsqueeze(1)], 1),
        bias=layer.base_linear.bias.detach(),
        features=features,
        coordinates=layer._normalized,
        basis=bumps,
        limits=_shared_ends(*GRID_RANGE, weight, layer.in_features),
    )


@remove_edges.register
@torch.no_grad()
def _(layer: RBFKANLinear, removed: Tensor) -> None:
    layer.spline_weight.unflatten(1, (layer.in_features, layer.grid_size))[removed] = 0
    layer.base_linear.weight[removed] = 0


@edges_of.register
def _(layer: FeatureSplines) -> Edges:
    knots = layer.knots.detach().t()

    def features(x: Tensor) -> Tensor:
        return torch.relu(knots - x.unsqueeze(1)) ** 3

    return Edges(
        kind="truncated powers",
        weight=layer.curve_coefficients().detach().t().unsqueeze(0),
        bias=None,
        features=features,
        coordinates=itself,
        basis=features,
        limits=(knots.min(0).values, knots.max(0).values),
        mixes=False,
    )


# An activation between two linear layers, whose edges are those of the FFN.
edges_of.register(SplineActivation, edges_of.dispatch(object))


@remove_edges.register
@torch.no_grad()
def _(layer: FeatureSplines, removed: Tensor) -> None:
    layer.coefficients[removed[0]] = 0


def _shared_ends(low: float, high: float, like: Tensor, num_inputs: int) -> tuple[Tensor, Tensor]:
    return like.new_full((num_inputs,), low), like.new_full((num_inputs,), high)
