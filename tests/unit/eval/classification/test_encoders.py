"""Classification without padding, against transformers' own padded passes, and as a GPU does it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    BartConfig,
    BertConfig,
    BertModel,
    GPT2Config,
    GPTNeoConfig,
    GPTNeoForSequenceClassification,
    PreTrainedModel,
    RobertaConfig,
    RobertaForSequenceClassification,
    T5Config,
    XLNetConfig,
)

from eval.classification.classifier import (
    Features,
    HeadClassifier,
    PaddedClassifier,
    StockHead,
    make_classifier,
    stack,
)
from eval.classification.encoders import (
    LEFT_PADDED,
    TOKENS_PER_CHUNK,
    PackedEncoder,
    PaddedEncoder,
    lay_out,
    make_encoder,
    padded_inputs,
)
from eval.classification.example_tokens import Encoded
from eval.classification.finetune import trained_state
from eval.classification.heads import build_head
from eval.classification.prediction import features, predict
from eval.classification.segments import Segmented
from ffn_variants import FFN_VARIANTS, build_model
from scores.head_descriptions import HEADS, get_head, parse_head
from tests.cases import diagonal_is_fast

# Classification without padding, against transformers' own padded forward and backward pass.
PACKABLE = ("gpt_neo", "roberta")
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
# Of activations, which see one number at a time, the usual one.
BLOCKS = ["gelu", *(name for name, spec in FFN_VARIANTS.items() if spec.kind == "block")]
SIZES = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, **IDS}


def build(family: str, ffn: str = "gelu", layers: int = 2, dropout: float = 0.0) -> PreTrainedModel:
    """A classifier with weights large enough for attention to matter."""
    torch.manual_seed(0)
    sizes: dict = {"num_hidden_layers": layers, "num_attention_heads": 2, "max_position_embeddings": 91}
    if family == "roberta":
        sizes |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    else:
        sizes |= {"window_size": 6}
    config = build_model(family, ffn, initializer_range=0.3, **SIZES, **sizes).config
    config.num_labels = 3
    return AutoModelForSequenceClassification.from_config(config)


def examples(lengths: list[int], seed: int = 0) -> Encoded:
    rng = np.random.default_rng(seed)
    ids = [[1, *rng.integers(3, 50, length - 2), 2] for length in lengths]
    return Encoded.from_lists(ids, rng.integers(0, 3, len(lengths)))


def padded_logits(model: PreTrainedModel, data: Encoded, length: int = 90) -> torch.Tensor:
    """What transformers makes of examples padded to a fixed length."""
    ids, mask, start = torch.zeros(len(data), length, dtype=torch.long), torch.zeros(len(data), length), 0
    for row, size in enumerate(data.lengths):
        ids[row, :size] = torch.tensor(data.tokens[start : start + size])
        mask[row, :size] = 1
        start += size
    return model(input_ids=ids, attention_mask=mask).logits


def gradients(model: PreTrainedModel, logits: torch.Tensor, labels: np.ndarray) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    F.cross_entropy(logits, torch.from_numpy(labels)).backward()
    named = model.named_parameters()
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in named}


@pytest.mark.parametrize("in_one_row", [True, False])
@pytest.mark.parametrize(
    ("family", "layers"), [("gpt_neo", 1), ("gpt_neo", 3), ("roberta", 1), ("roberta", 3)]
)
def test_logits_and_gradients_are_those_of_a_padded_batch(family, layers, in_one_row, error):
    data = examples([4, 70, 9, 4, 25, 66, 2, 31, 13, 80])
    stock, model = build(family, layers=layers).eval(), build(family, layers=layers)
    wanted = padded_logits(stock, data)
    wanted_gradients = gradients(stock, wanted, data.labels)
    logits = HeadClassifier(PackedEncoder(model, in_one_row), StockHead(model)).eval()(data).logits
    assert logits.detach().abs().max() > 0.05
    assert error(logits.detach(), wanted.detach()) < 1e-5
    for name, gradient in gradients(model, logits, data.labels).items():
        assert error(gradient, wanted_gradients[name]) < 2e-5, name


@pytest.mark.parametrize(("family", "ffn"), diagonal_is_fast(PACKABLE, BLOCKS))
@pytest.mark.ci
def test_every_variant_gives_what_the_padded_batch_gives(family, ffn, error):
    data = examples([5, 40, 12, 3])
    wanted = padded_logits(build(family, ffn).eval(), data).detach()
    classifier = make_classifier(build(family, ffn))
    assert isinstance(classifier, HeadClassifier)
    assert error(classifier.eval()(data).logits.detach(), wanted) < 1e-5


@pytest.mark.parametrize("family", PACKABLE)
def test_a_text_that_ends_in_the_padding_token_is_read_to_its_end(family):
    ids = [[1, 7, 8, 0], [1, 7, 8, 9, 10, 11, 0]]
    classifier = make_classifier(build(family)).eval()
    both = classifier(Encoded.from_lists(ids, [0, 0])).logits
    without = classifier(Encoded.from_lists([row[:-1] for row in ids], [0, 0])).logits
    assert (both - without).abs().min() > 1e-4
    alone = classifier(Encoded.from_lists(ids[:1], [0])).logits
    torch.testing.assert_close(both[:1], alone, atol=1e-5, rtol=1e-5)


def test_stock_models_are_computed_as_they_are(error):
    sizes, data = {**SIZES, "num_labels": 3}, examples([4, 30, 9])
    layers = {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]}
    stock_gpt_neo = GPTNeoForSequenceClassification(GPTNeoConfig.from_dict(sizes | layers))
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2}
    stock_roberta = RobertaForSequenceClassification(RobertaConfig.from_dict(sizes | layers))
    for model, kind in ((stock_gpt_neo, PaddedClassifier), (stock_roberta, HeadClassifier)):
        wanted = padded_logits(model.eval(), data).detach()
        classifier = make_classifier(model)
        assert type(classifier) is kind
        assert error(classifier(data).logits.detach(), wanted) < 1e-5


def test_dropout_has_the_mean_and_spread_of_transformers_own():
    same = examples([9]).take([0] * 2000)
    stock, model = build("roberta", dropout=0.3).train(), build("roberta", dropout=0.3)
    with torch.no_grad():
        torch.manual_seed(1)
        wanted, found = padded_logits(stock, same, 9), make_classifier(model).train()(same).logits
    error = (wanted.var(0) / len(wanted) + found.var(0) / len(found)).sqrt()
    assert ((wanted.mean(0) - found.mean(0)).abs() < 4 * error).all()
    torch.testing.assert_close(found.std(0), wanted.std(0), rtol=0.1, atol=0)


@pytest.mark.parametrize("family", PACKABLE)
def test_bf16_products_give_about_the_same(family):
    data = examples([5, 60, 33])
    classifier = make_classifier(build(family)).eval()
    exact = classifier(data).logits
    with torch.autocast("cpu", torch.bfloat16):
        rounded = classifier(data).logits.float()
    assert 0 < (rounded - exact).abs().max() < 0.1 * exact.abs().max() + 0.02


# Vectors of texts and of tokens without padding, against transformers' own padded forward pass.
FAMILIES = ("gpt_neo", "roberta")


def backbone(family: str) -> PreTrainedModel:
    """A model without head."""
    model = AutoModel.from_config(build(family, dropout=0.1).config)
    model.pooler = None
    return model.eval()


def one_by_one(model: PreTrainedModel, data: Encoded) -> list[torch.Tensor]:
    """The last hidden states of each text by itself, which needs neither padding nor a mask."""
    ends = np.cumsum(data.lengths)
    texts = [data.tokens[end - length : end] for end, length in zip(ends, data.lengths, strict=True)]
    with torch.no_grad():
        return [model(input_ids=torch.tensor(ids[None].astype(int))).last_hidden_state[0] for ids in texts]


CHOOSE = {"first": lambda x: x[0], "last": lambda x: x[-1], "mean": lambda x: x.mean(0)}


@torch.no_grad()
def check_pooled(encoder, data: Encoded, wanted: list[torch.Tensor], own: str, error) -> None:
    """Each pooling is that of the text's own states; ``own`` is the one that is taken unless it is said."""
    for pooling, choose in CHOOSE.items():
        expected = torch.stack([choose(x) for x in wanted])
        assert error(encoder.pooled(data, pooling), expected) < 1e-5, pooling
    assert torch.equal(encoder.pooled(data), encoder.pooled(data, own))


@pytest.mark.parametrize("in_one_row", [True, False])
@pytest.mark.parametrize(("family", "own"), [("gpt_neo", "last"), ("roberta", "first")])
def test_packed_vectors_are_those_of_each_text_by_itself(family, own, in_one_row, error):
    data, model = examples([4, 70, 9, 25, 2, 80]), backbone(family)
    wanted, encoder = one_by_one(model, data), PackedEncoder(model, in_one_row).eval()
    check_pooled(encoder, data, wanted, own, error)
    with torch.no_grad():
        hidden, mask = encoder.tokens(data)
    assert mask.sum(1).tolist() == data.lengths.tolist()
    for row, kept, expected in zip(hidden, mask, wanted, strict=True):
        assert error(row[kept], expected) < 1e-5


SMALL_BERT = BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
SMALL_BART = BartConfig(
    d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2
)
SMALL_XLNET = XLNetConfig(d_model=16, n_layer=2, n_head=2, d_inner=32)


@pytest.mark.parametrize(
    ("config", "own"),
    [
        (SMALL_BERT, "first"),
        (GPT2Config(n_embd=16, n_layer=2, n_head=2), "last"),
        (T5Config(d_model=16, num_layers=2, num_heads=2, d_ff=32, d_kv=8), "mean"),
    ],
)
def test_other_backbones_are_read_as_they_were_trained(config, own, error):
    config.vocab_size, config.pad_token_id = 50, 0
    torch.manual_seed(0)
    data, encoder = examples([4, 30, 9]), make_encoder(AutoModel.from_config(config).eval())
    assert isinstance(encoder, PaddedEncoder)
    check_pooled(encoder.eval(), data, one_by_one(encoder.body, data), own, error)


@pytest.mark.parametrize(
    "config", [SMALL_BERT, SMALL_BART, SMALL_XLNET], ids=lambda config: config.model_type
)
def test_position_0_is_that_of_automodels_output_as_its_tokenizer_pads(config, error):
    config.vocab_size, config.pad_token_id = 50, 0
    torch.manual_seed(0)
    model, data = AutoModel.from_config(config).eval(), examples([4, 30, 9])
    is_left = config.model_type == "xlnet"
    ids = torch.zeros(3, LEFT_PADDED if is_left else 30, dtype=torch.long)
    for row, text in zip(ids, np.split(data.tokens, np.cumsum(data.lengths)[:-1]), strict=True):
        row[slice(-len(text), None) if is_left else slice(len(text))] = torch.from_numpy(text)
    with torch.no_grad():
        wanted = model(input_ids=ids, attention_mask=(ids != 0).long())[0][:, 0]
        found, first = (make_encoder(model, x).pooled(data, x) for x in ("position-0", "first"))
    assert error(found, wanted) < 1e-5
    assert (error(first, wanted) < 1e-5) == (config.model_type == "bert")


def segmented(data: Encoded, counts: list[int]) -> Segmented:
    """The texts of ``data`` as segments of fewer examples."""
    size, spans = len(counts), np.zeros((len(data), 2), np.int64)
    labels = np.arange(size) % 3
    names = np.array([str(n) for n in range(size)], dtype=object)
    return Segmented(data, np.array(counts), labels, np.zeros(size, bool), names, spans)


@pytest.mark.parametrize(("family", "name"), list(zip(cycle(FAMILIES), HEADS, strict=False)))
def test_a_head_on_kept_features_is_the_head_on_its_frozen_backbone(family, name):
    spec, data = HEADS[name], examples([4, 70, 9, 25, 3, 80])
    batch = segmented(data, [1, 3, 2]) if spec.reads == "segments" else data
    torch.manual_seed(1)
    head = build_head(parse_head(name), 16, 3)
    classifier = HeadClassifier(make_encoder(backbone(family)), head, spec.reads, "mean", is_frozen=True)
    kept = features(classifier, batch, weights=f"{family} {name}")
    assert isinstance(kept, Features)
    classifier.train()
    assert not classifier.encoder.training
    assert not any(key.startswith("encoder.body.") and "weight" in key for key in trained_state(classifier))
    order = [2, 0, 1]
    whole = classifier.eval()(batch.take(order)).logits
    torch.testing.assert_close(classifier(kept.take(order)).logits, whole, atol=1e-5, rtol=1e-4)
    whole.sum().backward()
    assert all(parameter.grad is None for parameter in classifier.encoder.parameters())
    assert any(parameter.grad is not None for parameter in classifier.head.parameters())


def test_ragged_vectors_are_stacked_with_a_mask():
    vectors = torch.arange(1.0, 13).view(6, 2)
    stacked, mask = stack(vectors, np.array([1, 3, 2]))
    assert mask.tolist() == [[True, False, False], [True, True, True], [True, True, False]]
    assert torch.equal(stacked[mask], vectors)
    assert (stacked[~mask] == 0).all()


def test_kept_features_are_those_of_the_device_that_is_asked_for():
    for device in ("cpu", "meta"):
        encoder = make_encoder(backbone("roberta").to(device))
        classifier = HeadClassifier(encoder, build_head(parse_head("linear"), 16, 3), is_frozen=True)
        kept = features(classifier, examples([4, 9]), weights="on some device")
        assert kept.vectors.device.type == device


@pytest.mark.parametrize("drops_out", [False, True])
def test_a_frozen_backbone_drops_out_only_where_it_is_to(drops_out):
    """As FR-KAN's notebooks have it: another vector for every batch, and still no gradient."""
    encoder, head = make_encoder(backbone("roberta")), build_head(parse_head("linear"), 16, 3)
    classifier = HeadClassifier(encoder, head, is_frozen=True, frozen_dropout=drops_out).train()
    data = examples([9, 30])
    one, two = classifier(data).logits, classifier(data).logits
    assert torch.equal(one, two) != drops_out
    one.sum().backward()
    assert all(parameter.grad is None for parameter in encoder.parameters())
    assert torch.equal(classifier.eval()(data).logits, classifier(data).logits)


def test_dropout_of_a_head_has_its_mean_and_variance_on_kept_features_too():
    data, p = examples([9]), 0.3
    torch.manual_seed(1)
    head = build_head(parse_head("linear"), 16, 3)
    encoder = make_encoder(backbone("roberta"))
    whole = HeadClassifier(encoder, head, pooling="mean", is_frozen=True, dropout=p)
    kept = features(whole, data, weights="dropout of a head")
    linear, (vector,) = head.layers, kept.vectors
    mean = (linear.weight @ vector + linear.bias).detach()
    variance = (p / (1 - p) * (linear.weight**2 @ vector**2)).detach()
    many = np.zeros(4000, int)
    with torch.no_grad():
        for classifier, batch in ((whole, data), (whole, kept)):
            torch.testing.assert_close(classifier.eval()(batch).logits[0], mean, atol=1e-5, rtol=1e-4)
            logits = classifier.train()(batch.take(many)).logits
            assert ((logits.mean(0) - mean).abs() < 4 * (variance / len(many)).sqrt()).all()
            torch.testing.assert_close(logits.var(0), variance, rtol=0.1, atol=0)


# Fine-tuning as a GPU does it, on a CPU: texts in rows of their own, and memory that runs out.
CPU = torch.device("cpu")


def test_rows_are_padded_by_hand():
    data = Encoded.from_lists([[5, 6, 7], [8]], [0, 1])
    layout = lay_out(data, 9, CPU)
    assert layout.input_ids.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert layout.position_ids.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert layout.starts.tolist() == [0, 3, 3, 4, 6]
    states = torch.arange(6.0)[:, None]
    assert layout.of_texts(states)[..., 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert layout.at(states, torch.tensor([2, 0]))[:, 0].tolist() == [2, 3]
    row = lay_out(data, 9, CPU, in_one_row=True)
    assert (row.input_ids.tolist(), row.position_ids.tolist()) == ([[5, 6, 7, 8]], [[0, 1, 2, 0]])
    assert row.starts.tolist() == [0, 3, 4]
    assert row.at(states, torch.tensor([2, 0]))[:, 0].tolist() == [2, 3]


def classifier_of(family: str, head: str) -> HeadClassifier:
    """As it is off the CPU."""
    encoder = make_encoder(backbone(family))
    encoder.in_one_row = False
    return HeadClassifier(encoder, build_head(parse_head(head), 16, 2), get_head(head).reads)


@contextmanager
def room_for(classifier: HeadClassifier, rows: int, tried: list[int]) -> Iterator[None]:
    """A device on which more than so many vectors do not fit."""

    def refuse(module: torch.nn.Module, args: tuple[Tensor, ...]) -> None:
        tried.append(len(args[0]))
        if tried[-1] > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    handle = classifier.dropout.register_forward_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("head", ["linear", "space", "swipe", "segment-attention"])
def test_predictions_do_not_depend_on_what_fits(head):
    classifier = classifier_of("roberta", head)
    data = examples([2 + number % 9 for number in range(42)])
    if get_head(head).reads == "segments":
        data = segmented(data, [1, 2, 3] * 7)
    data = data.take(range(21))
    expected, tried = predict(classifier, data, 1), list[int]()
    with room_for(classifier, 3, tried), pytest.warns(UserWarning, match="memory ran out with") as warned:
        found = predict(classifier, data, 16)
    assert tried == [16, 8, 4, *[2] * 10, 1]  # the size that fits is kept
    assert [str(each.message).split()[4] for each in warned] == ["16", "8", "4"]
    np.testing.assert_allclose(found.logits, expected.logits, rtol=0, atol=1e-5)
    assert (found.segment_scores is None) == (expected.segment_scores is None)
    for own, other in zip(found.segment_scores or (), expected.segment_scores or (), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-5)


def test_types_reach_a_model_that_has_a_use_for_them():
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16}
    model, types = BertModel(BertConfig(vocab_size=50, **sizes)), [[0, 1, 0], [1, 0]]
    data = Encoded.from_lists([[5, 6, 7], [8, 9]], [0, 1], token_type_ids=types)
    inputs = padded_inputs(model, data)
    assert set(inputs) == {"input_ids", "attention_mask", "token_type_ids"}
    assert inputs["token_type_ids"].tolist() == [[0, 1, 0], [1, 0, 0]]


def test_a_long_document_is_encoded_in_chunks(monkeypatch):
    """So that the memory of training on it is bounded."""
    classifier, sizes = classifier_of("roberta", "swipe"), list[int]()
    encode = classifier._pooled
    monkeypatch.setattr(classifier, "_pooled", lambda batch: sizes.append(len(batch.tokens)) or encode(batch))
    data, one = Encoded.from_lists([[5] * 30] * 300, [0] * 300), np.zeros(1, dtype=np.int64)
    classifier(Segmented(data, one + 300, one, one > 0, one, np.zeros((300, 2), dtype=np.int64)))
    assert len(sizes) == 2
    assert max(sizes) <= TOKENS_PER_CHUNK
