"""Levels of the FFN: a variant with options and a budget, such as ``kan grid_size=3 ffn_budget=params``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

import ffn_variants
from base.config_input import find
from base.errors import LONGEST_SHOWN, UsageError, shown, unknown_name
from base.families import Budget
from base.options import Value, like, parse_option_text, write_option_text
from base.sections import leaf_fields
from ffn_variants.names import check_registered
from pretrain.config import RunConfig
from pretrain.run.run_folder import RESULT_NEUTRAL
from report.significance.axes import RECIPE, SIZE, TOKENS

BUDGET = "ffn_budget"
_FILE = re.compile(r"(?P<place>\S.*?\.py(?::\w*)?)(?P<options>(?:\s.*)?)")


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
        options = ffn_variants.get_variant(self.name).options if self.options else {}
        changed = {key: value for key, value in self.options if value != options[key].default}
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
    check_registered(name)
    options = dict(parse_option_text(text, "variant").options)
    budget = options.pop(BUDGET, None)
    if budget not in (None, *get_args(Budget)):
        raise unknown_name(f"{BUDGET} of variant {text!r}:", budget, get_args(Budget))
    typed: tuple[tuple[str, Value], ...] = ()
    if options:  # else nothing is asked of the variant, which loads torch
        spec = ffn_variants.get_variant(name)
        resolved = spec.resolve(options)
        typed = tuple((key, like(spec.options[key].default, resolved[key])) for key in options)
    return Level(name, typed, None if budget is None else str(budget))


def split_file(text: str) -> tuple[str, str]:
    """Split ``path/to/mine.py:SPEC alpha=2`` into the place and what stands behind it."""
    match = _FILE.fullmatch(text)
    return (match["place"], match["options"]) if match else (text, "")


def canonical(text: str) -> str:
    """Write a variant with options in the one form that rows have; other texts stay as they are."""
    try:
        return str(read_level(text))
    except UsageError:
        return text


def canonical_contrast(text: str) -> str:
    """Write the levels of a contrast, ``a+b - c``, as rows do."""
    parts = re.split(r"(\s+-\s+|\s*\+\s*)", text)
    return "".join(canonical(part.strip()) if " " in part.strip() else part for part in parts)


def put(name: str, value: Any) -> dict[str, Any]:
    """Return nested values that hold one value."""
    for key in reversed(name.split(".")):
        value = {key: value}
    return value


def has(values: Any, name: str) -> bool:
    """Whether something has a dotted name, if only None."""
    section, _, key = name.rpartition(".")
    inside = find(values, section) if section else values
    return isinstance(inside, Mapping) and key in inside


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all that is no section, in the order in which it stands."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def settings(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the field that each leaf of a configuration sets, and the leaf itself.

    They are two under ``variants``: ``variants.kan.optim.learning_rate`` sets ``optim.learning_rate``.
    """
    for leaf in leaves(values):
        parts = leaf.split(".")
        yield ".".join(parts[2:] if parts[0] == "variants" else parts), leaf


_UNITS = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9}
_WRITTEN = re.compile(r"(?P<number>\d{1,16}(?:\.\d{1,16})?(?:[eE]\+?\d{1,2})?)\s*(?P<unit>[kKMB]?)")
_MOST = 10**15


def read_tokens(value: object) -> int:
    """Read a number of tokens.

    Raises:
        UsageError: If it is none, or no whole number above 0.
    """
    text = str(value).strip().replace("_", "").replace(",", "")
    written = None if isinstance(value, bool) else _WRITTEN.fullmatch(text)
    number = Decimal(written["number"]) * _UNITS[written["unit"].replace("K", "k")] if written else Decimal(0)
    if not 1 <= number <= _MOST or number != int(number):
        raise UsageError(f"{shown(value)} is no number of training tokens; write 1M, 1.5M, 2B or 300000")
    return int(number)


def write_tokens(number: int) -> str:
    """Write a number of tokens as short as it is exact: ``1.5M``."""
    for unit in ("B", "M", "k"):
        scaled = Decimal(number) / _UNITS[unit]
        if 1 <= scaled < 1000 and scaled == round(scaled, 3):
            return f"{scaled.normalize():f}{unit}"
    return str(number)


def num_steps(tokens: int, batch_size: int, block_size: int) -> int:
    """Count the steps that train on so many tokens and no more.

    Raises:
        UsageError: If there are too few for one.
    """
    steps = tokens // (batch_size * block_size)
    if not steps:
        raise UsageError(
            f"tokens {write_tokens(tokens)} are fewer than the {batch_size * block_size:,} of one step "
            f"(train.batch_size {batch_size} x data.block_size {block_size}); name more"
        )
    return steps


SET_BY_STUDY = {
    "family": "the study's `families` name them",
    "seed": "the study's `seeds` name them",
    "seeds": "the study's `seeds` name them",
    "model.ffn": "the study's `variants` name them",
    "output.study": "the study's `name` is that of the folder",
}
"""What no run of a study may say for itself, and where the study says it."""
_FINITE = ConfigDict(allow_inf_nan=False)
_OF_VARIANTS = ("model.ffn", "model.ffn_file", "model.ffn_options", "model.ffn_budget")


def check_field(name: str) -> None:
    """Refuse an axis that is no field, that is of variants, or that cannot change a result.

    Raises:
        UsageError: Says which.
    """
    if any(name == field or name.startswith(f"{field}.") for field in _OF_VARIANTS):
        raise UsageError(
            f'axes: {name} is no axis of its own; write it under `variants`, such as "kan grid_size=3" or '
            '"kan ffn_budget=params"'
        )
    fields = _fields()
    if name not in fields:
        close = difflib.get_close_matches(name[:LONGEST_SHOWN], fields, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "write section.name, such as optim.learning_rate"
        raise UsageError(f"axes: {shown(name)} is no field of a run's configuration; {hint}")
    section, _, field = name.rpartition(".")
    neutral = RESULT_NEUTRAL.get(section, {})
    if neutral is True or field in neutral:
        raise UsageError(
            f"axes: {name} cannot change what is trained, so all its levels would be one run; leave it out"
        )


def read_value(name: str, value: Any) -> Any:
    """Return a value of a field in the field's type.

    Raises:
        UsageError: If it does not fit.
    """
    kind: Any = _fields()[name].rebuild_annotation()
    try:
        return TypeAdapter(kind, config=_FINITE).validate_python(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise UsageError(f"{name} {shown(value)} does not fit: {problem}") from None


def write_value(value: Any) -> str:
    """Write a field's value as text, which is what a level is in tables: ``0.003``."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if isinstance(value, tuple | list):
        return " ".join(map(write_value, value))
    return str(value)


@lru_cache(maxsize=1)
def _fields() -> dict[str, FieldInfo]:
    """Look up the fields of a run's configuration by their dotted names."""
    return {".".join(path): info for path, info in leaf_fields(RunConfig)}


@dataclass(frozen=True)
class Point:
    """A level of an axis.

    Attributes:
        axis: ``size``, ``recipe``, ``tokens``, or a field by its dotted name.
        level: Its name, as text.
        values: What it sets in a run's configuration, nested.
        tokens: How many a run trains on, where that is what it says.
    """

    axis: str
    level: str
    values: Mapping[str, Any] = field(default_factory=dict)
    tokens: int | None = None

    @property
    def is_named(self) -> bool:
        """Whether its level is a name of several values."""
        return self.axis in (SIZE, RECIPE)


def tokens_points(values: Iterable[Any]) -> tuple[Point, ...]:
    """Return the levels of ``tokens``.

    Raises:
        UsageError: For what is no number of tokens.
    """
    numbers = [read_tokens(value) for value in values]
    return tuple(Point(TOKENS, write_tokens(number), tokens=number) for number in numbers)


def field_points(name: str, values: Iterable[Any]) -> tuple[Point, ...]:
    """Return the levels of a field.

    Raises:
        UsageError: If it can be no axis, or for a value that does not fit.
    """
    check_field(name)
    return tuple(field_point(name, value) for value in values)


def field_point(name: str, value: Any) -> Point:
    """Return one level of a field that exists; ``UsageError`` for a value that does not fit."""
    typed = read_value(name, value)
    return Point(name, write_value(typed), put(name, typed))


def canonical_level(axis: str, text: str) -> str:
    """Write a level of an axis in the one form that rows have; other texts stay as they are."""
    try:
        if axis == TOKENS:
            return write_tokens(read_tokens(text))
        return text if axis in (SIZE, RECIPE) else field_point(axis, text).level
    except UsageError:
        return text
