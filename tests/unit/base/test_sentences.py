"""Words for a sentence."""

from __future__ import annotations

from base.printing import first_few


def test_others_are_counted():
    said = {"": "", "a": "a", "ab": "a; b", "abc": "a; b and 1 more", "wxyz": "w; x and 2 more"}
    assert {names: first_few(list(names), 2, "; ") for names in said} == said
