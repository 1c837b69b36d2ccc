"""Exchanged FFNs: what stays to the bit, what is new, and which layers."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig

from base.errors import UsageError
from base.families import FAMILIES
from ffn_variants import count_flops, count_parameters, get_variant
from ffn_variants.models.families import build_config
from ffn_variants.models.layers import ffn_modules
from ffn_variants.swap.exchange import exchange, layers_of, present_ffns

FAMILY_NAMES = sorted(FAMILIES)


def new(ffn: str, width: int = 24, **options) -> dict:
    return {"ffn": ffn, "ffn_options": options or None, "intermediate_size": width}


def inputs(model) -> dict:
    torch.manual_seed(1)
    ids = torch.randint(5, 200, (3, 20))
    mask = torch.ones_like(ids)
    mask[1, 12:] = 0
    ids[1, 12:] = 0
    given = {"input_ids": ids, "attention_mask": mask}
    return given | ({"decoder_input_ids": ids[:, :7]} if model.config.is_encoder_decoder else {})


def logits(model):
    """At every token that is no padding; there a local layer of the stock GPT-Neo may see nothing at all."""
    given = inputs(model)
    with torch.no_grad():
        found = model(**given).logits
    return found if model.config.is_encoder_decoder else found[given["attention_mask"].bool()]


def number_of_layers(model) -> range:
    return range(len(layers_of(model)))


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("ffn", ["gelu", "swish"])
def test_an_activation_for_itself_is_exact_to_the_bit(family, ffn, ours):
    model = ours(family, ffn)
    if ffn == "swish":
        for name, parameter in model.named_parameters():
            if name.endswith("beta"):
                parameter.data.normal_()
    same = exchange(model, FAMILIES[family], new(ffn), number_of_layers(model))
    assert torch.equal(logits(same), logits(model))


@pytest.mark.parametrize(
    ("family", "ffn", "config", "tolerance"),
    [
        ("gpt_neo", "gelu", {}, 1e-5),  # stock computes the same function in other steps
        ("roberta", "gelu", {}, 0),
        ("t5", "relu", {}, 0),
        ("t5", "gelu", {"feed_forward_proj": "gelu_new"}, 1e-5),
        ("roberta", "relu", {"hidden_act": "relu"}, 0),
        ("llama", "swiglu", {}, 1e-5),
    ],
)
def test_a_stock_model_with_its_own_activation_stays_as_it_is(family, ffn, config, tolerance, stock):
    model = stock(family, **config)
    same = exchange(model, FAMILIES[family], new(ffn), number_of_layers(model))
    assert type(same).__name__.startswith("FFN")
    torch.testing.assert_close(logits(same), logits(model), atol=tolerance, rtol=0)


@pytest.mark.parametrize("kind", ["ours", "stock"])
@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("ffn", ["kan", "fourier-kan", "gr-kan", "spline-kan", "swiglu"])
def test_all_weights_outside_the_ffns_are_untouched(kind, family, ffn, request):
    model = request.getfixturevalue(kind)(family)
    other = exchange(model, FAMILIES[family], new(ffn), number_of_layers(model))
    inside = {
        id(p) for layer in layers_of(other).values() for part in ffn_modules(layer) for p in part.parameters()
    }
    outside = [name for name, p in other.named_parameters() if id(p) not in inside]
    before = dict(model.named_parameters())
    assert len(outside) > 10
    for name in outside:
        assert torch.equal(other.get_parameter(name), before[name]), name
    assert not torch.allclose(logits(other), logits(model))
    expected = len(layers_of(model)) * get_variant(ffn).num_params(16, 24)
    assert count_parameters(other)["ffn"] == expected


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_linear_layers_are_taken_over_and_what_is_learnable_in_between_is_new(family, ours):
    model = ours(family, "swish")
    for name, parameter in model.named_parameters():
        if name.endswith("beta"):
            parameter.data.fill_(7.0)
    other = exchange(model, FAMILIES[family], new("learnable-gelu"), number_of_layers(model))
    before = model.state_dict()
    for name, tensor in other.state_dict().items():
        assert torch.equal(tensor, torch.ones_like(tensor) if name.endswith("beta") else before[name]), name


def test_a_kan_for_a_kan_and_another_width_are_drawn_anew(ours):
    for ffn, width in (("kan", 24), ("gelu", 30)):
        model = ours("gpt_neo", ffn)
        other = exchange(model, FAMILIES["gpt_neo"], new(ffn, width), [0, 1])
        assert not torch.allclose(logits(other), logits(model))


@pytest.mark.parametrize("kind", ["ours", "stock"])
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_only_the_chosen_layers_change_and_a_saved_model_knows_which(kind, family, request, tmp_path):
    config = {"feed_forward_proj": "gelu_new"} if (kind, family) == ("stock", "t5") else {}
    model = request.getfixturevalue(kind)(family, **config)
    last = len(layers_of(model)) - 1
    other = exchange(model, FAMILIES[family], new("fourier-kan", 10, grid_size=3), [last])
    before, after = layers_of(model), layers_of(other)
    for number, (name, layer) in enumerate(before.items()):
        if (kind, family) == ("stock", "llama"):  # two matrices in the place of three
            x = torch.randn(5, 16)
            assert torch.allclose(layer.mlp(x), after[name].mlp(x), atol=1e-6) == (number < last)
            continue
        same = [p.shape for p in layer.parameters()] == [p.shape for p in after[name].parameters()]
        assert same == (number < last)
        if same:
            pairs = zip(layer.parameters(), after[name].parameters(), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs)
    other.save_pretrained(tmp_path / "other")
    loaded = type(other).from_pretrained(tmp_path / "other").eval()
    assert torch.equal(logits(loaded), logits(other))
    assert AutoConfig.from_pretrained(tmp_path / "other").ffn == "fourier-kan"
    own = FAMILIES[family].stock_ffn if kind == "stock" else "gelu"
    assert [each["ffn"] for each in present_ffns(loaded)] == [own] * last + ["fourier-kan"]
    spec = get_variant("fourier-kan")
    flops = get_variant(own).flops_per_token(16, 24) * last + spec.flops_per_token(16, 10, grid_size=3)
    if family != "t5":
        assert count_flops(other, 20)["ffn"] == flops
    # What is left of the old layers can be exchanged in turn, and what is new exchanged back.
    again = exchange(other, FAMILIES[family], new("gelu"), [last])
    assert [each["ffn"] for each in present_ffns(again)] == [own] * last + ["gelu"]


def test_layers_that_stay_need_a_variant_of_the_registry(stock):
    model = stock("t5", feed_forward_proj="gated-gelu")
    assert present_ffns(model)[0]["ffn"] is None
    with pytest.raises(UsageError, match="leave --layers out"):
        exchange(model, FAMILIES["t5"], new("kan"), [0])
    exchange(model, FAMILIES["t5"], new("kan"), [0, 1])


def test_a_config_needs_an_entry_for_each_layer(ours):
    model = ours("gpt_neo")
    config = build_config("gpt_neo", "gelu", hidden_size=16, layer_ffns=[new("kan")])
    with pytest.raises(UsageError, match="1 entries for 2 layers"):
        type(model)(config)
