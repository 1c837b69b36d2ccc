"""Scores do not depend on batches: bytes, memory that runs out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from eval.memory import Budget
from eval.scoring.log_likelihood import (
    causal_log_likelihoods,
    pseudo_log_likelihoods,
    span_log_likelihoods,
)
from eval.scoring.text_batches import ScoredText, Scores, batches_of_one_length
from ffn_variants import FAMILIES, build_model

VOCABULARY, MASK = 60, 59
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

Way = Callable[[PreTrainedModel, list[ScoredText], Budget], Scores]
WAYS: dict[str, Way] = {
    "causal": causal_log_likelihoods,
    "masked": lambda model, texts, budget: pseudo_log_likelihoods(
        model, texts, MASK, budget, "within_word_l2r"
    ),
    "span_corruption": lambda model, texts, budget: span_log_likelihoods(model, texts, MASK, budget),
}
CASES = [pytest.param(family, WAYS[spec.objective], id=family) for family, spec in FAMILIES.items()]


def texts_of(count: int) -> list[ScoredText]:
    rng = random.Random(0)
    texts = []
    for _ in range(count):
        ids = [1, *(rng.randrange(3, 58) for _ in range(rng.choice((2, 5, 9)))), 2]
        words = [place // 2 for place in range(len(ids))]
        texts.append(ScoredText(ids, rng.choice((1, 2)), len(ids) - 1, words=words))
    return texts


def model_of(family: str) -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 24, **IDS}
    names = {"gpt_neo": ("num_layers", "num_heads"), "t5": ("num_layers", "num_heads")}
    layers, heads = names.get(family, ("num_hidden_layers", "num_attention_heads"))
    return build_model(family, "gelu", **sizes, **{layers: 2, heads: 2}).eval()


@contextmanager
def memory_for(modules: list[torch.nn.Module], most: int, calls: list[int]) -> Iterator[None]:
    """A device on which no more than so many tokens or vectors fit into these modules."""

    def refuse(module: torch.nn.Module, args: tuple[Tensor, ...]) -> None:
        calls.append(len(args[0]) if args[0].is_floating_point() else args[0].numel())
        if calls[-1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    handles = [module.register_forward_pre_hook(refuse) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def embeddings(model: PreTrainedModel) -> list[torch.nn.Module]:
    """Those of tokens."""
    embedded = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    return [module for module in embedded if module.num_embeddings == VOCABULARY]


def same(found: Scores, expected: Scores) -> None:
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(found.is_greedy, expected.is_greedy)


@pytest.mark.parametrize(("family", "way"), CASES)
@torch.inference_mode()
def test_batches_of_every_size_have_the_scores_of_single_texts(family, way):
    model, texts = model_of(family), texts_of(10)
    expected = way(model, texts, Budget(1))
    for budget in (Budget(7), Budget(10_000), Budget(10_000, head_rows=3)):
        same(way(model, texts, budget), expected)


@pytest.mark.parametrize(("family", "way"), CASES)
@torch.inference_mode()
def test_what_does_not_fit_is_scored_in_halves(family, way):
    model, texts = model_of(family), texts_of(24)
    # A tree of prefixes has 96 tokens, and is read whole.
    most, calls = 100 if way is causal_log_likelihoods else 25, list[int]()
    expected, budget = way(model, texts, Budget(64)), Budget(65536, 8192)
    with memory_for(embeddings(model), most, calls), pytest.warns(UserWarning, match="memory ran out with"):
        found = way(model, texts, budget)
    same(found, expected)
    assert max(calls) > most
    assert budget.tokens < 65536


@torch.inference_mode()
def test_a_head_that_does_not_fit_is_asked_for_fewer_rows():
    model, texts, rows = model_of("roberta"), texts_of(30), list[int]()
    expected, head = WAYS["masked"](model, texts, Budget(1)), model.get_output_embeddings()
    with memory_for([head], 5, rows), pytest.warns(UserWarning, match="memory ran out with"):
        found = WAYS["masked"](model, texts, Budget(65536, 8192))
    same(found, expected)
    assert max(rows) > 5


@pytest.mark.parametrize("most", [0, 4])
@pytest.mark.filterwarnings("ignore:memory ran out")
def test_a_single_text_that_does_not_fit_is_told_and_is_no_other_architecture(most):
    model, texts = model_of("gpt_neo"), texts_of(8)
    if most:
        causal_log_likelihoods(model, texts)  # sharing was compared with whole passes
    with memory_for(embeddings(model), most, []), pytest.raises(torch.OutOfMemoryError):
        causal_log_likelihoods(model, texts)


def test_texts_travel_once_and_in_order():
    texts = texts_of(20)
    seen = dict[int, list[int]]()
    for batch in batches_of_one_length(texts, Budget(30), torch.device("cpu"), masking="within_word_l2r"):
        assert batch.words is not None
        for index, ids, words in zip(batch.indices, batch.ids, batch.words, strict=True):
            seen[int(index)] = ids.tolist()
            assert words.tolist() == texts[index].words
            assert (batch.start, batch.end) == (texts[index].start, texts[index].end)
    assert seen == {number: list(text.input_ids) for number, text in enumerate(texts)}
