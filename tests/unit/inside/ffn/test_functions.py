"""Edges and a bias add up to the layer, and are removed, for every variant in every family."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from base.families import FAMILIES
from ffn_variants import FFN_VARIANTS, build_model
from ffn_variants.variants.kan import KANFFN
from inside.ffn.functions import activations_of, edge_layers, edges_of, ffns_of, is_kan, model_edge_layers
from tests.cases import diagonal_is_fast

SIZES = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
# Edges with a function of their own, a choice of what a token meets, nothing at all.
WITHOUT_EDGES = {"wav-kan", "mlp-edge", "moe", "product-key-memory", "no-ffn"}
ACTIVATIONS = [name for name, spec in FFN_VARIANTS.items() if spec.kind == "activation"]

of_every_variant = pytest.mark.parametrize(
    ("family", "ffn"), diagonal_is_fast(sorted(FAMILIES), list(FFN_VARIANTS))
)


def model_of(family: str, ffn: str) -> PreTrainedModel:
    torch.manual_seed(0)
    depth = {"num_layers" if family == "t5" else "num_hidden_layers": 2}
    return build_model(family, ffn, max_position_embeddings=32, **SIZES, **depth)


@pytest.fixture
def layers(family, ffn) -> list[nn.Module]:
    """Those of a small model whose every parameter is noise: initial zeros would hide a lost term."""
    model = model_of(family, ffn)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return [layer for of_ffn in model_edge_layers(model) for layer in of_ffn]


def inputs(layer: nn.Module) -> torch.Tensor:
    return 0.8 * torch.randn(70, edges_of(layer).weight.shape[2])


def summed(edges, x: torch.Tensor, chosen: torch.Tensor | float = 1.0) -> torch.Tensor:
    """(N, O), all edges of each output, or those that are chosen."""
    parts = torch.einsum("nki,oki->noi", edges.features(x).double(), edges.weight.double()) * chosen
    is_unmixed = len(edges.weight) == 1
    return parts.sum(1) if is_unmixed else parts.sum(2)


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_an_ffn_is_made_of_layers_of_edges_or_has_none(name):
    model = model_of("gpt_neo", name)
    found = [layer for of_ffn in model_edge_layers(model) for layer in of_ffn]
    assert bool(found) == (name not in WITHOUT_EDGES)
    assert any(map(is_kan, found)) == (f"-{name}".endswith("-kan") and name not in {"wav-kan", "gr-kan"})
    if found:
        in_layers = sum(p.numel() for layer in found for p in layer.parameters())
        in_ffns = sum(p.numel() for parts in ffns_of(model) for part in parts for p in part.parameters())
        modules = [m for parts in ffns_of(model) for part in parts for m in part.modules()]
        norms = [module for module in modules if isinstance(module, nn.LayerNorm)]
        in_norms = sum(p.numel() for norm in norms for p in norm.parameters())
        # What an activation or a norm between two layers learns is no edge's; nothing else is left out.
        # The norms of rbf-kan are parts of its layers.
        is_whole = in_layers in (in_ffns, in_ffns - in_norms)
        assert is_whole or name in ACTIVATIONS or name == "gr-kan"


@of_every_variant
@torch.no_grad()
def test_edges_and_a_bias_add_up_to_the_output(layers, error):
    for layer in layers:
        x = inputs(layer)
        bias = layer(x).double() - summed(edges_of(layer), x)
        assert error(bias, bias[:1].expand_as(bias)) < 1e-5


@of_every_variant
@torch.no_grad()
def test_removing_edges_takes_their_part_and_no_other(layers, error):
    for layer in layers:
        edges, x = edges_of(layer), inputs(layer)
        before = layer(x)
        nothing = torch.zeros(edges.weight.shape[0], edges.weight.shape[2], dtype=torch.bool)
        some = torch.rand(nothing.shape) < 0.3
        bias = before[:1].double() - summed(edges, x[:1])
        rest = before.double() - summed(edges, x, some)
        edges.remove(nothing)
        assert torch.equal(layer(x), before)
        edges.remove(some)
        assert error(layer(x), rest) < 1e-5
        edges.remove(~nothing)
        after = layer(x)
        assert torch.equal(after, after[:1].expand_as(after))  # whatever the layer reads
        assert error(after[:1], bias) < 1e-5


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
    assert list(edge_layers(nn.LayerNorm(4))) == []


@pytest.mark.parametrize(("family", "name"), diagonal_is_fast(sorted(FAMILIES), ACTIVATIONS))
def test_activations_are_found(name, family):
    model = model_of(family, name)
    found = activations_of(model)
    assert [one.layer for one in found] == list(range(len(ffns_of(model))))
    for one in found:
        assert one.module(torch.randn(5, 24)).shape == (5, 24)
        assert one.is_learnable == bool(list(one.module.parameters()))
