"""What several tests share: which long cases are in the fast set, and what is wrong with a run's files."""

import itertools
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from base.files import damage
from base.run.folder_names import RunFolder
from base.run.manifest import read_completion
from ffn_variants import FFN_VARIANTS, FFNSpec, variant_files
from ffn_variants.names import LOADED


def run_damage(run: RunFolder) -> dict[str, str]:
    """By name what is wrong with the files of a finished run; empty for one that is not finished."""
    completion = read_completion(run)
    return damage(run.path, completion.files) if completion else {}


def first_is_fast(values: Iterable[Any]) -> list[Any]:
    """Cases of one value each, of which all but the first are slow."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.slow) for value in others)]


def diagonal_is_fast(*lists: Collection[Any]) -> list[Any]:
    """All combinations; all but so many are slow that every value of every list is in a fast one."""
    longest = max(map(len, lists))
    fast = {tuple(i % len(values) for values in lists) for i in range(longest)}
    places = itertools.product(*(range(len(values)) for values in lists))
    combinations = itertools.product(*lists)
    return [
        pytest.param(*values, marks=() if place in fast else pytest.mark.slow)
        for place, values in zip(places, combinations, strict=True)
    ]


SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 33,
}
"""Sizes of a model of any family that is built and computes in milliseconds."""
SMALL_RUN: dict[str, dict[str, Any]] = {
    "model": {"hidden_size": 32, "intermediate_size": 32, "window_size": 9},
    "data": {"num_stories": 150, "vocab_size": 300, "block_size": 64},
    "optim": {"learning_rate": 0.01, "max_steps": 6},
    "train": {"batch_size": 8, "logging_steps": 2, "save_steps": 2, "torch_compile": False},
}
"""Sections of the configuration of a run that is trained in a second."""
FEW_TASKS = ["transitivity", "wh_gap"]
"""Of the 17 of the embedded pairs; all rows of a run are written again after each."""


def small_run(folder: Path | str, **sections: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Those sections, with changes of some, for runs in a folder."""
    base: dict[str, dict[str, Any]] = SMALL_RUN | {"output": {"runs_dir": str(folder)}}
    return {name: base.get(name, {}) | sections.get(name, {}) for name in base.keys() | sections.keys()}


KINDS = ("gelu", "swish", "swiglu", "kan", "spline-kan", "gr-kan", "moe", "product-key-memory", "no-ffn")
"""One FFN variant of each kind of network, for what does not depend on a variant's formula."""


def in_turn(*lists: Collection[Any], fast: Collection[Any] = ()) -> list[Any]:
    """One case for each value of the longest list, with the other lists' values in turn.

    For what the code does not branch on: each value is in a case, not each combination. A case with one of
    the ``fast`` values is in the fast set, and the others are ``ci``.
    """
    cases = zip(range(max(map(len, lists))), *map(itertools.cycle, lists), strict=False)
    return [
        pytest.param(*values, marks=() if set(fast) & set(values) else pytest.mark.ci) for _, *values in cases
    ]


def kinds_before_the_rest(names: Iterable[str]) -> list[Any]:
    """Cases of one FFN variant each that take seconds: those of ``KINDS`` are ``ci``, the others ``slow``."""
    return [pytest.param(name, marks=pytest.mark.ci if name in KINDS else pytest.mark.slow) for name in names]


def listed(test_file: str, name: str) -> list[Any]:
    """The rows of a name in ``cases.yaml`` beside a test file; what is a list there is a tuple here."""
    rows = yaml.safe_load(Path(test_file).with_name("cases.yaml").read_text(encoding="utf-8"))[name]
    return [_as_tuple(row) for row in rows]


def _as_tuple(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_tuple(own) for key, own in value.items()}
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def spoil(path: Path, how: str) -> None:
    """Damage a file: emptied, halved, zeroed, deleted, one bit flipped, or JSON of another form."""
    if how == "deleted":
        path.unlink()
        return
    content = path.read_bytes()
    half = len(content) // 2
    changed = {
        "emptied": b"",
        "halved": content[:half],
        "zeroed": bytes(len(content)),
        "flipped": content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :],
        "of another form": b'{"a": {"b": {"c": "d"}, "e": [1]}, "f": 3}',
    }
    path.write_bytes(changed[how])


def own_spec(name: str, build: Callable[..., Any], **changes: Any) -> FFNSpec:
    """An activation of a user's, with what a spec has to have besides."""
    fields: dict[str, Any] = {
        "kind": "activation",
        "formula": "x",
        "reference": "none",
        "multiply_adds": lambda d, f: 2 * d * f,
    }
    return FFNSpec(name=name, build=build, **(fields | changes))


def forget_variants(*names: str) -> None:
    """Be a process that never loaded these variants from their files."""
    for name in names:
        FFN_VARIANTS.pop(name, None)
        LOADED.pop(name, None)
    for name in [name for name in sys.modules if name.startswith(variant_files.MODULE)]:
        del sys.modules[name]
