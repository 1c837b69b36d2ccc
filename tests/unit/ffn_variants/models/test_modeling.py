"""Models with a variant in every layer: stock equality, saving, loading, paired weights, counts, errors."""

import json
import logging
import re
from pkgutil import resolve_name

import pytest
import torch
import transformers
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification, T5ForSequenceClassification

from base.families import AUTO_CLASSES
from ffn_variants import FAMILIES, FFN_VARIANTS, UsageError, build_config, build_model
from ffn_variants.models.modeling import FFNT5ForSequenceClassification
from ffn_variants.variants.kan import KANLinear
from tests.cases import KINDS, in_turn, listed
from tests.references import count_parameters
from tests.stock_models import stock_config, stock_model

SIZES = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "vocab_size": 61,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 33,
}
FFN_PARTS = {
    "gpt_neo": (".mlp.",),
    "roberta": (".intermediate.", ".output.dense."),
    "t5": (".DenseReluDense.",),
    "llama": (".mlp.",),
}
HEADS = {"gpt_neo": "score.", "roberta": "classifier.", "t5": "classification_head.", "llama": "score."}
# T5 has two layers in its encoder and two in its decoder.
NUM_FFNS = {"gpt_neo": 2, "roberta": 2, "t5": 4, "llama": 2}

each_variant = pytest.mark.parametrize(
    ("family", "ffn"), in_turn(list(FAMILIES), list(FFN_VARIANTS), fast=KINDS)
)
each_family = pytest.mark.parametrize("family", FAMILIES)


def same_to_rounding(loaded: torch.Tensor, built: torch.Tensor) -> None:
    """Where weights lie in memory decides how some processors round a small product, so bits may differ."""
    torch.testing.assert_close(loaded, built, rtol=1e-6, atol=1e-6)


@pytest.fixture(autouse=True)
def quiet_transformers():
    """Keep the load reports of head weights, which these tests expect, out of the output."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


def auto(family):
    return getattr(transformers, AUTO_CLASSES[FAMILIES[family].objective])


def make(family, ffn, seed=0, ffn_options=None, **config):
    torch.manual_seed(seed)
    return build_model(family, ffn, ffn_options, **{**SIZES, **config}).eval()


def tokens(seed=9):
    return torch.randint(3, 61, (2, 16), generator=torch.Generator().manual_seed(seed))


def inputs(family, ids):
    """What a forward pass takes; T5's decoder reads something else than its encoder."""
    return {"input_ids": ids, **({"decoder_input_ids": ids[:, :7].flip(1)} if family == "t5" else {})}


def ffn_parameters(family, ffn, hidden_size, intermediate_size):
    """Of the whole model, by its spec; T5's and Llama's linear layers have no biases."""
    spec = FFN_VARIANTS[ffn]
    without = family in ("t5", "llama") and spec.kind == "activation"
    biases = hidden_size + intermediate_size if without else 0
    return NUM_FFNS[family] * (spec.num_params(hidden_size, intermediate_size) - biases)


def outside_ffn(model, family):
    """All weights and buffers but the FFN's; attention.output.dense is none of RoBERTa's FFN."""
    return {
        key: value
        for key, value in model.state_dict().items()
        if "attention" in key or not any(part in key for part in FFN_PARTS[family])
    }


@pytest.mark.parametrize(
    ("family", "ffn"), [("gpt_neo", "gelu"), ("gpt_neo", "relu"), ("roberta", "silu"), ("t5", "relu")]
)
def test_fixed_activations_are_the_stock_model_with_them(family, ffn):
    field = {"gpt_neo": "activation_function", "roberta": "hidden_act", "t5": "feed_forward_proj"}[family]
    model = make(family, ffn, seed=4)
    torch.manual_seed(4)
    reference = stock_model(family, **SIZES, **({} if ffn == "gelu" else {field: ffn}))
    assert list(model.state_dict()) == list(reference.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), reference.parameters(), strict=True))
    # GPT-Neo's GELU and attention are several operations there and one here, so the last bit may differ.
    ids = inputs(family, tokens())
    torch.testing.assert_close(model(**ids).logits, reference(**ids).logits, atol=3e-6, rtol=1e-6)


@pytest.mark.parametrize("tie_word_embeddings", [True, False])
def test_swiglu_is_the_stock_llama(tie_word_embeddings, tmp_path):
    """At equal weights, whose gate stands above what it gates; also for texts that are padded."""
    model = make("llama", "swiglu", tie_word_embeddings=tie_word_embeddings)
    sizes = {**SIZES, "tie_word_embeddings": tie_word_embeddings}
    torch.manual_seed(1)
    reference = stock_model("llama", **sizes)
    weights = {key: value for key, value in model.state_dict().items() if ".mlp." not in key}
    for number, layer in enumerate(model.model.layers):
        gate, up = layer.mlp.c_fc.weight.chunk(2)
        parts = {"gate_proj": gate, "up_proj": up, "down_proj": layer.mlp.c_proj.weight}
        weights |= {f"model.layers.{number}.mlp.{name}.weight": value for name, value in parts.items()}
    reference.load_state_dict(weights)
    assert model.num_parameters() == reference.num_parameters()
    mask = torch.ones_like(tokens())
    mask[1, 9:] = 0
    seen = mask.bool()
    logits, wanted = (each(tokens(), attention_mask=mask).logits[seen] for each in (model, reference))
    torch.testing.assert_close(logits, wanted, atol=1e-6, rtol=1e-6)


@each_family
def test_gelu_form_can_be_chosen(family):
    logits = {
        form: make(family, "gelu", ffn_options={"approximate": form} if form else None)(
            **inputs(family, tokens())
        ).logits
        for form in (None, "tanh", "none")
    }
    own, other = ("none", "tanh") if family in ("roberta", "llama") else ("tanh", "none")
    torch.testing.assert_close(logits[None], logits[own], atol=1e-6, rtol=1e-6)
    assert not torch.equal(logits[None], logits[other])


@each_variant
def test_every_layer_has_the_variant_and_learns(family, ffn):
    model = make(family, ffn)
    model(tokens(), labels=tokens()).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
    counts = count_parameters(model)
    assert counts["ffn"] == ffn_parameters(family, ffn, 24, 40)
    assert counts["total"] == model.num_parameters()
    assert counts["total"] == counts["ffn"] + counts["embedding"] + counts["other"]
    # T5 has 32 distances for 4 heads in encoder and decoder, in place of positions.
    positions = {"gpt_neo": 24 * 33, "roberta": 24 * (33 + 2), "t5": 2 * 32 * 4, "llama": 0}
    assert counts["embedding"] == 24 * 61 + positions[family]


@each_variant
def test_saved_models_come_back_as_they_were(family, ffn, tmp_path):
    options = {"kan": {"grid_size": 3}, "swish": {"init": 0.5}}.get(ffn)
    model = make(family, ffn, ffn_options=options)
    model.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert (written["model_type"], written["ffn"]) == (f"ffn_{family}", ffn)
    again, info = auto(family).from_pretrained(tmp_path, output_loading_info=True)
    assert type(again) is type(model)
    assert again.config.ffn_options == options
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    for (key, saved), loaded in zip(model.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(saved, loaded), key
    ids = inputs(family, tokens())
    same_to_rounding(again.eval()(**ids).logits, model(**ids).logits)


@pytest.mark.parametrize(("family", "ffn"), in_turn(list(FAMILIES), KINDS, fast=KINDS))
def test_classification_and_backbone_miss_only_their_head(family, ffn, tmp_path):
    model = make(family, ffn)
    model.save_pretrained(tmp_path)
    classifier, info = AutoModelForSequenceClassification.from_pretrained(
        tmp_path, num_labels=3, output_loading_info=True
    )
    assert info["missing_keys"]
    assert all(key.startswith(HEADS[family]) for key in info["missing_keys"])
    assert all(key.startswith("lm_head.") for key in info["unexpected_keys"])
    assert classifier(tokens()).logits.shape == (2, 3)
    backbone, ids = AutoModel.from_pretrained(tmp_path).eval(), inputs(family, tokens())
    states = backbone(**ids).last_hidden_state
    same_to_rounding(classifier.eval().base_model(**ids).last_hidden_state, states)
    if family == "t5":  # no part of it is a backbone of its own
        same_to_rounding(model(**ids).logits, model.lm_head(states * 24**-0.5))
    else:
        same_to_rounding(model.base_model(**ids).last_hidden_state, states)


@each_family
def test_weights_outside_the_ffn_are_those_of_the_seed(family):
    torch.manual_seed(11)
    reference = outside_ffn(stock_model(family, **SIZES), family)
    assert len(reference) >= 2 + 2 * (4 + 2)  # embeddings and norm; projections and norms of two layers
    for ffn in KINDS:  # transformers' own model is among those of the seed
        weights = outside_ffn(make(family, ffn, seed=11), family)
        assert list(weights) == list(reference)
        for key, value in weights.items():
            assert torch.equal(value, reference[key]), (ffn, key)


@pytest.mark.parametrize(
    ("family", "ffn"), [("gpt_neo", "kan"), ("roberta", "gelu"), ("t5", "swish"), ("llama", "spline-kan")]
)
def test_other_widths_pair_when_told_to(family, ffn, tmp_path):
    reference = outside_ffn(make(family, "gelu", seed=5), family)
    alone = outside_ffn(make(family, ffn, seed=5, intermediate_size=16), family)
    assert not all(torch.equal(alone[key], reference[key]) for key in reference)
    paired = make(family, ffn, seed=5, intermediate_size=16, paired_intermediate_size=40)
    weights = outside_ffn(paired, family)
    assert all(torch.equal(weights[key], reference[key]) for key in reference)
    assert paired.config.intermediate_size == 16
    assert count_parameters(paired)["ffn"] == ffn_parameters(family, ffn, 24, 16)
    paired.save_pretrained(tmp_path)
    again, ids = auto(family).from_pretrained(tmp_path).eval(), inputs(family, tokens())
    same_to_rounding(again(**ids).logits, paired(**ids).logits)


@pytest.mark.parametrize(("family", "ffn", "config", "number"), listed(__file__, "first linear layers"))
def test_linear_layers_start_with_the_initializer_range(family, ffn, config, number):
    """By the initializer range; T5's by their inputs, with a standard deviation of 1 / sqrt(inputs)."""
    options = {"layers": "first"} if ffn == "kan" else None
    model = make(family, ffn, ffn_options=options, hidden_size=128, intermediate_size=256, **config)
    linears = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear)]
    ours = [m for name, m in linears if any(part in f"{name}." for part in FFN_PARTS[family])]
    assert len(ours) == number
    for linear in ours if family == "t5" else [m for _, m in linears]:
        by_inputs = config.get("initializer_factor", 1.0) * linear.in_features**-0.5
        assert abs(linear.weight.std().item() / config.get("initializer_range", by_inputs) - 1) < 0.03
        assert linear.bias is None or not linear.bias.any()


def test_t5_draws_its_classification_head_as_the_stock_model_does(tmp_path):
    make("t5", "kan", hidden_size=128).save_pretrained(tmp_path)
    torch.manual_seed(3)
    head = AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=300).classification_head
    for linear in (head.dense, head.out_proj):
        assert abs(linear.weight.std().item() * 128**0.5 - 1) < 0.03
        assert not linear.bias.any()


def t5_classifiers(num_labels, problem_type=None):
    """A classifier of this project and the stock one, with the same weights."""
    torch.manual_seed(0)
    config = build_config("t5", "gelu", num_labels=num_labels, **SIZES)
    config.problem_type = problem_type
    model = FFNT5ForSequenceClassification(config)
    reference = T5ForSequenceClassification(stock_config(config))
    reference.load_state_dict(model.state_dict())
    for each in (model, reference):
        each.set_attn_implementation("eager")
    return model.eval(), reference.eval()


ONE_END = torch.tensor([[1, 9, 30, 12, 2], [1, 17, 2, 0, 0]])


EVERYTHING = {"output_hidden_states": True, "output_attentions": True}
SEVERAL = [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("num_labels", "problem_type", "arguments"),
    [
        (3, "multi_label_classification", {"labels": torch.tensor(SEVERAL), **EVERYTHING}),
        (3, None, {"labels": torch.tensor(SEVERAL)}),
        (3, "regression", {"labels": torch.tensor([[1.5, 0.0, 1.0], [0.0, -2.0, 1.0]])}),
        (1, None, {"labels": torch.tensor([[1.5], [0.0]])}),
        (1, None, {"labels": torch.tensor([1.5, 0.0])}),
        (3, None, {"labels": torch.tensor([2, 0])}),
        (3, None, {"return_dict": False}),
        (3, None, {"use_cache": True}),
        (3, None, {"decoder_input_ids": ONE_END.flip(0), "decoder_attention_mask": ONE_END.flip(0).sign()}),
        (3, None, {"decoder_inputs_embeds": torch.linspace(-1, 1, 240).view(2, 5, 24)}),
        (3, None, {"encoder_outputs": (torch.linspace(-1, 1, 240).view(2, 5, 24),)}),
    ],
)  # padding is known by its id
def test_t5_classifies_with_the_losses_and_arguments_of_the_stock_model(num_labels, problem_type, arguments):
    model, reference = t5_classifiers(num_labels, problem_type)
    found, expected = (each(ONE_END, **arguments) for each in (model, reference))
    assert type(found) is type(expected)
    if isinstance(found, tuple):
        torch.testing.assert_close(found[0], expected[0], atol=1e-6, rtol=1e-6)
        return
    found, expected = dict(found), dict(expected)
    name = "cache" if "cache" in {**found, **expected} else "past_key_values"  # until transformers 5.24
    cache, _ = found.pop(name, None), expected.pop(name, None)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)
    if "use_cache" in arguments:
        assert cache.get_seq_length() == 5


def test_t5_classifies_no_embeddings_as_the_stock_model_does_not():
    for each in t5_classifiers(3):
        with pytest.raises(NotImplementedError, match=r"embeddings|input_ids"):
            each(inputs_embeds=torch.zeros(2, 5, 24))


def test_t5_classifies_as_the_stock_model_whatever_the_number_of_ends():
    """Texts of one end token each, for which the stock class is there; and others alone."""
    model, reference = t5_classifiers(3)
    mask = (ONE_END != 0).long()
    expected = reference(input_ids=ONE_END, attention_mask=mask).logits
    assert expected.std() > 0.05
    torch.testing.assert_close(model(ONE_END, mask).logits, expected, atol=1e-6, rtol=1e-6)
    left = torch.tensor([[1, 9, 30, 12, 2], [0, 0, 1, 17, 2]])
    torch.testing.assert_close(
        model(left, (left != 0).long()).logits,
        reference(input_ids=left, attention_mask=(left != 0).long()).logits,
        atol=1e-6,
        rtol=1e-6,
    )
    # A pair is <s> A </s></s> B </s>: three ends, of which both classes read the last.
    pair = torch.tensor([[1, 9, 2, 2, 12, 30, 2]])
    with pytest.raises(ValueError, match="same number of <eos>"):
        reference(torch.cat([pair, torch.tensor([[1, 5, 6, 7, 8, 9, 2]])]))
    both = torch.cat([torch.nn.functional.pad(ONE_END, (0, 2)), pair])
    found = model(both, (both != 0).long()).logits
    torch.testing.assert_close(found[2:], reference(pair).logits, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found[:2], expected, atol=1e-6, rtol=1e-6)
    labels = torch.tensor([0, 2, 1])
    loss = torch.nn.functional.cross_entropy(found, labels)
    torch.testing.assert_close(model(both, (both != 0).long(), labels=labels).loss, loss)


@pytest.mark.parametrize(
    ("family", "ffn"),
    [("gpt_neo", "moe"), ("roberta", "no-ffn"), ("t5", "gelu"), ("t5", "kan"), ("llama", "swiglu")],
)
def test_what_a_class_says_of_its_modules_by_name_is_true(family, ffn):
    """Which weights stay in float32, are split over devices or tied, and which layers lie on one device."""
    config = make(family, ffn).config
    spec = FAMILIES[family]
    for place in (spec.backbone_class, spec.model_class, spec.classifier_class):
        with torch.device("meta"):
            model = resolve_name(place)(config)
        modules = {name for name, _ in model.named_modules()}
        weights = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        assert set(model._no_split_modules) <= {type(module).__name__ for module in model.modules()}
        parts = {part for name in weights for part in name.split(".")}
        assert model._keep_in_fp32_modules == ({"wo"} if (family, ffn) == ("t5", "gelu") else set())
        assert model._keep_in_fp32_modules_strict <= parts
        layers = {re.sub(r"\.\d+", ".*", name) for name in modules}
        assert {*(model._tp_plan or {}), *(model._pp_plan or {}), *(model._ep_plan or {})} <= layers
        tied = model._tied_weights_keys or {}
        assert {*tied, *tied.values()} <= weights


@each_family
def test_post_init_leaves_kan_layers_as_they_were_drawn(family):
    model = make(family, "kan", hidden_size=128)
    for module in model.modules():
        if isinstance(module, KANLinear):
            # Kaiming-uniform with a = sqrt(5) is uniform within 1 / sqrt(fan_in).
            bound = module.in_features**-0.5
            assert 0.98 * bound < module.base_weight.abs().max() <= bound
            assert 0.98 * bound < module.spline_scaler.abs().max() <= bound


@pytest.mark.parametrize(("family", "field", "kind", "place"), listed(__file__, "dropouts"))
def test_dropout_of_the_ffn_is_kept_for_blocks(family, field, kind, place):
    model = make(family, "kan", **{field: 0.5})
    layer = next(m for m in model.modules() if type(m).__name__ == kind).train()
    assert layer.get_submodule(place).p == 0.5
    x = torch.randn(4, 200, 24)
    if family == "t5":
        assert 0.4 < (layer(x) == x).float().mean() < 0.6
    if family == "gpt_neo":
        assert 0.4 < (layer.mlp(x) == 0).float().mean() < 0.6


# 10,000 x 512 tokens, and in each of two layers four projections, two or three matrices and two norms.
LLAMA = 10_000 * 512 + 512 + 2 * (4 * 512 * 512 + 2 * 512)
NARROW = {"intermediate_size": 256}
PUBLISHED = [
    ("gpt_neo", "gelu", {}, None, 9_585_664),
    ("roberta", "prelu", {}, None, 9_866_000),
    ("gpt_neo", "kan", NARROW, {"grid_size": 3, "spline_order": 3}, 11_679_744),
    ("gpt_neo", "thesis-kan", NARROW, None, 11_679_744),
    ("roberta", "thesis-kan", {"intermediate_size": 384}, {"layers": "first"}, 11_303_696),
    # One layer in encoder and decoder each, so two FFNs as in the others; no biases and no positions.
    ("t5", "gelu", {}, None, 10_366_720),
    ("t5", "spline-kan", {}, None, 10_366_720 - 2 * 2 * 512 * 1024 + 2 * 4 * 512 * 10),
    ("llama", "swiglu", {"tie_word_embeddings": False}, None, LLAMA + 10_000 * 512 + 2 * 3 * 512 * 1024),
]


@pytest.mark.parametrize(("family", "ffn", "config", "options", "total"), PUBLISHED)
def test_parameter_counts_of_the_source_study(family, ffn, config, options, total):
    with torch.device("meta"):
        model = build_model(family, ffn, options, **config)
    assert count_parameters(model)["total"] == total
    assert model.num_parameters() == total


def test_source_study_sizes_are_the_defaults():
    neo, roberta, t5, llama = (build_config(family, "gelu") for family in FAMILIES)
    deeper = build_config("gpt_neo", "gelu", num_hidden_layers=3)
    assert deeper.attention_layers == ["global", "local", "global"]
    assert (neo.attention_layers, neo.window_size) == (["global", "local"], 256)
    assert neo.max_position_embeddings == 512
    assert (roberta.max_position_embeddings, roberta.type_vocab_size) == (513, 2)
    assert (t5.num_layers, t5.num_decoder_layers, t5.d_ff, t5.d_kv) == (1, 1, 1024, 128)
    assert (t5.max_position_embeddings, t5.decoder_start_token_id) == (512, 0)
    assert (llama.num_key_value_heads, llama.head_dim, llama.tie_word_embeddings) == (4, 128, True)
    for config in (neo, roberta, t5, llama):
        assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (0, 1, 2)
        assert (config.vocab_size, config.hidden_size, config.num_attention_heads) == (10_000, 512, 4)


@pytest.mark.parametrize(("family", "ffn", "config", "message"), listed(__file__, "mistakes of models"))
def test_mistakes_are_usage_errors(family, ffn, config, message):
    with pytest.raises(UsageError, match=message):
        build_model(family, ffn, **config)


@pytest.mark.parametrize(("family", "ffn", "other", "message"), listed(__file__, "other variants"))
def test_overriding_the_variant_on_load_is_an_error(family, ffn, other, message, tmp_path):
    make(family, ffn).save_pretrained(tmp_path)
    for kind in (auto(family), AutoModel, AutoModelForSequenceClassification):
        with pytest.raises(UsageError, match=message):
            kind.from_pretrained(tmp_path, ffn=other)


# Models that are made on the meta device, given memory, and initialised then


def tensors(model) -> dict[str, torch.Tensor]:
    return dict((*model.named_parameters(), *model.named_buffers()))


@each_variant
def test_a_model_from_the_meta_device_is_initialised_as_by_the_constructor(family, ffn):
    with torch.device("meta"):
        model = make(family, ffn, seed=3)
    model.to_empty(device="cpu")
    for tensor in tensors(model).values():
        tensor.data.fill_(1)
    torch.manual_seed(3)
    model.init_weights()
    wanted = tensors(make(family, ffn, seed=3))
    found = tensors(model)
    assert found.keys() == wanted.keys()
    assert not [key for key, value in wanted.items() if not torch.equal(found[key], value)]


def test_an_ffn_alone_can_be_initialised_anew():
    model = make("gpt_neo", "kan", seed=3)
    before = {key: value.clone() for key, value in tensors(model).items()}
    for value in model.parameters():
        value.data.fill_(1)
    for layer in model.transformer.h:
        for module in layer.mlp.modules():
            module._is_hf_initialized = False
    torch.manual_seed(3)
    model.init_weights()
    for key, value in model.named_parameters():
        assert torch.equal(value, before[key] if ".mlp." in key else torch.ones_like(value)), key
