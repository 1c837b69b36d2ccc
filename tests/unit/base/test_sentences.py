"""Words for a sentence."""

from __future__ import annotations

import pytest

from base.printing import first_few


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a; b"),
        (["a", "b", "c"], "a; b and 1 more"),
        ("wxyz", "w; x and 2 more"),
    ],
)
def test_others_are_counted(names, said):
    assert first_few(list(names), 2, "; ") == said
