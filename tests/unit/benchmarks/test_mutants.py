"""Mutants: each changes one thing, and a suite is told from one that notices nothing."""

from __future__ import annotations

import ast

import pytest

from benchmarks.mutants import mutants, sample

CHANGES = {
    "a < b": ["a <= b"],
    "a == b": ["a != b"],
    "a * b": ["a / b"],
    "a and b": ["a or b"],
    "x = 3": ["x = 4"],
    "x = 0.5": ["x = 1.0"],
    "x = 0.0": ["x = 1.0"],
    "x = True": ["x = False"],
    "not a": ["a"],
    "max(a, b)": ["pass", "min(a, b)"],
    "f(a, b)": ["pass", "f(b, a)"],
    "x[a] = b": ["pass"],
    "a if b else c": ["a if not b else c"],
    # what a user reads is not mutated, nor what a type checker reads
    "x: Literal[1] = y": [],
    "f'{a + b}'": [],
    "'text' + a": [],
}


@pytest.mark.parametrize("source", CHANGES)
def test_each_change_is_of_one_place(source: str) -> None:
    found = sorted(ast.unparse(ast.parse(mutant.source)) for mutant in mutants(source))
    assert found == sorted(CHANGES[source])


def test_kinds_take_turns_and_a_seed_chooses() -> None:
    source = "\n".join(["a < b", "x = 1", "not a"] * 20)
    picked = sample(source, 6, seed=1)
    assert sorted(mutant.kind for mutant in picked) == ["compare"] * 2 + ["constant"] * 2 + ["sign"] * 2
    assert picked == sample(source, 6, seed=1) != sample(source, 6, seed=2)
    assert {mutant.line for mutant in sample(source, 99, seed=1, lines={2, 3})} == {2, 3}
