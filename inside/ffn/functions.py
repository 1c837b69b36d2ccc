"""The functions inside the FFNs of a model: edges of layers, and elementwise functions.

A layer of edges is y_o = bias_o + sum_i f_oi(x), and each f_oi a weighted sum of K functions of input i.
``edges_of`` dispatches on the class of the layer; a new kind of KAN layer is one more registration. A linear
layer has edges, too, each a straight line, so that whatever is measured of edges can be measured of an MLP. A
layer has none where an edge has a function of its own that is no sum of what all edges share (`wav-kan`,
`mlp-edge`), or where a network chooses what a token meets (`moe`, `product-key-memory`).

Shapes: N rows, I inputs, O outputs, K functions of each input, F channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ffn_variants.models.layers import ffn_modules
from ffn_variants.splines.b_splines import splines_on
from ffn_variants.variants import series_kan
from ffn_variants.variants.bump_kan import GaussianBasis, RBFKANLinear, ReLUKANLinear
from ffn_variants.variants.edge_kan import MLPEdgeLinear, WavKANLinear
from ffn_variants.variants.kan import KANLinear
from ffn_variants.variants.learned_curves import GroupRational
from ffn_variants.variants.sparse import MoEFFN, ProductKeyMemory
from ffn_variants.variants.spline_kan import FeatureSplines, SplineActivation

WITHOUT_EDGES = (MLPEdgeLinear, WavKANLinear, MoEFFN, ProductKeyMemory)
"""Networks that are no sums of edges, though layers inside them are."""


@dataclass(frozen=True, kw_only=True)
class Edges:
    """The edges of one layer, as weights of functions of its inputs."""

    parameters: tuple[Tensor, ...]
    """Views of the layer's parameters, (O, I, ...) each; an edge whose entries are all zero gives zero. A
    layer that mixes no inputs has O = 1: output i is a function of input i alone."""
    features: Callable[[Tensor], Tensor]
    """(N, I) inputs of the layer to (N, K, I) values of the functions."""
    effective: Tensor | None = None
    """(O, K, I) weights of the functions, where they are not the parameters one after the other."""
    coordinates: Callable[[Tensor], Tensor] = lambda x: x
    """(N, I) inputs of the layer to (N, I) numbers that the edges are functions of."""
    basis: Callable[[Tensor], Tensor] | None = None
    """(N, I) such numbers to (N, C, I) values of the first C functions; None where those are ``features``."""

    @property
    def weight(self) -> Tensor:
        """(O, K, I) weights of the functions."""
        if self.effective is not None:
            return self.effective
        flat = [p.reshape(*p.shape[:2], -1) for p in self.parameters]
        return torch.cat(flat, 2).transpose(1, 2)

    def curves(self, outputs: Tensor, inputs: Tensor, points: Tensor) -> Tensor:
        """Draw edges: (E,) outputs and inputs, and (Q, I) coordinates, to (E, Q) values."""
        basis = (self.basis or self.features)(points)
        weight = self.weight[outputs, : basis.shape[1], inputs]
        return torch.einsum("qke,ek->eq", basis[:, :, inputs], weight)

    @torch.no_grad()
    def remove(self, removed: Tensor) -> None:
        """Set edges of the layer to zero, (O, I) true for those to go; biases stay."""
        if removed.any():
            for parameter in self.parameters:
                parameter[removed] = 0


@singledispatch
def edges_of(layer: nn.Module) -> Edges | None:
    """Return the edges of a layer; None for a module that is no layer of edges."""
    return None


def edge_layers(ffn: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of edges in a feed-forward network, those inside others left out."""
    if isinstance(ffn, WITHOUT_EDGES):
        return
    if edges_of.dispatch(type(ffn)) is not edges_of.dispatch(object):
        yield ffn
        return
    for child in ffn.children():
        yield from edge_layers(child)


def ffns_of(model: nn.Module) -> list[tuple[nn.Module, ...]]:
    """The modules of each transformer layer's feed-forward network, in the order of the layers."""
    return [parts for module in model.modules() if (parts := ffn_modules(module))]


def model_edge_layers(model: nn.Module) -> list[list[nn.Module]]:
    """List the layers of edges of each of a model's FFNs; the inputs of the last are the FFN's units."""
    return [[layer for part in parts for layer in edge_layers(part)] for parts in ffns_of(model)]


@edges_of.register
def _(layer: nn.Linear) -> Edges:
    return Edges(parameters=(layer.weight.detach(),), features=lambda x: x.unsqueeze(1))


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


@edges_of.register
def _(layer: series_kan.FourierKANLinear) -> Edges:
    coefficients = layer.fouriercoeffs.detach().permute(1, 2, 0, 3)  # cosines, then sines, as the basis
    return Edges(parameters=(coefficients,), features=series_kan.FourierBasis(layer.grid_size))


@edges_of.register
def _(layer: series_kan.PolynomialKANLinear) -> Edges:
    coefficients = layer.get_parameter(layer.coefficients_name).detach().transpose(0, 1)
    return Edges(parameters=(coefficients,), features=layer.basis)


@edges_of.register
def _(layer: ReLUKANLinear) -> Edges:
    knots = layer.left_knots.detach(), layer.right_knots.detach()
    weight = layer.weight.detach().unflatten(1, layer.left_knots.shape).transpose(1, 2)
    return Edges(parameters=(weight,), features=lambda x: layer.bumps(x, *knots))


@edges_of.register
def _(layer: series_kan.SineKANLinear) -> Edges:
    frequency, phase = layer.frequency.detach(), layer.phase.detach()
    return Edges(
        parameters=(layer.amplitudes.detach(),), features=lambda x: series_kan.waves(x, frequency, phase)
    )


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


_SLOTS = ("act", "intermediate_act_fn")
"""Where GPT-Neo, T5 and Llama, and RoBERTa, keep what stands between the two linear layers."""


def activations_of(model: nn.Module) -> list[tuple[int, nn.Module]]:
    """List the elementwise functions of a model's FFNs, in their order.

    Each with the number of its transformer layer, from 1; from (N, F) to (N, F), each channel on its own.
    """
    return [
        (number, module) for number, parts in enumerate(ffns_of(model), 1) for module in _elementwise(parts)
    ]


def _elementwise(parts: tuple[nn.Module, ...]) -> Iterator[nn.Module]:
    for slot in _SLOTS:
        if isinstance(module := getattr(parts[0], slot, None), nn.Module):
            yield module
            return
    for part in parts:
        yield from (module for module in part.modules() if isinstance(module, GroupRational))
