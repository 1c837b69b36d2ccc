"""The edges of a layer: every function of one input that is added up to one output, and their removal.

A layer of edges is y_o = bias_o + sum_i f_oi(x), and each f_oi a weighted sum of K functions of input i. Two
functions dispatch on the class of the layer; a new kind of KAN layer is one more registration of each, in
``kan_edges.py``. A linear layer has edges, too, each a straight line, so that whatever is said of edges can
be said of an MLP. Where an edge has a function of its own that is no sum of what all edges share (`wav-kan`,
`mlp-edge`), and where a network chooses what a token meets (`moe`, `product-key-memory`), there are none.

Shapes: N rows, I inputs, O outputs, K functions of each input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import singledispatch

import torch
from torch import Tensor, nn

from ffn_variants.models.layers import ffn_modules


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
    """Yield the layers of edges in a feed-forward network with their names, those inside others left out.

    A registration for a whole network that gives None hides the layers inside.
    """
    if edges_of.dispatch(type(ffn)) is _hidden:
        return
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


def itself(x: Tensor) -> Tensor:
    """Return the input: edges whose coordinates are the layer's inputs as they are."""
    return x


@edges_of.register(nn.Linear)
def _linear_edges(layer: nn.Linear) -> Edges:
    def features(x: Tensor) -> Tensor:
        return x.unsqueeze(1)

    weight = layer.weight.detach().unsqueeze(1)
    bias = None if layer.bias is None else layer.bias.detach()
    return Edges(
        kind="lines", weight=weight, bias=bias, features=features, coordinates=itself, basis=features
    )


@remove_edges.register(nn.Linear)
@torch.no_grad()
def _(layer: nn.Linear, removed: Tensor) -> None:
    layer.weight[removed] = 0


def hide_layers_of(network: type[nn.Module]) -> None:
    """Say that the linear layers inside a network are not all that it computes with."""
    edges_of.register(network, _hidden)


def _hidden(layer: nn.Module) -> None:
    return None
