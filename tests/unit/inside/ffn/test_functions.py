"""Edges and a bias add up to the layer, and are removed, for every variant in every family."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from base.families import FAMILIES
from ffn_variants import FFN_VARIANTS, build_model
from ffn_variants.variants.kan import KANFFN
from inside.ffn.functions import activations_of, edge_layers, edges_of, ffns_of, is_kan, model_edge_layers

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
# Edges with a function of their own, a choice of what a token meets, nothing at all.
WITHOUT_EDGES = {"wav-kan", "mlp-edge", "moe", "product-key-memory", "no-ffn"}


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def family(request) -> str:
    return request.param


@pytest.fixture(params=list(FFN_VARIANTS))
def ffns(request, family) -> list[tuple[nn.Module, ...]]:
    """The FFNs of a small model whose every parameter is noise: initial zeros would hide a lost term."""
    torch.manual_seed(0)
    name = "num_layers" if family == "t5" else "num_hidden_layers"
    sizes = {key: value for key, value in SIZES.items() if key != "num_hidden_layers"} | {name: 2}
    model = build_model(family, request.param, intermediate_size=24, max_position_embeddings=32, **sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return ffns_of(model)


def in_model(model: nn.Module) -> list[nn.Module]:
    return [layer for layers in model_edge_layers(model) for layer in layers]


def layers(ffns: list[tuple[nn.Module, ...]]) -> list[nn.Module]:
    return [layer for parts in ffns for part in parts for layer in edge_layers(part)]


def inputs(layer: nn.Module) -> torch.Tensor:
    edges = edges_of(layer)
    assert edges is not None
    return 0.8 * torch.randn(70, edges.weight.shape[2])


def summed(edges, x: torch.Tensor) -> torch.Tensor:
    """(N, O), all edges of each output."""
    features, weight = edges.features(x).double(), edges.weight.double()
    summed = torch.einsum("nki,oki->noi", features, weight)
    return summed.sum(1) if is_unmixed(edges) else summed.sum(2)


def is_unmixed(edges) -> bool:
    return len(edges.weight) == 1


def rest(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What a layer adds to its edges: a bias, which is the same for every row."""
    return layer(x).double() - summed(edges_of(layer), x)


def is_norm(module):
    return isinstance(module, torch.nn.LayerNorm)


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_an_ffn_is_made_of_layers_of_edges_or_has_none(name):
    model = build_model("gpt_neo", name, intermediate_size=24, **{**SIZES, "max_position_embeddings": 32})
    found = in_model(model)
    assert bool(found) == (name not in WITHOUT_EDGES)
    if found:
        in_layers = sum(p.numel() for layer in found for p in layer.parameters())
        in_ffns = sum(p.numel() for parts in ffns_of(model) for part in parts for p in part.parameters())
        norms = [m for parts in ffns_of(model) for part in parts for m in part.modules() if is_norm(m)]
        in_norms = sum(p.numel() for m in norms for p in m.parameters())
        # What an activation or a norm between two layers learns is no edge's; nothing else is left out.
        # The norms of rbf-kan are parts of its layers.
        is_whole = in_layers in (in_ffns, in_ffns - in_norms)
        assert is_whole or FFN_VARIANTS[name].kind == "activation" or name == "gr-kan"


@torch.no_grad()
def test_edges_and_a_bias_add_up_to_the_output(ffns, error):
    for layer in layers(ffns):
        x = inputs(layer)
        bias = rest(layer, x)
        assert error(layer(x), summed(edges_of(layer), x) + bias[:1]) < 1e-5


@torch.no_grad()
def test_removing_nothing_changes_no_bit_and_removing_all_leaves_the_bias(ffns, error):
    for layer in layers(ffns):
        edges, x = edges_of(layer), inputs(layer)
        before, bias = layer(x), rest(layer, x)[:1]
        shape = (edges.weight.shape[0], edges.weight.shape[2])
        edges.remove(torch.zeros(shape, dtype=torch.bool))
        assert torch.equal(layer(x), before)
        edges.remove(torch.ones(shape, dtype=torch.bool))
        after = layer(x)
        assert torch.equal(after, after[:1].expand_as(after))  # whatever the layer reads
        torch.testing.assert_close(after[:1].double(), bias, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_removing_some_takes_their_part_and_no_other(ffns, error):
    for layer in layers(ffns):
        edges, x = edges_of(layer), inputs(layer)
        removed = torch.rand(edges.weight.shape[0], edges.weight.shape[2]) < 0.3
        parts = torch.einsum("nki,oki->noi", edges.features(x).double(), edges.weight.double())
        gone = (parts * removed).sum(1) if is_unmixed(edges) else (parts * removed).sum(2)
        wanted = layer(x).double() - gone
        edges.remove(removed)
        assert error(layer(x), wanted) < 1e-5


def test_kans_are_told_from_linear_layers():
    for name in FFN_VARIANTS:
        torch.manual_seed(0)
        model = build_model("gpt_neo", name, intermediate_size=24, **{**SIZES, "max_position_embeddings": 32})
        found = [is_kan(layer) for layer in in_model(model)]
        a_kan = (f"-{name}").endswith("-kan") and name not in WITHOUT_EDGES | {"gr-kan"}
        assert any(found) == a_kan, name


@torch.no_grad()
def test_edges_on_moved_knots_and_pruned_coefficients(error):
    torch.manual_seed(0)
    ffn, x = KANFFN(8, 12, splines="sparse"), torch.randn(300, 8)
    ffn.layers[0].update_grid(x)
    ffn.layers[1].update_grid(ffn.layers[0](x))
    ffn.layers[0].mask.copy_(torch.rand(ffn.layers[0].mask.shape) < 0.7)
    for layer, given in ((ffn.layers[0], x), (ffn.layers[1], ffn.layers[0](x))):
        assert error(summed(edges_of(layer), given), layer(given)) < 1e-5


def test_a_layer_that_is_unknown_has_no_edges():
    assert edges_of(nn.LayerNorm(4)) is None


@pytest.mark.parametrize("name", [name for name, spec in FFN_VARIANTS.items() if spec.kind == "activation"])
def test_activations_are_found(name, family):
    torch.manual_seed(0)
    layer_name = "num_layers" if family == "t5" else "num_hidden_layers"
    sizes = {key: value for key, value in SIZES.items() if key != "num_hidden_layers"} | {layer_name: 2}
    model = build_model(family, name, intermediate_size=24, max_position_embeddings=32, **sizes)
    found = activations_of(model)
    assert len(found) == len(ffns_of(model))
    for one in found:
        assert one.module(torch.randn(5, 24)).shape == (5, 24)
        assert one.is_learnable == bool(list(one.module.parameters()))
