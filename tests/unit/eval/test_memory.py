"""Batches, halves of those that do not fit, and the line that says that a single text does not."""

from __future__ import annotations

import warnings

import pytest
import torch

from eval.memory import Budget
from ffn_variants import build_model

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


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


@pytest.mark.parametrize("most", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_what_does_not_fit_is_done_in_halves_and_in_order(count, most):
    tried, budget = list[int](), Budget(8, head_rows=4)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        numbers = budget.in_halves(double_in_batches(budget, count, most, tried))
    assert numbers == [2 * number for number in range(count)]
    assert budget.tokens == 8 >> len(told)
    assert budget.head_rows == max(1, 4 >> len(told))
    assert all(size <= most for size in tried[len(told) :])


def test_the_line_says_what_was_tried():
    budget = Budget(8)
    with pytest.warns(UserWarning, match="memory ran out with 8 at a time; going on with half as many"):
        budget.in_halves(double_in_batches(budget, 8, 4, []))


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


def test_a_cpu_has_the_batches_of_always_and_a_number_of_tokens_is_obeyed():
    model = build_model(
        "gpt_neo",
        "gelu",
        vocab_size=50,
        hidden_size=8,
        intermediate_size=16,
        num_layers=1,
        num_heads=1,
        **IDS,
    )
    assert Budget.of(model) == Budget(2048)
    assert Budget.of(model, 100) == Budget(100)
    # floor(tokens / (length * copies)), one at least: the batches that scores of before were made with.
    assert [Budget(100).texts(*case) for case in ((7,), (7, 3), (200,))] == [14, 4, 1]
