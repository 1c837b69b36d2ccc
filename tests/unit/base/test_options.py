"""Names, options and how users write them."""

from __future__ import annotations

import pytest

from base.errors import UsageError
from base.options import LONGEST_NAME, check_name, like, parse_option_text, write_option_text

# What a user may call a folder.
GOOD = ["a", "0", "seed3-1a2b", "my-own_run.v2", "größe", "a+b=c@d,50%", "x" * LONGEST_NAME]
BAD = ["", ".", "..", ".a", "-a", "_a", "a/b", "/a", "a b", "a\nb", "a\x1b", "a\0", "a;b", "$a", "a*", "a`b`"]


@pytest.mark.parametrize("name", GOOD)
def test_names(name):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", [*BAD, "a|b", "a>b", "a'b", 'a"b', "a\\b", "a~b", "a#b", "x" * 5000, "ö" * 150]
)
def test_names_that_are_none(name):
    with pytest.raises(ValueError, match="cannot name a folder; give letters, digits and") as told:
        check_name(name)
    assert len(str(told.value)) < 300


# Names with options, as users write heads and variants.
def test_what_is_written_is_read_back() -> None:
    options = {"grid_size": 3, "scale": 0.5, "activation": "gelu"}
    text = write_option_text("kan", options, ["frozen"])
    assert text == "kan activation=gelu grid_size=3 scale=0.5 frozen"
    read = parse_option_text(text, "head", ("frozen",))
    assert (read.name, dict(read.options), read.words) == ("kan", options, ("frozen",))
    assert parse_option_text("  kan   b=1 a=x ", "variant").options == {"b": 1, "a": "x"}


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("kan 3", (), "variant 'kan 3': '3' is no option=value; write for example \"kan option=value\""),
        ("kan frozen", (), "'frozen' is no option=value"),
        ("kan a=", ("frozen",), "'a=' is neither option=value nor frozen"),
        ("kan =3", (), "'=3' is no option=value"),
        ("kan a=1 a=2", (), "a is given twice"),
    ],
)
def test_other_words_are_refused(text: str, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_option_text(text, "variant", words)
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("default", "value", "wanted"),
    [(5, 3.0, "3"), (1.0, 2, "2.0"), (5, 2.5, "2.5"), ("a", 3, "3"), (None, 1, "1")],
)
def test_numbers_take_the_type_of_the_default_where_that_changes_nothing(default, value, wanted) -> None:
    assert str(like(default, value)) == wanted
