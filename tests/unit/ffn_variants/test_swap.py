"""FFNs that are swapped: what stays to the bit, what is new, and the example that fits them."""

import importlib.util

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    BertConfig,
    BertModel,
    GPT2Config,
    PreTrainedTokenizerBase,
    Qwen2Config,
)

import ffn_ablations
from base.errors import UsageError
from ffn_variants import build_model, get_variant
from ffn_variants.models.layers import ffn_modules
from ffn_variants.swap import layers_of, present_ffn, swap_ffn
from pretrain.data.embedded.stories import stories
from pretrain.data.tokenizer import add_sentinels, train_tokenizer
from tests.cases import listed
from tests.references import count_parameters
from tests.stock_models import stock_model

SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
STORIES = stories(400, 0)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    tokenizer = train_tokenizer(iter(STORIES), 300)
    add_sentinels(tokenizer)
    return tokenizer


@pytest.fixture
def ours(tokenizer):
    """Make a model of ours; small weights are made large, so that its FFNs matter."""

    def _ours(family: str, ffn: str = "gelu", **config):
        torch.manual_seed(0)
        model = build_model(
            family, ffn, vocab_size=len(tokenizer), max_position_embeddings=65, **SIZES, **config
        )
        return _widened(model)

    return _ours


@pytest.fixture
def stock(tokenizer):
    """Make a model of transformers itself."""

    def _stock(family: str, **config):
        torch.manual_seed(0)
        # Llama has fewer heads of keys than of queries, as larger ones have.
        own = {"gpt_neo": {"window_size": 8}, "llama": {"num_key_value_heads": 1}}.get(family, {})
        sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 65, **SIZES, **own}
        return _widened(stock_model(family, **sizes, **config))

    return _stock


def _widened(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "shared" not in name:
                parameter.mul_(4)
    return model.eval()


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


@pytest.mark.parametrize(
    ("family", "ffn"), [("gpt_neo", "gelu"), ("llama", "gelu"), ("roberta", "swish"), ("t5", "swish")]
)
def test_an_activation_for_itself_is_exact_to_the_bit(family, ffn, ours):
    model = ours(family, ffn)
    if ffn == "swish":
        for name, parameter in model.named_parameters():
            if name.endswith("beta"):
                parameter.data.normal_()
    same = swap_ffn(model, ffn)
    assert torch.equal(logits(same), logits(model))


@pytest.mark.parametrize(("family", "ffn", "config", "tolerance"), listed(__file__, "own activations"))
def test_a_stock_model_with_its_own_activation_stays_as_it_is(family, ffn, config, tolerance, stock):
    model = stock(family, **config)
    same = swap_ffn(model, ffn)
    assert type(same).__name__.startswith("FFN")
    torch.testing.assert_close(logits(same), logits(model), atol=tolerance, rtol=0)


@pytest.mark.parametrize("kind", ["ours", "stock"])
@pytest.mark.parametrize(
    ("family", "ffn"), [("gpt_neo", "kan"), ("roberta", "gr-kan"), ("t5", "spline-kan"), ("llama", "swiglu")]
)
def test_all_weights_outside_the_ffns_are_untouched(kind, family, ffn, request):
    model = request.getfixturevalue(kind)(family)
    other = swap_ffn(model, ffn)
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


@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "t5", "llama"])
def test_linear_layers_are_taken_over_and_what_is_learnable_in_between_is_new(family, ours):
    model = ours(family, "swish")
    for name, parameter in model.named_parameters():
        if name.endswith("beta"):
            parameter.data.fill_(7.0)
    other = swap_ffn(model, "learnable-gelu")
    before = model.state_dict()
    for name, tensor in other.state_dict().items():
        assert torch.equal(tensor, torch.ones_like(tensor) if name.endswith("beta") else before[name]), name


@pytest.mark.parametrize(("kind", "family"), [("ours", "gpt_neo"), ("stock", "t5"), ("stock", "llama")])
def test_a_swapped_model_is_saved_and_its_ffn_exchanged_back(kind, family, request, tmp_path):
    model = request.getfixturevalue(kind)(family)
    sizes = {"ffn_options": {"grid_size": 3}, "intermediate_size": 10}
    other = swap_ffn(model, "fourier-kan", **sizes)
    assert present_ffn(other) == {"ffn": "fourier-kan"} | sizes
    other.save_pretrained(tmp_path / "other")
    loaded = type(other).from_pretrained(tmp_path / "other").eval()
    assert torch.equal(logits(loaded), logits(other))
    again = swap_ffn(loaded, "gelu", intermediate_size=24)
    assert present_ffn(again)["ffn"] == "gelu"


def test_a_kan_for_a_kan_and_another_width_are_drawn_anew(ours):
    for ffn, width in (("kan", 24), ("gelu", 30)):
        model = ours("gpt_neo", ffn)
        other = swap_ffn(model, ffn, intermediate_size=width)
        assert not torch.allclose(logits(other), logits(model))


def test_an_ffn_that_no_variant_is_like_is_replaced_as_well(stock):
    model = stock("t5", feed_forward_proj="gated-gelu")
    assert present_ffn(model)["ffn"] is None
    assert present_ffn(swap_ffn(model, "kan"))["ffn"] == "kan"


@pytest.mark.parametrize("kind", ["ours", "stock"])
def test_a_budget_gives_as_many_parameters(kind, request):
    model = request.getfixturevalue(kind)("gpt_neo")
    other = swap_ffn(model, "swiglu", budget="params")
    assert present_ffn(other)["ffn"] == "swiglu"
    assert abs(count_parameters(other)["ffn"] / count_parameters(model)["ffn"] - 1) < 0.05


@pytest.mark.parametrize(("ffn", "how", "message"), listed(__file__, "mistakes of a swap"))
def test_what_cannot_be_swapped_is_told_in_one_line(ffn, how, message, ours):
    with pytest.raises(UsageError, match=message):
        ffn_ablations.swap_ffn(ours("gpt_neo"), ffn, **how)


@pytest.mark.parametrize("is_gated", [False, True])
def test_mlps_of_other_architectures_are_replaced(is_gated: bool) -> None:
    shape = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "vocab_size": 300}
    if is_gated:
        config = Qwen2Config(**shape, intermediate_size=24, num_key_value_heads=1)
    else:
        config = GPT2Config(n_embd=16, n_head=2, n_layer=2, vocab_size=300, n_inner=24)
    model = _widened(AutoModelForCausalLM.from_config(config))
    before = logits(model)
    swapped = swap_ffn(model, "swiglu" if is_gated else "gelu")
    assert torch.equal(logits(model), before)
    assert not torch.allclose(logits(swapped), before, atol=1e-3)
    old, new = ([each.mlp for each in one.modules() if hasattr(each, "mlp")] for one in (model, swapped))
    for stock, ours in zip(old, new, strict=True):
        if is_gated:
            gate, up, down = stock.gate_proj.weight, stock.up_proj.weight, stock.down_proj.weight
            state = {"c_fc.weight": torch.cat([gate, up]), "c_proj.weight": down}
        else:  # of a Conv1D, whose weights are (in, out)
            state = {key: value.t() for key, value in stock.state_dict().items()}
            assert ours.dropout.p == stock.dropout.p
        getattr(ours, "ffn", ours).load_state_dict(state)
    torch.testing.assert_close(logits(swapped), before)
    matched = swap_ffn(model, "swiglu", intermediate_size=48, budget="params")
    gelu = 2 * 16 * 48 + (0 if is_gated else 48 + 16)
    sizes = [count_parameters(each.mlp)["total"] for each in matched.modules() if hasattr(each, "mlp")]
    assert sizes == [pytest.approx(gelu, rel=0.05)] * 2


def test_what_is_no_model_of_a_family_is_refused_in_a_line():
    bert = BertConfig(hidden_size=8, num_attention_heads=1, intermediate_size=8, num_hidden_layers=1)
    with pytest.raises(UsageError, match="a model of type 'bert'; possible are gpt_neo, roberta, t5, llama"):
        swap_ffn(BertModel(bert), "kan")
    with pytest.raises(UsageError, match=r"^swap_ffn takes a model of transformers, got [^\n]+$"):
        swap_ffn("gpt2", "kan")  # type: ignore[bad-argument-type]


@pytest.fixture(scope="module")
def example(repository):
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("swap_example", repository / "examples/swap_ffn.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.ci
def test_the_example_fits_each_ffn_and_saves_the_model(
    ours, tokenizer, example, tmp_path, monkeypatch, capsys
):
    model = ours("gpt_neo")
    monkeypatch.setattr(ffn_ablations.Run, "__init__", lambda self, folder: None)
    monkeypatch.setattr(ffn_ablations.Run, "load", lambda self: (model, tokenizer))
    (tmp_path / "texts.txt").write_text("\n".join(story[:80].replace("\n", " ") for story in STORIES[:60]))
    run = [str(tmp_path / name) for name in ("run", "texts.txt", "out")]
    unfitted = example.main(run[0], "swiglu", run[1], run[2], steps=1)
    fitted = example.main(run[0], "swiglu", run[1], run[2], steps=60)
    assert len(fitted) == len(layers_of(model))
    assert all(after < before for after, before in zip(fitted, unfitted, strict=True))
    assert f"layer 0: relative error {fitted[0]:.3f}" in capsys.readouterr().out
    assert AutoConfig.from_pretrained(tmp_path / "out").ffn == "swiglu"
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")
