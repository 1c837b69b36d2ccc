"""How messages of commands are worded in Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from base.errors import shown

_FLAG = re.compile(
    r"(\b(?:say|write|add|give|or|with|as|out|set) )?(?<!\S)--(?:[a-z_-]+\.)?([a-z][a-z0-9_-]*)"
    r"( (?!(?:it|the|and|or|for|to|needs|below|runs|is)\b)(?:'[^']*'|[^\s,;:()]*[^\s,;:().]))?"
)
"""A flag in a message, whose last name is the keyword; with what one is told to write behind it."""


def as_keywords(text: str, keywords: Mapping[str, str] = MappingProxyType({})) -> str:
    """Write flags that a text names as keywords: ``--scale fraction`` as ``scale="fraction"``.

    Args:
        text: Of one or several lines; one with a whole command stays as it is.
        keywords: Of flags, those that have another name in Python.
    """

    def keyword(match: re.Match[str]) -> str:
        verb, flag, value = match.groups("")
        key, equals, after = value.strip(" '\"").partition("=")
        quoted = [each if re.fullmatch(r"-?[\d.]+|[A-Z]+", each) else f'"{each}"' for each in (key, after)]
        written = f"={{{quoted[0]}: {quoted[1]}}}" if equals else f"={quoted[0]}" if verb and value else value
        return f"{verb}{keywords.get(as_keyword(flag), as_keyword(flag))}{written}"

    return "\n".join(
        line if re.search(r"(ffn-ablations|python|accelerate) \w", line) else _FLAG.sub(keyword, line)
        for line in text.split("\n")
    )


def shown_briefly(value: object) -> str:
    """Return a value as a message repeats it; of one that takes several lines, what it is."""
    return f"a {type(value).__name__}" if "\n" in repr(value) else shown(value)


def as_keyword(name: str) -> str:
    """Return a flag's name as Python writes it."""
    return name.replace("-", "_")
