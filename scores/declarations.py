"""What a table or a flag says of its outcomes: directions, units, chance, margins and scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args

import pandas as pd

from base.errors import UsageError, unknown_name
from scores.outcome import Declared, Name, Outcome
from scores.rows import NO_METRIC
from scores.suites.spec import USUAL_MARGINS, Unit

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
        chances=_column(table, "chance", origin, number),
    )


def _column(
    table: pd.DataFrame, name: str, origin: str, read: Callable[[str, str], Value]
) -> Mapping[Name, Value]:
    """Read what a column says of each metric of a benchmark."""
    if name not in table.columns:
        return {}
    known: dict[Name, Value] = {}
    metrics = table["metric"].astype(str) if "metric" in table.columns else [NO_METRIC] * len(table)
    texts = table[name].astype(object).where(table[name].notna(), "").astype(str).str.strip()
    rows = zip(table["benchmark"].astype(str).str.strip(), metrics, texts, strict=True)
    for benchmark, metric, text in dict.fromkeys(row for row in rows if row[2]):
        named = benchmark if metric == NO_METRIC else f"{benchmark} {metric}"
        value = read(text, f"{name} of {named} in {origin}")
        if known.setdefault((benchmark, metric), value) != value:
            raise UsageError(f"{origin}: {name} of {named} is both {known[benchmark, metric]} and {value}")
    return known


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
        raise UsageError(f"{place} is {text!r}; it must be a number, without a unit")
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
        if equals and name in named:
            raise UsageError(f"{flag} names {name} twice; name each outcome once")
        if equals:
            named[name] = number(value, f"{flag} {name}")
        else:
            alone.append(number(text, f"{flag} without NAME="))
    if len(alone) > 1:
        raise UsageError(f"{flag} has {len(alone)} numbers without a name; write {flag} NAME=NUMBER for each")
    return named, alone[0] if alone else None


def check_names(declared: Declared, present: Iterable[Any]) -> None:
    """Refuse what flags say of an outcome that is not there.

    Args:
        declared: What was said.
        present: Every name of an outcome, its benchmark and its metrics.

    Raises:
        UsageError: Naming the flag, and what is there.
    """
    known = sorted(set(map(str, present)))
    lower = {name for name, is_lower in declared.lower_is_better.items() if is_lower}
    flags = {
        "--margin": declared.margins,
        "--chance": declared.chances,
        "--lower-is-better": lower,
        "--higher-is-better": declared.lower_is_better.keys() - lower,
    }
    for flag, said in flags.items():
        for name in sorted(set(map(str, said)) - set(known)):
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
    if declared.margin is None or any(outcome.is_percentage for outcome in found):
        return
    first = found[0]
    unit = f" in {first.unit}" if first.unit else " in its unit"
    usual = f"{USUAL_MARGINS[first.unit]:g}" if first.unit in USUAL_MARGINS else "NUMBER"
    raise UsageError(
        f"margin {declared.margin:g} is in percentage points, and no outcome is in percent; name that of "
        f"each outcome{unit}: --margin {first.name}={usual}"
    )


def check_chances(outcomes: Iterable[Outcome], declared: Declared) -> None:
    """Refuse what users said that guessing scores where it is no percentage, or written as a fraction.

    Args:
        outcomes: Those that are compared.
        declared: What was said of them.

    Raises:
        UsageError: Naming the outcome.
    """
    for outcome in outcomes:
        chance = outcome.chance
        if chance is None or chance not in declared.chances.values() or not outcome.is_percentage:
            continue
        if abs(chance) > 100 or (outcome.unit == "percent" and chance < 0):
            raise UsageError(
                f"chance {chance:g} of {outcome.name} is no percentage; it is what guessing scores, as 50"
            )
        if 0 < abs(chance) < 1:
            raise UsageError(
                f"chance {chance:g} of {outcome.name} is a fraction; write it in percent, {100 * chance:g}, "
                "whatever the scale of the scores"
            )
