"""Edges of FFNs: they add up to the layer, their importance, and runs that are seeds of one another."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from base.families import FAMILIES
from ffn_variants import FFN_VARIANTS, build_ffn, build_model
from ffn_variants.variants.kan import KANFFN
from ffn_variants.variants.series_kan import ChebyKANLinear
from inside.ffn.command import group_runs
from inside.ffn.functions import activations_of, edge_layers, edges_of, ffns_of, model_edge_layers
from inside.ffn.measure import RunInspection, carried_shares, share_needed, variances, weakest
from pretrain.resolution import load_config
from pretrain.run.run_folder import write_config
from tests.cases import diagonal_is_fast

# Edges and a bias add up to the layer, and are removed, for every variant in every family.
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
    is_kan = any(not isinstance(layer, nn.Linear) for layer in found)
    assert is_kan == (f"-{name}".endswith("-kan") and name not in {"wav-kan", "gr-kan"})
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
def test_edges_and_a_bias_add_up_and_removing_some_takes_their_part_and_no_other(layers, error):
    for layer in layers:
        edges, x = edges_of(layer), inputs(layer)
        before = layer(x)
        nothing = torch.zeros(edges.weight.shape[0], edges.weight.shape[2], dtype=torch.bool)
        some = torch.rand(nothing.shape) < 0.3
        bias = before.double() - summed(edges, x)
        assert error(bias, bias[:1].expand_as(bias)) < 1e-5
        rest = before.double() - summed(edges, x, some)
        edges.remove(nothing)
        assert torch.equal(layer(x), before)
        edges.remove(some)
        assert error(layer(x), rest) < 1e-5
        edges.remove(~nothing)
        after = layer(x)
        assert torch.equal(after, after[:1].expand_as(after))  # whatever the layer reads
        assert error(after[:1], bias[:1]) < 1e-5


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
    assert [number for number, _ in found] == list(range(1, len(ffns_of(model)) + 1))
    for _, module in found:
        assert module(torch.randn(5, 24)).shape == (5, 24)


# Importance of edges against each edge drawn out by itself in numpy.
def drawn_out(edges, x: torch.Tensor) -> np.ndarray:
    """(N, O, I), the outputs of every edge."""
    return np.einsum("nki,oki->noi", edges.features(x).double().numpy(), edges.weight.double().numpy())


@pytest.mark.parametrize("name", [name for name, spec in FFN_VARIANTS.items() if spec.kind == "block"])
@torch.no_grad()
def test_variances_are_those_of_edges_drawn_out(name):
    torch.manual_seed(1)
    for layer in edge_layers(build_ffn(name, 8, 16)):
        edges = edges_of(layer)
        x = 1.3 * torch.randn(1300, edges.weight.shape[2]) + 0.4  # more than two parts of rows
        np.testing.assert_allclose(variances(edges, x), drawn_out(edges, x).var(0), rtol=1e-5, atol=1e-12)


def test_weights_of_zero_have_no_importance():
    linear = nn.Linear(6, 4)
    with torch.no_grad():
        linear.weight[0], linear.weight[1:, 2] = 0, 0
        variance = variances(edges_of(linear), torch.randn(400, 6))
    assert torch.equal(variance == 0, linear.weight == 0)


def test_what_the_most_important_edges_carry():
    carried = carried_shares(torch.tensor([[1.0, 5.0], [4.0, 0.0]]))
    torch.testing.assert_close(carried, torch.tensor([0, 0.5, 0.9, 1, 1]))
    assert share_needed(carried) == 0.5
    assert share_needed(carried_shares(torch.zeros(2, 5))) == pytest.approx(0.9)  # all alike, so nine of ten


@torch.no_grad()
def test_a_drawn_edge_is_what_the_layer_adds_for_its_input():
    torch.manual_seed(0)
    layer, points = ChebyKANLinear(3, 4, 5), torch.randn(20, 3)
    drawn = edges_of(layer).curves(torch.tensor([2, 0]), torch.tensor([1, 2]), points)
    for curve, output, source in ((drawn[0], 2, 1), (drawn[1], 0, 2)):
        alone = torch.zeros(20, 3)
        alone[:, source] = points[:, source]
        added = layer(alone)[:, output] - layer(torch.zeros(1, 3))[:, output]
        torch.testing.assert_close(curve - curve[0], added - added[0])


def test_the_weakest_go_first_and_larger_shares_hold_smaller_ones():
    importance = torch.randperm(60).view(5, 12).double()
    before = torch.zeros(5, 12, dtype=torch.bool)
    for share in (0.0, 0.1, 0.25, 0.5, 0.99, 1.0):
        removed = weakest(importance, share)
        assert torch.equal(removed, importance < round(share * 60))
        assert (removed | ~before).all()
        before = removed
    assert int(weakest(torch.zeros(4, 4), 0.5).sum()) == 8  # ties are broken, not all taken


# Which runs count as seeds of one another, and which not.
@pytest.fixture
def run(tmp_path):
    def make(ffn: str, seed: int = 1, family: str = "gpt_neo", **changed: dict) -> tuple[Path, RunInspection]:
        config = load_config(None, overrides={
            "seed": seed, "family": family,
            "model": {"ffn": ffn, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2,
                      **changed.pop("model", {})},
            "data": {"block_size": 64}, **changed,
        })  # fmt: skip
        path = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        write_config(path, config)
        return path, measured(path.name, ffn, seed, family)

    return make


def measured(run_id: str, variant: str, seed: int, family: str = "gpt_neo") -> RunInspection:
    return RunInspection(
        run_id=run_id, family=family, variant=variant, seed=seed, ffn_parameters=0, num_tokens=0, loss=3.0,
        activations=[], edges=[],
        pruning={"random": [3.0, 3.1, 3.2, 3.5, 3.6, 3.8, 4.0]},
    )  # fmt: skip


def names(runs) -> dict[str, int]:
    return {name: len(group) for name, group in group_runs(runs)[0].items()}


def test_seeds_keep_the_name_of_their_variant_and_what_differs_besides_is_named(run):
    wider = {"intermediate_size": 8}
    runs = [run("gelu"), run("gelu", 2), run("kan", 1, model=wider), run("kan", 2, model=wider)]
    assert names(runs) == {"gelu": 2, "kan": 2}
    rates = [run("gelu", optim={"learning_rate": rate}) for rate in (0.01, 0.001)]
    grids = [run("kan", model={"ffn_options": {"grid_size": size}}) for size in (8, 3)]
    of_rates = {"gelu optim.learning_rate=0.01": 1, "gelu optim.learning_rate=0.001": 1}
    assert names([*rates, *grids]) == of_rates | {"kan grid_size=8": 1, "kan grid_size=3": 1}
    assert names([run("gelu"), run("gelu", family="roberta")]) == {"gelu, GPT-Neo": 1, "gelu, RoBERTa": 1}


def test_a_seed_that_was_trained_twice_counts_once(run):
    groups, notes = group_runs([run("gelu"), run("gelu"), run("gelu", 2)])
    assert [one.seed for one in groups["gelu"]] == [1, 2]
    assert notes == ["run1: left out, as the same training is there already"]


def test_half_of_the_edges_costs_what_the_curve_says():
    assert measured("", "gelu", 1).summaries == {"loss": 3.0, "half of the edges, random": 0.5}
