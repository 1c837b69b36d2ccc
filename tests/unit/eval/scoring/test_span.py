"""Scores of encoder-decoders against transformers' own forward pass with labels, one text at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from eval.scoring.log_likelihood import span_log_likelihoods
from eval.scoring.scorers import SpanScorer
from eval.scoring.text_batches import ScoredText, Scores
from ffn_variants import UsageError, build_model
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


def one_by_one(model: PreTrainedModel, texts: list[ScoredText]) -> Scores:
    """The formula, in float64, the decoder's input made by transformers.

    The sentinel is a label too, and its probability is no part of the score.
    """
    totals, greedy = [], []
    for text in texts:
        ids = list(text.input_ids)
        read = torch.tensor([[*ids[: text.start], SENTINEL, *ids[text.end :]]])
        labels = torch.tensor([[SENTINEL, *ids[text.start : text.end]]])
        with torch.no_grad():
            logits = model(input_ids=read, labels=labels).logits[0, 1:].double()
        scored = labels[0, 1:]
        totals.append(-cross_entropy(logits, scored, reduction="sum").item())
        greedy.append(bool((logits.argmax(-1) == scored).all()))
    return Scores(np.array(totals), np.array(greedy))


# Of the variants those that are formed differently; the others differ in their FFN alone.
@pytest.mark.parametrize("ffn", ["kan", "none", "stock"])
def test_scores_are_those_of_the_formula(stock_model, ffn):
    torch.manual_seed(1)
    model = stock_model("span_corruption", 60) if ffn == "stock" else build_model("t5", ffn, **SIZES).eval()
    texts = random_texts(12)
    expected = one_by_one(model, texts)
    assert np.std(expected.log_likelihood) > 1
    for batch_tokens in (1, 300):
        found = span_log_likelihoods(model, texts, SENTINEL, batch_tokens)
        np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=0, atol=1e-4)
        np.testing.assert_array_equal(found.is_greedy, expected.is_greedy)


def test_texts_are_scored_by_the_first_sentinel():
    tokenizer = train_tokenizer(iter(stories(100, 0)), 300)
    sizes = {**SIZES, "vocab_size": len(tokenizer) + 100, "max_position_embeddings": 24}
    model = build_model("t5", "gelu", **sizes).eval()
    with pytest.raises(UsageError, match=r"the tokenizer has no <extra_id_0>, which scoring needs"):
        SpanScorer(model, tokenizer).score_continuations([("", "A dog.")])
    sentinels = add_sentinels(tokenizer)
    scorer = SpanScorer(model, tokenizer)
    found = scorer.score_continuations([("", "Tim has a dog."), ("Tim has", " a dog.")]).log_likelihood
    whole = tokenizer("Tim has a dog.")["input_ids"]
    starts = [1, 1 + len(tokenizer("Tim has", add_special_tokens=False)["input_ids"])]
    texts = [ScoredText(whole, start, len(whole) - 1) for start in starts]
    expected = span_log_likelihoods(model, texts, sentinels[0])
    np.testing.assert_allclose(found, expected.log_likelihood, rtol=1e-6)
    document = "Tim has a dog. " * 8
    (scored,) = scorer.score_documents([document])
    assert scored.num_tokens == len(tokenizer(document, add_special_tokens=False)["input_ids"]) > 24
    assert scored.log_likelihood < 0
