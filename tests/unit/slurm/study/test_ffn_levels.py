"""Levels of a study: the FFN's, those of fields and numbers of tokens, as texts and as what each sets."""

import pytest

from base.errors import UsageError
from slurm.study.ffn_levels import (
    canonical_contrast,
    canonical_level,
    field_point,
    find,
    leaves,
    num_steps,
    read_level,
    read_tokens,
    settings,
    split_file,
    write_tokens,
)
from tests.cases import listed

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


@pytest.mark.parametrize(("text", "place", "rest"), listed(__file__, "options behind a file"))
def test_options_stand_behind_a_file(text: str, place: str, rest: str) -> None:
    assert split_file(text) == (place, rest)


@pytest.mark.parametrize(("name", "value", "level", "read"), listed(__file__, "values of levels"))
def test_a_level_is_text_and_sets_the_value(name: str, value: object, level: str, read: object) -> None:
    point = field_point(name, value)
    assert (point.axis, point.level, find(point.values, name)) == (name, level, read)


def test_levels_are_found_however_they_are_written() -> None:
    assert canonical_level("optim.learning_rate", "3e-3") == "0.003"
    assert canonical_level("tokens", "1000k") == "1M"
    assert canonical_level("size", "0.1M") == "0.1M"
    assert canonical_level("optim.learning_rate", "fast") == "fast"


def test_what_a_configuration_sets_is_named_with_and_without_its_variant() -> None:
    values = {"optim": {"learning_rate": 1}, "variants": {"kan": {"model": {"hidden_size": 3, "x": {}}}}}
    in_kan = [f"variants.kan.model.{name}" for name in ("hidden_size", "x")]
    assert list(leaves(values)) == ["optim.learning_rate", *in_kan]
    assert dict(settings(values))["model.hidden_size"] == "variants.kan.model.hidden_size"


@pytest.mark.parametrize(("written", "number", "text"), listed(__file__, "numbers of tokens"))
def test_tokens_are_read_and_written_exactly(written: object, number: int, text: str) -> None:
    assert read_tokens(written) == number
    assert write_tokens(number) == text
    assert read_tokens(text) == number


@pytest.mark.parametrize(
    "written", ["", "M", "1.5", "1T", "-1M", 0, True, [1], "2e15", "1e99M", float("inf")]
)
def test_what_is_no_number_of_tokens_is_refused(written: object) -> None:
    with pytest.raises(UsageError, match="is no number of training tokens"):
        read_tokens(written)


def test_steps_are_whole_and_never_more_than_the_tokens() -> None:
    assert num_steps(1_000_000, 8, 128) == 976  # 976 x 1,024 = 999,424
    with pytest.raises(UsageError, match=r"fewer than the 1,024 of one step"):
        num_steps(1023, 8, 128)
