"""What is chosen to go, and what is saved."""

from __future__ import annotations

import json

import torch
from transformers import AutoModelForCausalLM

from ffn_variants import build_model
from ffn_variants.inside.edges import model_edge_layers
from ffn_variants.inside.removal import (
    REMOVAL_FILE,
    last_layers,
    removals,
    remove,
    save_pruned,
    weakest,
    weakest_neurons,
)

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
SIZES |= {"intermediate_size": 24, "max_position_embeddings": 32}


def test_the_weakest_go_first_and_larger_shares_hold_smaller_ones():
    activity = torch.randperm(60).view(5, 12).double()
    before = torch.zeros(5, 12, dtype=torch.bool)
    for share in (0.0, 0.1, 0.25, 0.5, 0.99, 1.0):
        chosen = weakest(activity, share)
        assert int(chosen.sum()) == round(share * 60)
        assert torch.equal(chosen, activity < round(share * 60))
        assert (chosen | ~before).all()
        before = chosen
    assert int(weakest(torch.zeros(4, 4), 0.5).sum()) == 8  # ties are broken, not all taken


def test_neurons_go_with_all_edges_that_leave_them():
    activity = torch.tensor([[3.0, 0.1, 4.0, 0.0], [0.0, 0.2, 0.0, 1.0]])
    chosen = weakest_neurons(activity, 0.5)
    assert torch.equal(chosen, torch.tensor([[False, True, False, True]] * 2))
    assert torch.equal(weakest_neurons(activity[:1], 0.5), torch.tensor([[False, True, False, True]]))


def test_a_pruned_model_loads_and_says_what_is_gone(tmp_path):
    torch.manual_seed(0)
    model = build_model("gpt_neo", "kan", **SIZES).eval()
    removed = {layer: torch.rand(layer.out_features, layer.in_features) < 0.4
               for *_, layer in model_edge_layers(model)}  # fmt: skip
    remove(removed)
    save_pruned(model, tmp_path, removals(model, removed), "at random")
    told = json.loads((tmp_path / REMOVAL_FILE).read_text())
    assert told["edges"] == 2 * 2 * 16 * 24
    assert told["removed"] == sum(int(mask.sum()) for mask in removed.values())
    assert [each["removed"] for each in told["layers"]] == [int(mask.sum()) for mask in removed.values()]
    assert "at random" in (tmp_path / "README.md").read_text()
    again, ids = AutoModelForCausalLM.from_pretrained(tmp_path).eval(), torch.arange(20)[None]
    with torch.no_grad():
        assert torch.equal(again(ids).logits, model(ids).logits)


def test_the_last_layer_of_each_ffn_holds_its_neurons():
    for ffn in ("gelu", "kan", "swiglu", "gr-kan"):
        model = build_model("gpt_neo", ffn, **SIZES)
        assert [layer.in_features for layer in last_layers(model)] == [24, 24]
