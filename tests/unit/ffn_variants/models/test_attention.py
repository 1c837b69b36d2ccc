"""GPT-Neo's attention on each backend against the stock model, and faster dropouts and casts on a CPU."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from ffn_variants import build_config, build_model
from ffn_variants.models.attention import GPTNeoBackendAttention
from ffn_variants.models.faster_layers import (
    Dropout,
    biased_attention,
    cast_inputs_once,
    dropout,
    product_dtype,
    replace_dropouts,
)
from ffn_variants.models.modeling import (
    FFNGPTNeoForCausalLM,
    FFNGPTNeoForSequenceClassification,
    FFNGPTNeoModel,
)
from tests.cases import SMALL
from tests.stock_models import stock_model

SIZES = {**SMALL, "num_hidden_layers": 4, "window_size": 5}
LENGTH = 20
each_backend = pytest.mark.parametrize("backend", ["sdpa", "eager"])


@pytest.fixture
def pair():
    """Make our model and the stock one with its weights."""

    def _pair(backend):
        torch.manual_seed(3)
        ours = build_model("gpt_neo", "gelu", **SIZES)
        ours.set_attn_implementation(backend)
        stock = stock_model("gpt_neo", **SIZES).train()
        stock.load_state_dict(ours.state_dict())
        return ours, stock

    return _pair


def tokens(rows=3, length=LENGTH):
    return torch.randint(3, 50, (rows, length), generator=torch.Generator().manual_seed(0))


@each_backend
@pytest.mark.parametrize("is_padded", [False, True])
def test_outputs_and_gradients_are_those_of_the_stock_model(pair, backend, is_padded):
    ours, stock = pair(backend)
    modules = [m for m in ours.modules() if isinstance(m, GPTNeoBackendAttention)]
    assert [m.sliding_window for m in modules] == [None, 5, None, 5]
    mask = torch.ones(3, LENGTH, dtype=torch.long)
    mask[1, 13:] = mask[2, 4:] = int(not is_padded)
    inputs = {"input_ids": tokens(), "attention_mask": mask} if is_padded else {"input_ids": tokens()}
    results = []
    for model in (ours, stock):
        seen = model(**inputs, use_cache=False).logits[mask.bool()]
        seen.log_softmax(-1)[..., 7].sum().backward()
        results.append((seen, [parameter.grad for parameter in model.parameters()]))
    torch.testing.assert_close(results[0][0], results[1][0], atol=1e-6, rtol=1e-5)
    for a, b in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(a, b, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("backend", "padding"),
    [("eager", "mask"), ("sdpa", "positional"), ("sdpa", "embeddings"), ("eager", "cache")],
)
def test_a_text_has_the_same_outputs_whatever_padding_stands_before_it(pair, backend, padding):
    """The stock model, which counts the padding, is asked for the text alone."""
    ours, stock = pair(backend)
    text, filled = tokens(1, 12), torch.cat([torch.zeros(1, 6, dtype=torch.long), tokens(1, 12)], 1)
    expected, mask = stock(text).logits, (filled > 0).long()
    assert not torch.allclose(stock(filled, attention_mask=mask).logits[:, 6:], expected, atol=1e-3)
    if padding == "positional":
        found = ours(filled, None, mask, None, None).logits
    elif padding == "embeddings":
        embeddings = ours.get_input_embeddings()(filled)
        found = ours(inputs_embeds=embeddings, attention_mask=mask).logits
    elif padding == "cache":
        first = ours(filled[:, :14], attention_mask=mask[:, :14], use_cache=True)
        second = ours(filled[:, 14:], attention_mask=mask, past_key_values=first.past_key_values)
        found = torch.cat([first.logits, second.logits], 1)
    else:
        found = ours(filled, attention_mask=mask).logits
    torch.testing.assert_close(found[:, 6:], expected, atol=1e-6, rtol=1e-5)


def test_a_backbone_and_a_classifier_do_not_count_padding_either():
    torch.manual_seed(3)
    config = build_config("gpt_neo", "gelu", **SIZES)
    text, filled = tokens(1, 12), torch.cat([torch.zeros(1, 6, dtype=torch.long), tokens(1, 12)], 1)
    backbone, classifier = FFNGPTNeoModel(config), FFNGPTNeoForSequenceClassification(config)
    found = backbone(filled, None, filled > 0)
    torch.testing.assert_close(found.last_hidden_state[:, 6:], backbone(text).last_hidden_state)
    found = classifier(filled, attention_mask=filled > 0).logits
    torch.testing.assert_close(found, classifier(text).logits)


@each_backend
def test_a_mask_of_documents_is_narrowed_to_the_past_and_the_window(pair, backend):
    """Stock GPT-Neo is asked in its own way, by a mask that is added; both leave the rest to the layers."""
    ours, stock = pair(backend)
    document = torch.tensor([[0] * 11 + [1] * 9, [0] * 3 + [1] * 17, [0] * 20])
    same = (document[:, :, None] == document[:, None, :])[:, None]
    added = torch.where(same, 0.0, torch.finfo(torch.float32).min)
    logits = stock(input_ids=tokens(), attention_mask=added, use_cache=False).logits
    given = same if backend == "sdpa" else added
    found = ours(input_ids=tokens(), attention_mask=given, use_cache=False).logits
    torch.testing.assert_close(found, logits, atol=1e-6, rtol=1e-5)
    alone = ours(input_ids=tokens()[:1, 11:], position_ids=torch.arange(11, 20)[None], use_cache=False).logits
    torch.testing.assert_close(found[:1, 11:], alone, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("backend", "length"), [("sdpa", 2), ("eager", 9)])
def test_generated_tokens_are_those_of_the_stock_model(pair, backend, length):
    ours, stock = pair(backend)
    prompt = tokens(2, length)
    wanted = {"max_new_tokens": 15, "min_new_tokens": 15, "do_sample": False}
    mask = torch.ones_like(prompt)
    results = [m.eval().generate(prompt, attention_mask=mask, **wanted) for m in (ours, stock)]
    assert torch.equal(*results)


def test_attention_dropout_acts_in_training_alone(pair):
    torch.manual_seed(3)
    model = build_model("gpt_neo", "gelu", **SIZES, attention_dropout=0.5)
    first, second = (model.train()(tokens(), use_cache=False).logits for _ in range(2))
    assert not torch.equal(first, second)
    first, second = (model.eval()(tokens(), use_cache=False).logits for _ in range(2))
    assert torch.equal(first, second)


def test_sdpa_is_the_default_and_another_backend_can_be_loaded(pair, tmp_path):
    ours, _ = pair("sdpa")
    ours.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    eager = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    assert (loaded.config._attn_implementation, eager.config._attn_implementation) == ("sdpa", "eager")
    torch.testing.assert_close(loaded(tokens()).logits, eager(tokens()).logits, atol=1e-6, rtol=1e-5)
    weights = eager(tokens(), output_attentions=True).attentions
    assert weights[1].shape == (3, 2, LENGTH, LENGTH)
    assert not weights[1][..., 10, :6].any()  # beyond the window of a local layer


def test_a_backend_can_be_set_whatever_the_stock_class_was_asked_before(pair, monkeypatch):
    kept = "_can_set_attn_implementation_cached_value"  # by transformers on the class that was asked
    for kind in FFNGPTNeoForCausalLM.__mro__:
        if kept in vars(kind):
            monkeypatch.delattr(kind, kept)
    stock = stock_model("gpt_neo", **SIZES)
    stock.set_attn_implementation("sdpa")
    assert stock.config._attn_implementation == "eager"
    ours, _ = pair("eager")
    assert ours.config._attn_implementation == "eager"
    assert ours(tokens(), output_attentions=True).attentions[0].shape == (3, 2, LENGTH, LENGTH)


# Faster layers: which values dropout drops, and what is done once under autocast on a GPU alone

P = 0.1


@pytest.mark.parametrize(("dtype", "p"), [(torch.float32, P), (torch.bfloat16, 0.5)])
def test_values_are_dropped_or_scaled_and_gradients_too(dtype, p):
    torch.manual_seed(0)
    x = torch.randn(37, 11, dtype=dtype).abs().add(0.1).requires_grad_()
    out = dropout(x, p)
    out.backward(torch.ones_like(out))
    kept = out != 0
    scaled = x.detach().double() / (1 - p)
    torch.testing.assert_close(out.double(), torch.where(kept, scaled, 0), rtol=1e-2, atol=0)
    expected = torch.where(kept, 1 / (1 - p), 0.0)
    torch.testing.assert_close(x.grad.float(), expected, rtol=1e-2, atol=0)
    assert out.dtype == x.grad.dtype == dtype


def test_the_share_dropped_is_that_asked_for_at_each_of_four_places():
    """One number decides four values: each place must drop as often, and without regard to its neighbours."""
    torch.manual_seed(1)
    dropped = (dropout(torch.ones(100_000, 4), P) == 0).numpy()
    for place in range(4):
        assert stats.binomtest(int(dropped[:, place].sum()), len(dropped), P).pvalue > 1e-3
    pairs = np.corrcoef(dropped.T)[np.triu_indices(4, 1)]
    assert abs(pairs).max() < 4 / np.sqrt(len(dropped))


def test_torchs_seed_decides_the_draws():
    draws = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        draws.append(dropout(torch.ones(100), P))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_nothing_is_dropped_in_evaluation_or_at_zero():
    x = torch.ones(1000)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(0.5).eval()(x), x)


def test_every_dropout_of_a_model_is_exchanged_and_no_weight():
    model = build_model("roberta", "gelu", **SMALL).eval()
    names, ids = list(model.state_dict()), torch.arange(4)[None]
    before = model(input_ids=ids).logits
    replace_dropouts(model)
    kinds = {type(module) for module in model.modules() if isinstance(module, nn.Dropout)}
    assert kinds == {Dropout}
    assert list(model.state_dict()) == names
    assert torch.equal(model(input_ids=ids).logits, before)  # in evaluation still


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_with_a_bias_is_sdpa_on_a_cpu(dtype):
    torch.manual_seed(0)
    heads = [torch.randn(3, 2, 8, 4, dtype=dtype) for _ in range(3)]
    mask = torch.randn(3, 1, 8, 8).to(dtype)
    arguments = {"position_bias": torch.randn(1, 2, 8, 8), "scaling": 1.0}
    layer = SimpleNamespace(is_causal=False)
    if dtype == torch.bfloat16:
        arguments["position_bias"] = arguments["position_bias"].to(dtype)
    ours, _ = biased_attention(layer, *heads, mask, **arguments)
    assert torch.equal(ours, sdpa_attention_forward(layer, *heads, mask, **arguments)[0])


@pytest.mark.parametrize("family", ["roberta", "t5"])
def test_a_cpu_casts_for_each_projection(family):
    torch.manual_seed(0)
    model = build_model(family, "gelu", **SMALL).eval()
    ids = torch.randint(4, 50, (2, 9))
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if family == "t5" else {})
    with torch.autocast("cpu", torch.bfloat16):
        plain = model(**inputs).logits
        cast_inputs_once(model)
        assert torch.equal(model(**inputs).logits, plain)


def test_the_dtype_of_products_is_that_of_autocast():
    model = build_model("gpt_neo", "gelu", **SMALL)
    assert product_dtype(model, torch.device("cpu")) == torch.float32
    assert product_dtype(model.half(), torch.device("meta")) == torch.float16
    with torch.autocast("cpu", torch.bfloat16):
        assert product_dtype(model, torch.device("cpu")) == torch.bfloat16
