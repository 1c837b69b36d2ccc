"""What a user may call a folder."""

from __future__ import annotations

import pytest

from base.options import LONGEST_NAME, check_name

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
