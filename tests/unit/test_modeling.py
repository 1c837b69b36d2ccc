"""Models with a variant in every layer: stock equality, saving, loading, paired weights, counts, errors."""

from __future__ import annotations

import json
import logging

import pytest
import torch
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

from ffn_variants import (
    FAMILIES,
    FFN_VARIANTS,
    FFNGPTNeoConfig,
    FFNRobertaConfig,
    UsageError,
    build_config,
    build_model,
    count_parameters,
    objective,
)
from ffn_variants.kan import KANLinear

SIZES = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "vocab_size": 61,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 33,
}
AUTO = {"gpt_neo": AutoModelForCausalLM, "roberta": AutoModelForMaskedLM}
FFN_PARTS = {"gpt_neo": (".mlp.",), "roberta": (".intermediate.", ".output.dense.")}

each_variant = pytest.mark.parametrize("ffn", FFN_VARIANTS)
each_family = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture(autouse=True)
def quiet_transformers():
    """Keep the load reports of head weights, which these tests expect, out of the output."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


def make(family, ffn, seed=0, ffn_options=None, **config):
    torch.manual_seed(seed)
    return build_model(family, ffn, ffn_options, **{**SIZES, **config}).eval()


def tokens(seed=9):
    return torch.randint(3, 61, (2, 16), generator=torch.Generator().manual_seed(seed))


def outside_ffn(model, family):
    """All weights and buffers but the FFN's; attention.output.dense is none of RoBERTa's FFN."""
    return {
        key: value
        for key, value in model.state_dict().items()
        if "attention" in key or not any(part in key for part in FFN_PARTS[family])
    }


def stock(family, **changes):
    sizes = {key: SIZES[key] for key in ("hidden_size", "intermediate_size", "vocab_size")}
    sizes |= {
        "max_position_embeddings": 33,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    } | changes
    if family == "gpt_neo":
        config = GPTNeoConfig(num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], **sizes)
        return GPTNeoForCausalLM(config).eval()
    config = RobertaConfig(num_hidden_layers=2, num_attention_heads=4, type_vocab_size=2, **sizes)
    return RobertaForMaskedLM(config).eval()


@each_family
def test_gelu_is_the_stock_model(family):
    model = make(family, "gelu", seed=4)
    torch.manual_seed(4)
    reference = stock(family)
    assert list(model.state_dict()) == list(reference.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), reference.parameters(), strict=True))
    # GPT-Neo's GELU and attention are several operations there and one here, so the last bit may differ.
    torch.testing.assert_close(model(tokens()).logits, reference(tokens()).logits, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(("ffn", "hidden_act"), [("relu", "relu"), ("silu", "silu")])
@each_family
def test_fixed_activations_equal_the_stock_model_with_them(family, ffn, hidden_act):
    field = "activation_function" if family == "gpt_neo" else "hidden_act"
    torch.manual_seed(4)
    reference = stock(family, **{field: hidden_act})
    logits = make(family, ffn, seed=4)(tokens()).logits
    torch.testing.assert_close(logits, reference(tokens()).logits, atol=1e-6, rtol=1e-6)


@each_family
def test_gelu_form_can_be_chosen(family):
    logits = {
        form: make(family, "gelu", ffn_options={"approximate": form} if form else None)(tokens()).logits
        for form in (None, "tanh", "none")
    }
    own, other = ("tanh", "none") if family == "gpt_neo" else ("none", "tanh")
    torch.testing.assert_close(logits[None], logits[own], atol=1e-6, rtol=1e-6)
    assert not torch.equal(logits[None], logits[other])


@each_variant
@each_family
def test_every_layer_has_the_variant_and_learns(family, ffn):
    model = make(family, ffn)
    model(tokens(), labels=tokens()).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
    counts = count_parameters(model)
    sizes = (SIZES["hidden_size"], SIZES["intermediate_size"])
    assert counts["ffn"] == 2 * FFN_VARIANTS[ffn].num_params(*sizes)
    assert counts["total"] == model.num_parameters()
    assert counts["total"] == counts["ffn"] + counts["embedding"] + counts["other"]
    assert counts["embedding"] == 24 * (61 + 33 + (2 if family == "roberta" else 0))


@each_variant
@each_family
def test_saved_models_come_back_as_they_were(family, ffn, tmp_path):
    options = {"kan": {"grid_size": 3}, "swish": {"init": 0.5}}.get(ffn)
    model = make(family, ffn, ffn_options=options)
    model.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert (written["model_type"], written["ffn"]) == (f"ffn_{family}", ffn)
    again, info = AUTO[family].from_pretrained(tmp_path, output_loading_info=True)
    assert type(again) is type(model)
    assert again.config.ffn_options == options
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert torch.equal(again.eval()(tokens()).logits, model(tokens()).logits)
    for (key, saved), loaded in zip(model.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(saved, loaded), key


@each_variant
@each_family
def test_classification_and_backbone_miss_only_their_head(family, ffn, tmp_path):
    model = make(family, ffn)
    model.save_pretrained(tmp_path)
    classifier, info = AutoModelForSequenceClassification.from_pretrained(
        tmp_path, num_labels=3, output_loading_info=True
    )
    head = "score." if family == "gpt_neo" else "classifier."
    assert info["missing_keys"]
    assert all(key.startswith(head) for key in info["missing_keys"])
    assert all(key.startswith("lm_head.") for key in info["unexpected_keys"])
    assert classifier(tokens()).logits.shape == (2, 3)
    backbone = AutoModel.from_pretrained(tmp_path).eval()
    states = model.base_model(tokens()).last_hidden_state
    assert torch.equal(backbone(tokens()).last_hidden_state, states)
    assert torch.equal(classifier.eval().base_model(tokens()).last_hidden_state, states)


@each_family
def test_weights_outside_the_ffn_are_those_of_the_seed(family):
    reference = outside_ffn(make(family, "gelu", seed=11), family)
    assert len(reference) > 20
    for ffn in FFN_VARIANTS:
        weights = outside_ffn(make(family, ffn, seed=11), family)
        assert list(weights) == list(reference)
        for key, value in weights.items():
            assert torch.equal(value, reference[key]), (ffn, key)


@each_variant
@each_family
def test_another_seed_gives_other_weights(family, ffn):
    one, two = (make(family, ffn, seed=seed) for seed in (1, 2))
    for key, value in one.named_parameters():
        # Vectors, the knots of spline-kan and the denominators of gr-kan start at fixed values.
        if value.dim() >= 2 and "knots" not in key and "denominator" not in key:
            assert not torch.equal(value, two.get_parameter(key)), key


@pytest.mark.parametrize("ffn", ["gelu", "swish", "kan", "spline-kan"])
@each_family
def test_other_widths_pair_when_told_to(family, ffn, tmp_path):
    reference = outside_ffn(make(family, "gelu", seed=5), family)
    alone = outside_ffn(make(family, ffn, seed=5, intermediate_size=16), family)
    assert not all(torch.equal(alone[key], reference[key]) for key in reference)
    paired = make(family, ffn, seed=5, intermediate_size=16, paired_intermediate_size=40)
    weights = outside_ffn(paired, family)
    assert all(torch.equal(weights[key], reference[key]) for key in reference)
    assert paired.config.intermediate_size == 16
    assert count_parameters(paired)["ffn"] == 2 * FFN_VARIANTS[ffn].num_params(24, 16)
    paired.save_pretrained(tmp_path)
    again = AUTO[family].from_pretrained(tmp_path).eval()
    assert torch.equal(again(tokens()).logits, paired(tokens()).logits)


@each_family
@pytest.mark.parametrize("ffn", ["gelu", "none", "prelu", "kan"])
def test_linear_layers_start_with_the_initializer_range(family, ffn):
    sizes = {"hidden_size": 128, "intermediate_size": 256, "initializer_range": 0.03}
    options = {"layers": "first"} if ffn == "kan" else None
    model = make(family, ffn, ffn_options=options, **sizes)
    linears = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear)]
    ffn_linears = [m for name, m in linears if any(part in f"{name}." for part in FFN_PARTS[family])]
    assert len(ffn_linears) >= 2
    for _, linear in linears:
        assert abs(linear.weight.std().item() / 0.03 - 1) < 0.03
        assert linear.bias is None or not linear.bias.any()


@each_family
def test_post_init_leaves_kan_layers_as_they_were_drawn(family):
    model = make(family, "kan", hidden_size=128)
    for module in model.modules():
        if isinstance(module, KANLinear):
            # Kaiming-uniform with a = sqrt(5) is uniform within 1 / sqrt(fan_in).
            bound = module.in_features**-0.5
            assert 0.98 * bound < module.base_weight.abs().max() <= bound
            assert 0.98 * bound < module.spline_scaler.abs().max() <= bound


@each_family
def test_dropout_of_the_ffn_is_kept_for_blocks(family):
    dropout = {"resid_dropout": 0.5} if family == "gpt_neo" else {"hidden_dropout_prob": 0.5}
    layer = next(
        m
        for m in make(family, "kan", **dropout).modules()
        if type(m).__name__ in ("GPTNeoBlock", "RobertaLayer")
    )
    kept = layer.mlp.dropout if family == "gpt_neo" else layer.output.dropout
    assert kept.p == 0.5
    if family == "gpt_neo":
        y = layer.mlp.train()(torch.randn(4, 200, 24))
        assert 0.4 < (y == 0).float().mean() < 0.6


@each_family
@each_variant
def test_bf16_forward_is_finite(family, ffn):
    model = make(family, ffn).to(torch.bfloat16)
    assert torch.isfinite(model(tokens()).logits).all()


@each_family
def test_three_layers_and_generation(family):
    model = make(family, "swish", num_hidden_layers=3)
    if family == "gpt_neo":
        assert model.config.attention_layers == ["global", "local", "global"]
        assert model.generate(tokens()[:1, :4], max_new_tokens=3, do_sample=False).shape == (1, 7)
    assert model.config.num_hidden_layers == 3


PER_CHANNEL = ("learnable-gelu", "prelu", "swish", "thesis-swish")
PUBLISHED = [
    *[("gpt_neo", ffn, {}, None, 9_585_664) for ffn in ("gelu", "relu", "silu", "none")],
    *[("gpt_neo", ffn, {}, None, 9_587_712) for ffn in PER_CHANNEL],
    *[("roberta", ffn, {}, None, 9_863_952) for ffn in ("gelu", "relu", "silu", "none")],
    *[("roberta", ffn, {}, None, 9_866_000) for ffn in PER_CHANNEL],
    ("gpt_neo", "kan", {"intermediate_size": 256}, {"grid_size": 3, "spline_order": 3}, 11_679_744),
    ("gpt_neo", "kan", {"intermediate_size": 256}, None, 12_728_320),
]


@pytest.mark.parametrize(("family", "ffn", "config", "options", "total"), PUBLISHED)
def test_parameter_counts_of_the_source_study(family, ffn, config, options, total):
    with torch.device("meta"):
        model = build_model(family, ffn, options, **config)
    assert count_parameters(model)["total"] == total
    assert model.num_parameters() == total


def test_source_study_sizes_are_the_defaults():
    neo, roberta = (build_config(family, "gelu") for family in FAMILIES)
    assert (neo.attention_layers, neo.window_size, neo.max_position_embeddings) == (
        ["global", "local"],
        256,
        512,
    )
    assert (roberta.max_position_embeddings, roberta.type_vocab_size) == (513, 2)
    for config in (neo, roberta):
        assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (0, 1, 2)
        assert (config.vocab_size, config.hidden_size, config.num_attention_heads) == (10_000, 512, 4)


def test_objectives():
    assert [objective(family) for family in ("gpt_neo", "roberta")] == ["causal", "masked"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: build_model("gpt-neo", "gelu"),
            r"unknown family 'gpt-neo'; did you mean 'gpt_neo'\? Available",
        ),
        (lambda: objective("t6"), r"unknown family 't6'; Available: gpt_neo, roberta"),
        (lambda: build_model("roberta", "swich"), r"unknown FFN variant 'swich'; did you mean 'swish'\?"),
        (lambda: build_model("roberta", "kan", {"grid": 3}), r"unknown option of FFN variant 'kan': 'grid'"),
        (
            lambda: build_model("gpt_neo", "kan", hiden_size=8),
            r"unknown gpt_neo config field 'hiden_size'; did you mean 'hidden_size'\?",
        ),
        (
            lambda: build_model("roberta", "gelu", window_size=8),
            r"unknown roberta config field 'window_size'",
        ),
        (
            lambda: build_model("gpt_neo", "gelu", hidden_size=30),
            r"hidden_size 30 is no multiple of num_attention_heads 4",
        ),
        (
            lambda: build_model("gpt_neo", "gelu", activation_function="relu"),
            r"activation_function 'relu' would contradict ffn 'gelu'",
        ),
        (lambda: FFNGPTNeoConfig(ffn="kann"), r"unknown FFN variant 'kann'"),
        (lambda: FFNRobertaConfig(ffn="relu", ffn_options={"a": 1}), r"'relu' takes no options, got 'a'"),
    ],
)
def test_mistakes_are_usage_errors(call, message):
    with pytest.raises(UsageError, match=message):
        call()


@each_family
def test_overriding_the_variant_on_load_is_an_error(family, tmp_path):
    make(family, "gelu").save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"unknown FFN variant 'x'; Available: gelu"):
        AUTO[family].from_pretrained(tmp_path, ffn="x")
    for other in ("prelu", "kan", "spline-kan"):
        with pytest.raises(UsageError, match=rf"does not hold the weights of ffn '{other}' .*config.json"):
            AUTO[family].from_pretrained(tmp_path, ffn=other)
        with pytest.raises(UsageError, match=f"does not hold the weights of ffn '{other}'"):
            AutoModel.from_pretrained(tmp_path, ffn=other)


@each_family
def test_weights_of_another_variant_are_not_dropped(family, tmp_path):
    make(family, "prelu").save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="does not hold the weights of ffn 'relu'"):
        AUTO[family].from_pretrained(tmp_path, ffn="relu")
    with pytest.raises(UsageError, match="does not hold the weights of ffn 'relu'"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path, ffn="relu")
