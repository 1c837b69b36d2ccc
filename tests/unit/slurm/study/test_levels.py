"""Levels of the FFN: one text for what is one, and what each sets."""

from __future__ import annotations

import pytest

from slurm.study.ffn_levels import canonical_contrast, read_level, split_file

ONE = "kan activation=gelu grid_size=3 ffn_budget=params"


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        "kan ffn_budget=params grid_size=3 activation=gelu",
        "  kan   grid_size=3.0 spline_order=3 activation=gelu ffn_budget=params",
    ],
)
def test_one_level_has_one_text(text: str) -> None:
    assert str(read_level(text)) == ONE


def test_an_option_at_its_default_is_set_and_not_named() -> None:
    level = read_level("kan grid_size=5")
    assert str(level) == "kan"
    assert level.values == {"model": {"ffn_options": {"grid_size": 5}}}
    assert read_level("kan").values == {}
    assert read_level("gelu ffn_budget=flops").values == {"model": {"ffn_budget": "flops"}}


def test_contrasts_name_levels_as_rows_do() -> None:
    text = "kan spline_order=3 grid_size=3 + relu - kan  grid_size=5+gelu"
    assert canonical_contrast(text) == "kan grid_size=3 + relu - kan+gelu"
    assert canonical_contrast("relu+silu - thesis-swish+prelu") == "relu+silu - thesis-swish+prelu"


@pytest.mark.parametrize(
    ("text", "place", "rest"),
    [
        ("mine.py:SPEC alpha=2", "mine.py:SPEC", " alpha=2"),
        ("my folder/mine.py:SPEC", "my folder/mine.py:SPEC", ""),
        ("my folder/mine.py", "my folder/mine.py", ""),
        ("kan grid_size=3", "kan grid_size=3", ""),
    ],
)
def test_options_stand_behind_a_file(text: str, place: str, rest: str) -> None:
    assert split_file(text) == (place, rest)
