"""Levels of the FFN: a variant with options and a budget, such as ``kan grid_size=3 ffn_budget=params``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, get_args

from base.errors import UsageError, unknown_name
from base.names import Budget
from base.options import Value, like, parse_option_text, write_option_text
from ffn_variants import get_variant

BUDGET = "ffn_budget"
_FILE = re.compile(r"(?P<place>\S.*?\.py(?::\w*)?)(?P<rest>(?:\s.*)?)")


@dataclass(frozen=True)
class Level:
    """A variant as one study trains it.

    Attributes:
        name: The variant's.
        options: What was given, at its default or not, in the types of the variant's options.
        budget: What is held equal to the baseline's; None leaves it to the configuration.
    """

    name: str
    options: tuple[tuple[str, Value], ...] = ()
    budget: str | None = None

    def __str__(self) -> str:
        """Write it as rows and reports name it: without options at their defaults, the others sorted."""
        known = get_variant(self.name).options
        changed = {key: value for key, value in self.options if value != known[key].default}
        return write_option_text(self.name, changed, [f"{BUDGET}={self.budget}"] if self.budget else [])

    @property
    def values(self) -> dict[str, Any]:
        """What it sets in a run's configuration, beside ``model.ffn``."""
        budget = {BUDGET: self.budget} if self.budget else {}
        options = {"ffn_options": dict(self.options)} if self.options else {}
        return {"model": options | budget} if options or budget else {}


def read_level(text: str) -> Level:
    """Read a variant's name, its options as ``name=value``, and ``ffn_budget=...``, with spaces between.

    Raises:
        UsageError: For an unknown variant or option, a value that does not fit, or what is no option.
    """
    if not text.strip():
        raise UsageError("a variant has no name; ffn-ablations list variants lists all")
    name = text.split()[0]
    if "=" in name:
        raise UsageError(
            f"{name!r} is no FFN variant; quotes keep a variant and its options together, "
            '"kan grid_size=3", and a comma ends it'
        )
    spec = get_variant(name)
    options = dict(parse_option_text(text, "variant").options)
    budget = options.pop(BUDGET, None)
    if budget not in (None, *get_args(Budget)):
        raise unknown_name(f"{BUDGET} of variant {text!r}:", budget, get_args(Budget))
    resolved = spec.resolve(options)
    given = tuple((key, like(spec.options[key].default, resolved[key])) for key in options)
    return Level(name, given, None if budget is None else str(budget))


def split_file(text: str) -> tuple[str, str]:
    """Split ``path/to/mine.py:SPEC alpha=2`` into the place and what stands behind it."""
    found = _FILE.fullmatch(text)
    return (found["place"], found["rest"]) if found else (text, "")


def canonical(text: str) -> str:
    """Write a level as rows do, however its options are written; what is none stays as it is."""
    try:
        return str(read_level(text))
    except UsageError:
        return text


def canonical_contrast(text: str) -> str:
    """Write the levels of a contrast, ``a+b - c``, as rows do."""
    parts = re.split(r"(\s+-\s+|\s*\+\s*)", text)
    return "".join(canonical(part.strip()) if " " in part.strip() else part for part in parts)
