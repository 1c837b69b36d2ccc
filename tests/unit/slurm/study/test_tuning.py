"""What a study may say of its tuning, and the line about what it may not."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from base.errors import UsageError
from slurm.study.tune_section import read_tune

RATE = "optim.learning_rate"
GIVEN: dict[str, Any] = {RATE: [1e-3, 3e-4, 3e-3], "seeds": [101, 102]}


def test_what_is_not_said_is_a_grid_that_may_grow_and_a_shared_rate():
    tune = read_tune(GIVEN)
    assert tune.fields == {RATE: (3e-4, 1e-3, 3e-3)}  # in their order
    assert (tune.select, tune.budget, tune.widen, tune.shared) == (
        "held-out-loss", "equal", 2, True,
    )  # fmt: skip
    assert read_tune(None) is None


def test_numbers_that_yaml_takes_for_words_are_numbers():
    text = "{optim.learning_rate: [3e-4, 1e-3, 0.003], seeds: 101-103}"
    tune = read_tune(yaml.safe_load(text))
    assert tune.fields == {RATE: (3e-4, 1e-3, 3e-3)}
    assert tune.seeds == (101, 102, 103)


def test_words_are_not_widened_unless_that_is_asked_for():
    words = {"optim.lr_scheduler_type": ["linear", "cosine"], "seeds": [101]}
    assert read_tune(words).widen == 0
    both = words | {RATE: [1e-3, 3e-3]}
    assert read_tune(both).widen == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({RATE: [1e-3]}, "two or more different values"),
        ({RATE: [1e-3, 1e-3]}, "two or more different values"),
        ({RATE: [1e-3, "cosine"]}, "'cosine' does not fit"),
        ({RATE: 1e-3}, "must be one list of values"),
        ({RATE: {"gelu": [1e-3, 3e-3], "kan": [1e-3]}}, "must be one list of values for all variants"),
        ({"optim.max_steps": [100, 200]}, "decides how long a run is, so the budget cannot be equal"),
        ({"optim.learning_rat": [1e-3, 3e-3]}, "optim.learning_rate"),
        ({"model.hidden_size": [64, 128]}, "changes what is compared or the text"),
        ({"data.block_size": [64, 128]}, "changes what is compared or the text"),
        ({"seeds": [101, 101]}, "named twice"),
        ({"seeds": []}, "give whole numbers"),
        ({"budget": "large"}, "equal"),
        ({"select": "blimp"}, "held-out-loss"),
        ({"rates": [1, 2]}, "rates"),
        ({"fields": {}}, "fields"),
        ({"widen": -1}, "at least 0"),
        ({"method": "successive-halving"}, "method"),
    ],
)
def test_what_cannot_be_tuned_equally_is_refused_in_one_line(change, words):
    with pytest.raises(UsageError, match=re.escape(words)) as told:
        read_tune(GIVEN | change)
    assert "\n" not in str(told.value)
