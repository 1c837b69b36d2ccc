"""What a table or a flag says of its outcomes: directions, units, chance, margins and scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args

import pandas as pd

from base.errors import UsageError, unknown_name
from eval.results.outcome import Declared, Outcome
from eval.suites.spec import USUAL_MARGINS, Unit

Scale = Literal["percent", "fraction"]
Value = TypeVar("Value")
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def declared_by_columns(table: pd.DataFrame, origin: str) -> Declared:
    """Read the columns lower_is_better, unit and chance of a table, where it has them.

    Args:
        table: One row a score, as it was read; an empty field says nothing.
        origin: Where it comes from, named in errors.

    Raises:
        UsageError: For a value that is none, or two of one benchmark.
    """
    return Declared(
        lower_is_better=_column(table, "lower_is_better", origin, _truth),
        units=_column(table, "unit", origin, _unit),
        chances=_column(table, "chance", origin, lambda text, place: number(text, place)),
    )


def _column(
    table: pd.DataFrame, name: str, origin: str, read: Callable[[str, str], Value]
) -> Mapping[str, Value]:
    if name not in table.columns:
        return {}
    found: dict[str, Value] = {}
    texts = table[name].astype(object).where(table[name].notna(), "").astype(str).str.strip()
    pairs = zip(table["benchmark"].astype(str).str.strip(), texts, strict=True)
    for benchmark, text in dict.fromkeys(pair for pair in pairs if pair[1]):
        value = read(text, f"{origin}: {name} of {benchmark}")
        if found.setdefault(benchmark, value) != value:
            raise UsageError(f"{origin}: {name} of {benchmark} is both {found[benchmark]} and {value}")
    return found


def _truth(text: str, place: str) -> bool:
    if text.lower() not in _TRUTHS:
        raise UsageError(f"{place} is {text!r}; it must be true or false")
    return _TRUTHS[text.lower()]


def _unit(text: str, place: str) -> Unit:
    if text not in get_args(Unit):
        raise unknown_name(place, text, get_args(Unit))
    return text  # type: ignore[return-value]


def number(text: str, place: str) -> float:
    """Read a finite number.

    Raises:
        UsageError: If it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{place} is {text!r}; it must be a number")
    return value


def named_numbers(texts: Iterable[str], flag: str) -> tuple[dict[str, float], float | None]:
    """Read ``loss=0.02 blimp=1``, and a number that stands by itself.

    Args:
        texts: As written after the flag.
        flag: Its name, for errors.

    Raises:
        UsageError: For a text that is neither, or a second number by itself.
    """
    named: dict[str, float] = {}
    alone: list[float] = []
    for text in texts:
        name, equals, value = text.rpartition("=")
        if equals:
            named[name] = number(value, f"{flag} {name}")
        else:
            alone.append(number(text, flag))
    if len(alone) > 1:
        raise UsageError(f"{flag} has {len(alone)} numbers without a name; write {flag} NAME=NUMBER for each")
    return named, alone[0] if alone else None


def check_names(declared: Declared, present: Iterable[Any], flag: str) -> None:
    """Refuse what is said of an outcome that is not there.

    Args:
        declared: What was said.
        present: Every name of an outcome, its benchmark and its metrics.
        flag: Where it was said.

    Raises:
        UsageError: Naming what is there.
    """
    known = sorted(set(map(str, present)))
    for name in sorted(declared.names() - set(known)):
        raise unknown_name(f"outcome in {flag}", name, known)


def check_margins(outcomes: Iterable[Outcome], declared: Declared) -> None:
    """Refuse a margin in percentage points where nothing is in percent.

    Args:
        outcomes: Those that are compared.
        declared: What was said of them.

    Raises:
        UsageError: Naming the flag for other units.
    """
    found = list(outcomes)
    if declared.margin is None or any(outcome.unit in ("percent", "correlation") for outcome in found):
        return
    first = found[0]
    unit = f" in {first.unit}" if first.unit else ""
    raise UsageError(
        f"margin {declared.margin:g} is in percentage points, and no outcome is in percent; name that of "
        f"each outcome{unit}: --margin {first.name}={USUAL_MARGINS.get(first.unit or 'nats', 0.02):g}"
    )
