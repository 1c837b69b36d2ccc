"""Batches, halves of those that do not fit, and the line that says that a single text does not."""

from __future__ import annotations

import warnings

import pytest
import torch

from eval.memory import Budget
from ffn_variants import build_model

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def holds(most: int, tried: list[int]):
    def run(rows: slice) -> list[int]:
        tried.append(rows.stop - rows.start)
        if tried[-1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        return list(range(rows.start, rows.stop))

    return run


@pytest.mark.parametrize("most", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_what_does_not_fit_is_done_in_halves_once_and_in_order(count, most):
    tried, budget = list[int](), Budget(4096)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        parts = list(budget.fit(count, holds(most, tried)))
    assert [row for part in parts for row in part] == list(range(count))
    halvings = len(tried) - len(parts)
    assert len(told) == halvings
    assert budget.tokens == 4096 >> halvings


def test_the_line_says_what_was_tried():
    with pytest.warns(UserWarning, match="memory ran out with 8 at a time; going on with half as many"):
        list(Budget(64).fit(8, holds(4, [])))


def test_other_errors_and_a_single_row_are_raised():
    def broken(rows: slice) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        list(Budget(64).fit(8, broken))
    with pytest.raises(torch.OutOfMemoryError):
        list(Budget(64).fit(1, holds(0, [])))


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
