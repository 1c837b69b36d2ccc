"""Scores do not depend on batches: bytes, memory that runs out, halves of those that do not fit."""

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel

from eval.memory import Budget, attend_with_one_query
from eval.scoring.log_likelihood import causal_log_likelihoods, pseudo_log_likelihoods, span_log_likelihoods
from eval.scoring.text_batches import ScoredText, Scores, batches_of_one_length
from ffn_variants import FAMILIES, build_model
from tests.references import assert_same_scores


# Batches, halves of those that do not fit, and the line that says that a single text does not.
def double_in_batches(budget: Budget, count: int, most: int, tried: list[int]):
    """A device on which no more than so many numbers fit."""

    def compute() -> list[int]:
        doubled = []
        for first in range(0, count, budget.tokens):
            batch = range(first, min(first + budget.tokens, count))
            tried.append(len(batch))
            if len(batch) > most:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
            doubled += [2 * number for number in batch]
        return doubled

    return compute


@pytest.mark.parametrize(("count", "most"), [(1, 1), (7, 1), (12, 2), (7, 3), (12, 100)])
def test_what_does_not_fit_is_done_in_halves_and_in_order(count, most):
    tried, budget = list[int](), Budget(8, head_rows=4)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        numbers = budget.in_halves(double_in_batches(budget, count, most, tried))
    assert numbers == [2 * number for number in range(count)]
    assert budget.tokens == 8 >> len(told)
    assert budget.head_rows == max(1, 4 >> len(told))
    assert all(size <= most for size in tried[len(told) :])
    lines = [f"memory ran out with {8 >> n} at a time; going on with half as many" for n in range(len(told))]
    assert [str(warning.message) for warning in told] == lines


def test_other_errors_and_a_single_row_are_raised():
    def broken() -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        Budget(64).in_halves(broken)
    budget = Budget(1)
    with pytest.raises(torch.OutOfMemoryError):
        budget.in_halves(double_in_batches(budget, 1, 0, []))


@pytest.mark.parametrize("count", [1, 255, 256, 511, 512, 600, 5000])
def test_the_head_gets_every_row_once_in_parts_that_are_not_small(count):
    parts = list(Budget(1).parts_for_head(count))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(count))
    assert max(part.stop - part.start for part in parts) < 512
    assert len(parts) == 1 or parts[0].stop >= 256


def test_a_cpu_has_the_batches_of_always_and_a_number_of_tokens_is_obeyed(stock_model):
    model = stock_model("causal", 50)
    assert Budget.of(model) == Budget(2048)
    assert Budget.of(model, 100) == Budget(100)
    # floor(tokens / (length * copies)), one at least: the batches that scores of before were made with.
    assert [Budget(100).texts(*case) for case in ((7,), (7, 3), (200,))] == [14, 4, 1]


def test_one_query_attends_as_in_a_whole_layer() -> None:
    torch.manual_seed(0)
    tokens, heads, at = torch.randn(3, 7, 16), 4, torch.tensor([0, 4, 6])
    project, key, value = (nn.Linear(16, 16) for _ in range(3))
    for visible in (None, torch.arange(7) <= at[:, None]):
        projected = (linear(tokens).unflatten(-1, (heads, -1)) for linear in (project, key, value))
        q, k, v = (each.movedim(1, 2) for each in projected)
        mask = None if visible is None else visible[:, None, None]
        expected = scaled_dot_product_attention(q, k, v, attn_mask=mask)[torch.arange(3), :, at]
        query = project(tokens[torch.arange(3), at]) * 4**-0.5
        found, weight = attend_with_one_query(query, tokens, key, value, heads, visible)
        torch.testing.assert_close(found + weight * value.bias.unflatten(0, (heads, -1)), expected)
        torch.testing.assert_close(weight, torch.ones(3, heads, 1))


# Scores do not depend on batches: bytes, memory that runs out.
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


@pytest.mark.parametrize(("family", "way"), CASES)
@torch.inference_mode()
def test_what_does_not_fit_is_scored_in_halves(family, way):
    model, texts = model_of(family), texts_of(24)
    # A tree of prefixes has 96 tokens, and is read whole.
    most, calls = 100 if way is causal_log_likelihoods else 25, list[int]()
    expected, budget = way(model, texts, Budget(64)), Budget(65536, 8192)
    with memory_for(embeddings(model), most, calls), pytest.warns(UserWarning, match="memory ran out with"):
        found = way(model, texts, budget)
    assert_same_scores(found, expected)
    assert max(calls) > most
    assert budget.tokens < 65536


@torch.inference_mode()
def test_a_head_that_does_not_fit_is_asked_for_fewer_rows():
    model, texts, rows = model_of("roberta"), texts_of(30), list[int]()
    expected, head = WAYS["masked"](model, texts, Budget(1)), model.get_output_embeddings()
    with memory_for([head], 5, rows), pytest.warns(UserWarning, match="memory ran out with"):
        found = WAYS["masked"](model, texts, Budget(65536, 8192))
    assert_same_scores(found, expected)
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
