"""Settings as keywords."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from base.errors import UsageError
from eval.config import EvalConfig
from ffn_ablations.flags_as_keywords import typed_values
from pretrain.config import RunConfig


def test_nested_dotted_and_short_names_find_the_same_fields() -> None:
    nested = typed_values(RunConfig, {"model": {"ffn": "kan"}, "optim": {"max_steps": 3}, "seed": 2})
    dotted = typed_values(RunConfig, {"ffn": "kan", "optim.max_steps": np.int64(3), "seed": 2})
    assert nested.values == dotted.values
    assert nested.values == {("model", "ffn"): "kan", ("optim", "max_steps"): 3, ("seed",): 2}
    assert type(dotted.values["optim", "max_steps"]) is int


def test_options_are_one_value_and_paths_are_texts() -> None:
    found = typed_values(RunConfig, {"model": {"ffn_options": {"grid_size": 5}}, "runs_dir": Path("a") / "b"})
    assert found.values == {("model", "ffn_options"): {"grid_size": 5}, ("output", "runs_dir"): "a/b"}
    files = typed_values(EvalConfig, {"include_path": (Path("c"),), "finetune": {"head": ["linear"]}})
    assert files.values == {("include_path",): ["c"], ("finetune", "head"): ["linear"]}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"fnn": "kan"}, "unknown setting 'fnn', did you mean ffn?"),
        ({"max_steps": 3}, "unknown setting 'max_steps', did you mean optim.max_steps?"),
        ({"optim": {"maxsteps": 3}}, "unknown setting 'optim.maxsteps', did you mean optim.max_steps?"),
        ({"optim": 3}, "optim is a section: give a mapping of its settings, not 3"),
        ({"ffn": "kan", "model": {"ffn": "gelu"}}, "ffn and model.ffn are the same setting; give it once"),
    ],
)
def test_a_mistake_names_what_was_meant(values: dict, said: str) -> None:
    with pytest.raises(UsageError) as told:
        typed_values(RunConfig, values)
    assert str(told.value) == said
