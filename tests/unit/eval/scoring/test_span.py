"""Scores of encoder-decoders against transformers' own forward pass with labels, one text at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel, T5Config, T5ForConditionalGeneration

from eval.scoring.log_likelihood import span_log_likelihoods
from eval.scoring.scorers import SpanScorer
from eval.scoring.text_batches import ScoredText, Scores
from ffn_variants import FFN_VARIANTS, UsageError, build_model
from pretrain.data.embedded.stories import stories
from pretrain.data.tokenizer import add_sentinels, train_tokenizer

SENTINEL = 58
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, **IDS}


def random_texts(num_texts: int, longest: int = 12) -> list[ScoredText]:
    """``<s>``, a context for some, the scored part, and ``</s>``; some texts stand there twice."""
    rng = random.Random(0)
    texts = []
    for _ in range(num_texts):
        ids = [1, *(rng.randrange(3, 58) for _ in range(rng.randint(1, longest))), 2]
        start = rng.choice([1, 1, rng.randint(1, len(ids) - 2)])
        texts.append(ScoredText(ids, start, len(ids) - 1))
    return [*texts, *texts[:5]]


def by_labels(
    model: PreTrainedModel, read: list[int], labels: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """log p of each label and whether it is the first choice, the decoder's input made by transformers."""
    targets = torch.tensor([labels])
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([read]), labels=targets).logits[0].double()
    chosen = logits.log_softmax(-1)[torch.arange(len(labels)), targets[0]]
    return chosen, logits.argmax(-1) == targets[0]


def one_by_one(model: PreTrainedModel, texts: list[ScoredText]) -> Scores:
    """The formulas, in float64; the sentinel is a label too, and its probability is no part of the score."""
    totals, greedy = [], []
    for text in texts:
        ids = list(text.input_ids)
        read = [*ids[: text.start], SENTINEL, *ids[text.end :]]
        chosen, first = by_labels(model, read, [SENTINEL, *ids[text.start : text.end]])
        total, all_first = chosen[1:].sum().item(), bool(first[1:].all())
        totals.append(total)
        greedy.append(all_first)
    return Scores(np.array(totals), np.array(greedy))


# Of the variants those that are formed differently; the others differ in their FFN alone.
@pytest.mark.parametrize(
    "ffn",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ("kan", "none", "stock")))
        for name in (*FFN_VARIANTS, "stock")
    ],
)
def test_scores_are_those_of_the_formula(ffn):
    torch.manual_seed(1)
    if ffn == "stock":
        sizes = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_heads": 2, "num_layers": 2}
        model: PreTrainedModel = T5ForConditionalGeneration(
            T5Config(**sizes, pad_token_id=0, eos_token_id=2, decoder_start_token_id=0)
        )
    else:
        model = build_model("t5", ffn, **SIZES)
    model.eval()
    texts = random_texts(12)
    expected = one_by_one(model, texts)
    assert np.std(expected.log_likelihood) > 1
    for batch_tokens in (1, 300):
        found = span_log_likelihoods(model, texts, SENTINEL, batch_tokens)
        np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=0, atol=1e-4)
        np.testing.assert_array_equal(found.is_greedy, expected.is_greedy)


def test_a_span_is_a_distribution_over_texts():
    """By the chain rule all continuations of one prefix share what the prefix has."""
    torch.manual_seed(0)
    model = build_model("t5", "gelu", **SIZES).eval()
    texts = [ScoredText([1, 7, token, 2], 1, 3) for token in range(60)]
    together = np.exp(span_log_likelihoods(model, texts, SENTINEL).log_likelihood).sum()
    chosen, _ = by_labels(model, [1, SENTINEL, 2], [SENTINEL, 7])
    assert together == pytest.approx(np.exp(chosen[1].item()), rel=1e-4)


def test_the_context_is_read():
    torch.manual_seed(0)
    model = build_model("t5", "gelu", **SIZES).eval()
    text, other = ScoredText([1, 7, 8, 9, 10, 2], 3, 5), ScoredText([1, 7, 30, 9, 10, 2], 3, 5)
    a, b = span_log_likelihoods(model, [text, other], SENTINEL).log_likelihood
    assert abs(a - b) > 1e-3


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(stories(100, 0)), 300)


@pytest.fixture
def scorer(tokenizer):
    def make(**options) -> SpanScorer:
        torch.manual_seed(0)
        model = build_model(
            "t5", "gelu", **{**SIZES, "vocab_size": len(tokenizer)}, max_position_embeddings=24
        )
        return SpanScorer(model, tokenizer, **options)

    return make


def test_texts_are_scored_by_the_first_sentinel(tokenizer, scorer):
    with pytest.raises(UsageError, match=r"the tokenizer has no <extra_id_0>, which scoring needs"):
        scorer().score_continuations([("", "A dog.")])
    sentinels = add_sentinels(tokenizer)
    pairs = [("", "Tim has a dog."), ("Tim has", " a dog.")]
    lm = scorer()
    found = lm.score_continuations(pairs).log_likelihood
    whole = tokenizer("Tim has a dog.")["input_ids"]
    starts = [1, 1 + len(tokenizer("Tim has", add_special_tokens=False)["input_ids"])]
    texts = [ScoredText(whole, start, len(whole) - 1) for start in starts]
    expected = span_log_likelihoods(lm.model, texts, sentinels[0])
    np.testing.assert_allclose(found, expected.log_likelihood, rtol=1e-6)
    document = "Tim has a dog. " * 8
    (scored,) = lm.score_documents([document])
    assert scored.num_tokens == len(tokenizer(document, add_special_tokens=False)["input_ids"]) > 24
    assert scored.log_likelihood < 0
