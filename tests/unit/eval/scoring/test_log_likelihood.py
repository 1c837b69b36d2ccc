"""Scores against lm-eval's own model, and against stock transformers one text at a time."""

from __future__ import annotations

import copy
import random
import warnings

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BloomConfig,
    BloomForCausalLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    PreTrainedModel,
)

from eval.memory import Budget
from eval.scoring.causal import longest_tree, shared_causal_scores
from eval.scoring.log_likelihood import causal_log_likelihoods, num_positions, pseudo_log_likelihoods
from eval.scoring.text_batches import ScoredText, Scores
from ffn_variants import FFN_VARIANTS, UsageError, build_model
from tests.cases import diagonal_is_fast

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MASK = 9999
# Of activations, which see one number at a time, the usual one.
BLOCKS = ["gelu", *(name for name, spec in FFN_VARIANTS.items() if spec.kind == "block")]
TINY = {"vocab_size": 10_000, "hidden_size": 64, "intermediate_size": 128, "initializer_range": 0.2, **IDS}
CAUSAL = {"num_layers": 2, "num_heads": 2, "max_position_embeddings": 64, "window_size": 24}
ROTARY = {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64}
MASKED = {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 65}


def random_texts(num_texts: int, vocab_size: int, longest: int, seed: int = 0) -> list[ScoredText]:
    """Texts of random tokens that begin alike in many ways, each with its own scored part and words."""
    rng = random.Random(seed)
    texts = []
    for _ in range(num_texts):
        begin = rng.choice(texts).input_ids if texts and rng.random() < 0.7 else [1]
        ids = list(begin[: rng.randint(1, len(begin))])
        ids += [rng.randrange(3, vocab_size - 1) for _ in range(rng.randint(2, longest))]
        ids = ids[: longest + 2]
        start = rng.randint(1, len(ids) - 1)
        words = sorted(rng.randrange(6) for _ in ids)
        texts.append(ScoredText(ids, start, rng.randint(start + 1, len(ids)), words=words))
    return texts


def causal_one_by_one(model: PreTrainedModel, texts: list[ScoredText]) -> Scores:
    """The formula, one text at a time: the sum of log p(token | all tokens before it), in float64."""
    totals, greedy = [], []
    for text in texts:
        ids = torch.tensor([text.input_ids])
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, text.start - 1 : text.end - 1].double()
        targets = ids[0, text.start : text.end]
        totals.append(logits.log_softmax(-1)[torch.arange(len(targets)), targets].sum().item())
        greedy.append(bool((logits.argmax(-1) == targets).all()))
    return Scores(np.array(totals), np.array(greedy))


def masked_one_by_one(
    model: PreTrainedModel, texts: list[ScoredText], mask: int, masking: str = "original"
) -> Scores:
    """The formulas of Salazar et al. 2020 and Kauf and Ivanova 2023, one text at a time, in float64."""
    totals, greedy = [], []
    for text in texts:
        ids = torch.tensor([text.input_ids])
        places = list(range(text.start, text.end))
        copies = ids.repeat(len(places), 1)
        for row, place in enumerate(places):
            for other in range(place, text.end):
                same_word = text.words is not None and text.words[other] == text.words[place]
                if other == place or (masking == "within_word_l2r" and same_word):
                    copies[row, other] = mask
        with torch.no_grad():
            logits = model(input_ids=copies, attention_mask=torch.ones_like(copies)).logits
        logits = logits[torch.arange(len(places)), places].double()
        targets = ids[0, places]
        totals.append(logits.log_softmax(-1)[torch.arange(len(places)), targets].sum().item())
        greedy.append(bool((logits.argmax(-1) == targets).all()))
    return Scores(np.array(totals), np.array(greedy))


def assert_same(found: Scores, expected: Scores) -> None:
    """Scores within 1e-4 nats."""
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(found.is_greedy, expected.is_greedy)


@pytest.mark.parametrize("attention", ["eager", "sdpa", "stock"])
def test_every_attention_of_gpt_neo_sees_the_prefix_only(stock_model, attention):
    torch.manual_seed(0)
    if attention == "stock":
        model = stock_model("causal", 60, 48)
    else:
        sizes = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 16, "initializer_range": 0.5}
        model = build_model("gpt_neo", "gelu", **sizes, **IDS, **CAUSAL).eval()
        model.set_attn_implementation(attention)
    texts = random_texts(50, 60, 40)
    assert any(len(text.input_ids) > CAUSAL["window_size"] + 1 for text in texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = causal_log_likelihoods(model, texts)
    assert_same(found, causal_one_by_one(model, texts))


def test_texts_that_cannot_be_scored_are_refused():
    model = build_model("roberta", "gelu", **{**TINY, "vocab_size": 60}, **MASKED).eval()
    with pytest.raises(ValueError, match="needs the word of every token"):
        pseudo_log_likelihoods(model, [ScoredText([1, 10, 2], 1, 2)], 59, masking="within_word_l2r")
    with pytest.raises(UsageError, match="holds the tokenizer's padding token"):
        pseudo_log_likelihoods(model, [ScoredText([1, 5, 0, 6, 7, 2], 1, 5)], 59)


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "llama"])
def test_any_depth_long_texts_and_scored_parts(family, num_layers):
    torch.manual_seed(num_layers)
    sizes = {"vocab_size": 60, "hidden_size": 8, "intermediate_size": 8, "initializer_range": 0.5, **IDS}
    if family == "gpt_neo":
        depth = {"num_layers": num_layers, "num_heads": 4, "max_position_embeddings": 40, "window_size": 9}
    else:
        # Four heads of size 2: from 6 tokens on a text is too long for the first layer's shared values.
        depth = {"num_hidden_layers": num_layers, "num_attention_heads": 4, "max_position_embeddings": 40}
    model = build_model(family, "gelu", **sizes, **depth).eval()
    texts = random_texts(20, 60, 14)
    if family == "roberta":
        for masking in ("original", "within_word_l2r"):
            expected = masked_one_by_one(model, texts, 59, masking)
            for batch_tokens in (7, 300):
                assert_same(pseudo_log_likelihoods(model, texts, 59, batch_tokens, masking), expected)
        return
    expected = causal_one_by_one(model, texts)
    for batch_tokens in (7, 300):
        assert_same(causal_log_likelihoods(model, texts, batch_tokens), expected)
    with torch.inference_mode():
        for tree_tokens in (1, 12, 1000):
            assert_same(shared_causal_scores(model, texts, Budget(512), tree_tokens), expected)


@pytest.mark.parametrize(("family", "ffn"), diagonal_is_fast(["gpt_neo", "roberta", "llama"], BLOCKS))
@pytest.mark.ci
def test_scores_of_every_variant_are_those_of_single_texts(family, ffn):
    torch.manual_seed(1)
    sizes = {"vocab_size": 50, "hidden_size": 8, "intermediate_size": 16, "max_position_embeddings": 20}
    depth = {"num_hidden_layers": 2, "num_attention_heads": 2}
    model = build_model(family, ffn, **sizes, **depth, **IDS).eval()
    texts = random_texts(12, 50, 8)
    if family == "roberta":
        assert_same(pseudo_log_likelihoods(model, texts, 49, 30), masked_one_by_one(model, texts, 49))
    else:
        assert_same(causal_log_likelihoods(model, texts, 30), causal_one_by_one(model, texts))


def test_no_text_nothing_to_score_and_equal_texts():
    torch.manual_seed(0)
    causal = build_model("gpt_neo", "gelu", **{**TINY, "vocab_size": 60}, **CAUSAL).eval()
    masked = build_model("roberta", "gelu", **{**TINY, "vocab_size": 60}, **MASKED).eval()
    same, nothing = ScoredText([1, 5, 6, 7], 1, 4), ScoredText([1, 5, 6], 2, 2)
    for score in (
        lambda texts: causal_log_likelihoods(causal, texts),
        lambda texts: pseudo_log_likelihoods(masked, texts, 59),
    ):
        assert score([]).log_likelihood.shape == (0,)
        scores = score([same, nothing, ScoredText([1, 5, 6, 8], 1, 4), same])
        assert scores.log_likelihood[1] == 0
        assert scores.log_likelihood[0] == scores.log_likelihood[3] < 0


def test_greedy_marks_the_first_choice():
    torch.manual_seed(0)
    model = build_model("gpt_neo", "gelu", **TINY, **CAUSAL).eval()
    with torch.no_grad():
        best = model(input_ids=torch.tensor([[1]])).logits[0, -1].argmax().item()
    other = (best + 1) % 10_000
    scores = causal_log_likelihoods(model, [ScoredText([1, best], 1, 2), ScoredText([1, other], 1, 2)])
    assert scores.is_greedy.tolist() == [True, False]


def test_bert_and_gpt2_share_as_well():
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 16, "initializer_range": 0.5}
    bert = BertForMaskedLM(BertConfig(**sizes, **{**MASKED, "pad_token_id": 0})).eval()
    gpt2 = GPT2LMHeadModel(
        GPT2Config(vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=64, initializer_range=0.5)
    ).eval()
    texts = random_texts(20, 60, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(pseudo_log_likelihoods(bert, texts, 59), masked_one_by_one(bert, texts, 59))
        assert_same(causal_log_likelihoods(gpt2, texts), causal_one_by_one(gpt2, texts))


class Halved(GPTNeoForCausalLM):
    """A model whose head is not all that follows its backbone."""

    def forward(self, **inputs):
        output = super().forward(**inputs)
        output.logits = output.logits / 2
        return output


SMALL = {"vocab_size": 60, "initializer_range": 0.5}
ODD_MODELS = {
    "another head": (Halved, GPTNeoConfig, {"num_layers": 1, "attention_types": [[["global"], 1]]}),
    # Its positions are distances in the row, which a tree changes.
    "other positions": (BloomForCausalLM, BloomConfig, {"n_layer": 2, "n_head": 2}),
    "other modules": (DistilBertForMaskedLM, DistilBertConfig, {"n_layers": 2, "n_heads": 2}),
}


@pytest.mark.parametrize(
    ("name", "reason"),
    [("another head", "a score moves by"), ("other positions", "Error"), ("other modules", "AttributeError")],
)
def test_a_model_to_which_sharing_does_not_apply_is_refused(name, reason):
    torch.manual_seed(0)
    kind, configure, depth = ODD_MODELS[name]
    model = kind(configure(hidden_size=16, num_heads=2, **SMALL, **depth)).eval()
    is_masked = name == "other modules"
    score, mask = (pseudo_log_likelihoods, (59,)) if is_masked else (causal_log_likelihoods, ())
    with pytest.raises(UsageError, match=f"{kind.__name__} cannot be scored with what.*{reason}"):
        score(model, random_texts(15, 60, 10), *mask)


def test_autocast_does_not_sneak_in():
    torch.manual_seed(0)
    model = build_model("gpt_neo", "gelu", **{**TINY, "vocab_size": 60}, **CAUSAL).eval()
    texts = random_texts(10, 60, 10)
    expected = causal_log_likelihoods(model, texts)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = causal_log_likelihoods(model, texts)
    np.testing.assert_array_equal(found.log_likelihood, expected.log_likelihood)


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_a_model_in_bf16_is_scored_in_bf16_with_its_softmax_in_fp32(family):
    torch.manual_seed(0)
    is_causal = family == "gpt_neo"
    model = build_model(family, "gelu", **TINY, **(CAUSAL if is_causal else MASKED)).eval()
    texts = random_texts(10, 10_000, 10)
    exact, rounded = (
        (causal_log_likelihoods(each, texts) if is_causal else pseudo_log_likelihoods(each, texts, MASK))
        for each in (model, copy.deepcopy(model).to(torch.bfloat16))
    )
    assert 0 < np.abs(rounded.log_likelihood - exact.log_likelihood).max() < 1
    # In a softmax in bf16 all scores of one token would be multiples of 1/32.
    parts = rounded.log_likelihood * 32
    assert (np.abs(parts - np.round(parts)) > 1e-3).any()


def test_num_positions_counts_what_can_be_read():
    causal = build_model("gpt_neo", "gelu", **TINY, **CAUSAL)
    assert (num_positions(causal), longest_tree(causal)) == (64, 24)
    masked = build_model("roberta", "gelu", **TINY, **MASKED)
    assert num_positions(masked) == 64
    masked(input_ids=torch.ones(1, 64, dtype=torch.long))
    with pytest.raises((IndexError, RuntimeError)):
        masked(input_ids=torch.ones(1, 65, dtype=torch.long))
