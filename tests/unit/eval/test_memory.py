"""Batches, halves of those that do not fit, and the line that says that a single text does not."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from eval.memory import Budget, attend_with_one_query


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
        q, k, v = (
            linear(tokens).unflatten(-1, (heads, -1)).movedim(1, 2) for linear in (project, key, value)
        )
        mask = None if visible is None else visible[:, None, None]
        expected = scaled_dot_product_attention(q, k, v, attn_mask=mask)[torch.arange(3), :, at]
        query = project(tokens[torch.arange(3), at]) * 4**-0.5
        found, weight = attend_with_one_query(query, tokens, key, value, heads, visible)
        torch.testing.assert_close(found + weight * value.bias.unflatten(0, (heads, -1)), expected)
        torch.testing.assert_close(weight, torch.ones(3, heads, 1))
