"""The edges of a layer: every function of one input that is added up to one output, and their removal.

A layer of edges is y_o = bias_o + sum_i f_oi(x), and each f_oi a weighted sum of K functions of input i. Two
functions dispatch on the class of the layer; a new kind of KAN layer is one more registration of each. A
linear layer has edges, too, each a straight line, so that whatever is said of edges can be said of an MLP.

Shapes: N rows, I inputs, O outputs, K functions of each input.
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
from ffn_variants.variants import efficient_kan
from ffn_variants.variants.cheby_kan import ChebyKANLinear, ChebyshevBasis
from ffn_variants.variants.fourier_kan import FourierBasis, FourierKANLinear
from ffn_variants.variants.kan import KANLinear
from ffn_variants.variants.rbf_kan import GRID_RANGE, GaussianBasis, RBFKANLinear
from ffn_variants.variants.spline_kan import FeatureSplines, SplineActivation

SATURATED = 0.99
"""Of tanh: beyond, a Chebyshev polynomial of it hardly moves."""


@dataclass(frozen=True, kw_only=True)
class Edges:
    """The edges of one layer, as weights of functions of its inputs."""

    kind: str
    """What the functions are, for a reader: ``B-splines``."""
    weight: Tensor
    """(O, K, I); of a layer that mixes no inputs (1, K, I)."""
    bias: Tensor | None
    """(O,), what is added once."""
    features: Callable[[Tensor], Tensor]
    """(N, I) inputs of the layer to (N, K, I) values of the functions."""
    coordinates: Callable[[Tensor], Tensor]
    """(N, I) inputs of the layer to (N, I) numbers that the edges are functions of."""
    basis: Callable[[Tensor], Tensor]
    """(N, I) such numbers to (N, C, I) values of the first C functions; the others read the inputs."""
    limits: tuple[Tensor, Tensor] | None = None
    """(I,) lower and upper end of what the functions were made for; None where there are no ends."""
    mixes: bool = True
    """Whether every output reads every input; if not, output i is a function of input i alone."""

    @property
    def num_curves(self) -> int:
        """C, how many of the functions are of the edge's own coordinate."""
        probe = torch.zeros(1, self.weight.shape[2], dtype=self.weight.dtype, device=self.weight.device)
        return self.basis(probe).shape[1]

    @property
    def num_edges(self) -> int:
        """Functions that are learned: O x I, or I where nothing is mixed."""
        return self.weight.shape[0] * self.weight.shape[2]

    def outputs(self, x: Tensor) -> Tensor:
        """Add up the edges: (N, I) inputs to (N, O)."""
        features = self.features(x)
        if not self.mixes:
            return torch.einsum("nki,ki->ni", features, self.weight[0])
        summed = torch.einsum("nki,oki->no", features, self.weight)
        return summed if self.bias is None else summed + self.bias


@singledispatch
def edges_of(layer: nn.Module) -> Edges | None:
    """Return the edges of a layer; None for a module that is no layer of edges."""
    return None


@singledispatch
def remove_edges(layer: nn.Module, removed: Tensor) -> None:
    """Set edges of a layer to zero, whatever they read; biases stay.

    Args:
        layer: A layer that ``edges_of`` knows.
        removed: (O, I) true for those to be removed; (1, I) for a layer that mixes no inputs.
    """
    raise NotImplementedError(f"no removal of edges is registered for {type(layer).__name__}")


def edge_layers(ffn: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the layers of edges in a feed-forward network with their names, those inside others left out."""
    if edges_of.dispatch(type(ffn)) is not edges_of.dispatch(object):
        yield "", ffn
        return
    for name, child in ffn.named_children():
        yield from ((f"{name}.{inner}".rstrip("."), layer) for inner, layer in edge_layers(child))


def ffns_of(model: nn.Module) -> list[tuple[nn.Module, ...]]:
    """The modules of each transformer layer's feed-forward network, in the order of the layers."""
    return [found for module in model.modules() if (found := ffn_modules(module))]


def model_edge_layers(model: nn.Module) -> list[tuple[int, str, nn.Module]]:
    """List a model's layers of edges inside its FFNs: number of the transformer layer, name, layer."""
    return [
        (number, name, layer)
        for number, parts in enumerate(ffns_of(model))
        for part in parts
        for name, layer in edge_layers(part)
    ]


def is_kan(layer: nn.Module) -> bool:
    """Whether the edges of a layer are learned functions and not straight lines."""
    return not isinstance(layer, nn.Linear)


def _same(x: Tensor) -> Tensor:
    return x


@edges_of.register(nn.Linear)
def _linear_edges(layer: nn.Linear) -> Edges:
    def features(x: Tensor) -> Tensor:
        return x.unsqueeze(1)

    weight = layer.weight.detach().unsqueeze(1)
    bias = None if layer.bias is None else layer.bias.detach()
    return Edges(kind="lines", weight=weight, bias=bias, features=features, coordinates=_same, basis=features)


@remove_edges.register(nn.Linear)
@torch.no_grad()
def _(layer: nn.Linear, removed: Tensor) -> None:
    layer.weight[removed] = 0


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
        coordinates=_same,
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
        coordinates=_same,
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
        coordinates=_same,
        basis=features,
        limits=_shared_ends(-end, end, layer.cheby_coeffs, len(layer.cheby_coeffs)),
    )


@remove_edges.register
@torch.no_grad()
def _(layer: ChebyKANLinear, removed: Tensor) -> None:
    layer.cheby_coeffs[removed.t()] = 0


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
        coordinates=_same,
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
