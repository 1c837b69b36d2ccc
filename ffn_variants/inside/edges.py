"""The edges of a layer: every function of one input that is added up to one output.

A layer of edges is y_o = bias_o + sum_i f_oi(x), and each f_oi a weighted sum of K functions of input i.
``edges_of`` dispatches on the class of the layer; a new kind of KAN layer is one more registration, in
``kan_edges.py``. A linear layer has edges, too, each a straight line, so that whatever is measured of edges
can be measured of an MLP. A layer has none where an edge has a function of its own that is no sum of what all
edges share (`wav-kan`, `mlp-edge`), or where a network chooses what a token meets (`moe`,
`product-key-memory`).

Shapes: N rows, I inputs, O outputs, K functions of each input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import singledispatch

import torch
from torch import Tensor, nn

from ffn_variants.models.layers import ffn_modules


def itself(x: Tensor) -> Tensor:
    """Return the input: edges that are functions of the layer's inputs as they are."""
    return x


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
    coordinates: Callable[[Tensor], Tensor] = itself
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
    """Yield the layers of edges in a feed-forward network, those inside others left out.

    A registration for a whole network that gives None hides the layers inside.
    """
    registered = edges_of.dispatch(type(ffn))
    if registered is _hidden:
        return
    if registered is not edges_of.dispatch(object):
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


def is_kan(layer: nn.Module) -> bool:
    """Whether the edges of a layer are learned functions and not straight lines."""
    return not isinstance(layer, nn.Linear)


@edges_of.register
def _(layer: nn.Linear) -> Edges:
    return Edges(parameters=(layer.weight.detach(),), features=lambda x: x.unsqueeze(1))


def hide_layers_of(network: type[nn.Module]) -> None:
    """Say that the linear layers inside a network are not all that it computes with."""
    edges_of.register(network, _hidden)


def _hidden(layer: nn.Module) -> None:
    return None
