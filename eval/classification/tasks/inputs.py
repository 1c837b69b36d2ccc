"""From a row of a data set to the text or texts that a model reads."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


def read_field(row: Mapping[str, Any], field: str) -> Any:
    """Return a field of a row, or None where it is absent.

    ``turns.utterance`` is the field ``utterance`` in ``turns``; where ``turns`` is a list, of each of its
    members.
    """
    if field in row:
        return row[field]
    value: Any = row
    for name in field.split("."):
        if isinstance(value, list):
            value = [member.get(name) if isinstance(member, Mapping) else None for member in value]
        elif isinstance(value, Mapping):
            value = value.get(name)
        else:
            return None
    return value


def text_parts(value: Any) -> list[str] | None:
    """Return the texts of a field, which holds one or a list of them; None where it holds anything else."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return value
    return None


@dataclass(frozen=True)
class Template:
    """One text of an input: literal text and fields in turns.

    Attributes:
        pieces: Pairs of literal text and the field that follows it; None where none does.
        is_field: Whether it is the bare name of a field, so that a list in that field may be taken for turns.
    """

    pieces: tuple[tuple[str, str | None], ...]
    is_field: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields in it, in order."""
        return tuple(field for _, field in self.pieces if field is not None)

    def render(self, row: Mapping[str, Any]) -> str:
        """Fill in a row's fields; the members of a list are joined by blanks."""
        texts = []
        for literal, field in self.pieces:
            texts.append(literal)
            if field is not None:
                texts.append(" ".join(text_parts(read_field(row, field)) or ()))
        return "".join(texts)


@lru_cache(maxsize=512)
def parse_template(text: str) -> Template:
    """Read the name of a field, or a template such as ``"Question: {question} Answer: {answer}"``.

    Raises:
        ValueError: For a template without a field, with an unnamed one, or with a single brace.
    """
    if "{" not in text and "}" not in text:
        if not text.strip():
            raise ValueError("a text needs the name of a field")
        return Template((("", text),), is_field=True)
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"template {text!r}: {error}; a brace that is text is written twice") from None
    for _, field, spec, conversion in parsed:
        if field == "" or spec or conversion:
            raise ValueError(f"template {text!r}: braces hold the name of a field, as in {{question}}")
    template = Template(tuple((literal, field) for literal, field, _, _ in parsed))
    if not template.fields:
        raise ValueError(f"template {text!r} has no field in it")
    return template
