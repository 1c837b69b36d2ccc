"""What a table or a flag says of its metrics: directions, units, chance, margins, scale; with checks."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import pandas as pd

from base.errors import UsageError, look_up, unknown_name
from scores.metrics import Declared, Metric, Name
from scores.rows import NO_METRIC, run_name
from scores.suites import USUAL_MARGINS, Unit, unit_of

Scale = Literal["percent", "fraction"]
Value = TypeVar("Value")
_SCALES: Mapping[str, Scale] = {name: name for name in get_args(Scale)}
_UNITS: Mapping[str, Unit] = {name: name for name in get_args(Unit)}
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def declared_by_columns(table: pd.DataFrame, origin: str) -> Declared:
    """Read the columns lower_is_better, unit and chance of a table, where it has them.

    Args:
        table: One row a score, as it was read; an empty field says nothing.
        origin: Where it comes from, named in errors.

    Raises:
        UsageError: For a value that is none, or two of one benchmark.
    """
    higher = _column(table, "higher_is_better", origin, _truth)  # as lm-eval has it
    lower = {name: not is_higher for name, is_higher in higher.items()}
    return Declared(
        lower_is_better={**lower, **_column(table, "lower_is_better", origin, _truth)},
        units=_column(table, "unit", origin, _unit),
        chances=_column(table, "chance", origin, number),
    )


def _column(
    table: pd.DataFrame, name: str, origin: str, parse: Callable[[str, str], Value]
) -> Mapping[Name, Value]:
    """Read what a column says of each metric of a benchmark."""
    if name not in table.columns:
        return {}
    values: dict[Name, Value] = {}
    metrics = table["metric"].astype(str) if "metric" in table.columns else [NO_METRIC] * len(table)
    texts = table[name].astype(object).where(table[name].notna(), "").astype(str).str.strip()
    rows = zip(table["benchmark"].astype(str).str.strip(), metrics, texts, strict=True)
    for benchmark, metric, text in dict.fromkeys(row for row in rows if row[2]):
        label = benchmark if metric == NO_METRIC else f"{benchmark} {metric}"
        value = parse(text, f"{name} of {label} in {origin}")
        if (first := values.setdefault((benchmark, metric), value)) != value:
            raise UsageError(f"{origin}: {name} of {label} is both {first} and {value}")
    return values


def _truth(text: str, place: str) -> bool:
    if text.lower() not in _TRUTHS:
        raise UsageError(f"{place} is {text!r}; it must be true or false")
    return _TRUTHS[text.lower()]


def _unit(text: str, place: str) -> Unit:
    return look_up(place, text, _UNITS)


def scale(text: str, place: str) -> Scale:
    """Read a word that is a scale.

    Raises:
        UsageError: If it is none.
    """
    return look_up(f"word in {place}", text, _SCALES)


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


def named_values(texts: Iterable[str], flag: str, read: Callable[[str, str], Value]) -> dict[str, Value]:
    """Read ``loss=0.02 blimp=1``; a value that stands by itself has the name ``""``.

    Args:
        texts: As written after the flag.
        flag: Its name, for errors.
        read: From a text and where it stands to a value.

    Raises:
        UsageError: For a text that is no value, or two of one name.
    """
    by_name: dict[str, Value] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        if name in by_name:
            raise UsageError(f"{flag} says two of {name or 'all others'}; name each metric once")
        by_name[name] = read(value, f"{flag} {name}".strip())
    return by_name


def check_names(declared: Declared, present: Iterable[Any]) -> None:
    """Refuse what flags say of a metric that is not there.

    Args:
        declared: What was said.
        present: Every label of a metric, its benchmark and its names.

    Raises:
        UsageError: Naming the flag, and what is there.
    """
    names = sorted(set(map(str, present)))
    lower = {name for name, is_lower in declared.lower_is_better.items() if is_lower}
    flags = {
        "--margin": declared.margins,
        "--chance": declared.chances,
        "--lower-is-better": lower,
        "--higher-is-better": declared.lower_is_better.keys() - lower,
    }
    for flag, values in flags.items():
        for name in sorted(set(map(str, values)) - set(names)):
            raise unknown_name(f"metric in {flag}", name, names)


LEAST_POINTS = 0.1
"""Below, a margin without a name is hardly one in percentage points: 0.02 is the usual one of a loss."""


def check_margins(metrics: Iterable[Metric], declared: Declared) -> Declared:
    """Refuse a margin in percentage points where nothing is in percent, or that is hardly meant so.

    A small one is that of the only metric, if this is no percentage.

    Args:
        metrics: Those that are compared.
        declared: What was said of them.

    Returns:
        The same, with the name of that metric.

    Raises:
        UsageError: Naming the flag for other units.
    """
    metrics = list(metrics)
    percentages = [metric for metric in metrics if metric.is_percentage]
    if declared.margin is None or (percentages and declared.margin >= LEAST_POINTS):
        return declared
    if len(metrics) == 1 and not percentages and declared.margin < LEAST_POINTS:
        named = {**declared.margins, metrics[0].name: declared.margin}
        return replace(declared, margins=named, margin=None)
    first = next((metric for metric in metrics if not metric.is_percentage), metrics[0])
    usual = declared.margin if percentages else USUAL_MARGINS.get(first.unit or "ratio", "NUMBER")
    raise UsageError(
        f"margin {declared.margin:g} without a name is in percentage points; name the metric that it is of, "
        f"in its unit: --margin {shlex.quote(f'{first.name}={usual}')}"
    )


def check_chances(metrics: Iterable[Metric], declared: Declared) -> None:
    """Refuse what users said that guessing scores where it is no percentage, or written as a fraction.

    Args:
        metrics: Those that are compared.
        declared: What was said of them.

    Raises:
        UsageError: Naming the metric.
    """
    for metric in metrics:
        chance = metric.chance
        if chance is None or chance not in declared.chances.values() or not metric.is_percentage:
            continue
        if 0 < abs(chance) < 1 or abs(chance) > 100 or (metric.unit == "percent" and chance < 0):
            raise UsageError(f"chance {chance:g} of {metric.name} is none in percent; write it so, as 50")


ARM, TASK = ["benchmark", "family", "variant"], ["benchmark", "task", "metric"]
NEAR = 1.5
"""Times a score may differ from the others of its task and be like them."""


class OnlyFractionsError(UsageError):
    """No percentage of a table is above 1."""


def in_percent(
    tasks: pd.DataFrame, metrics: Mapping[Any, Metric], scales: Mapping[str, Scale], origin: str
) -> pd.DataFrame:
    """Return scores of which those that count as percentages are so.

    Args:
        tasks: What ``comparable_scores`` returns of a table that somebody wrote.
        metrics: What the scores of each benchmark are.
        scales: What the user said they are, by benchmark or metric; ``""`` is about all others.
        origin: Where they come from, named in errors.

    Raises:
        UsageError: For an arm that looks like fractions where nobody said what it is, a fraction above 1, or
            a name of no percentage.
    """
    is_percent = tasks["benchmark"].map(lambda name: metrics[name].is_percentage).astype(bool)
    said = said_scales(tasks, scales)
    _refuse_other_names(tasks, is_percent, scales, origin)
    sizes = tasks.assign(size=tasks["score"].abs())
    are_fractions = is_percent & (said == "fraction")
    _refuse_mixtures(sizes[is_percent & (said == "")], origin)
    _refuse_fractions(sizes[is_percent], said[is_percent] == "", origin)
    tasks = tasks.assign(score=tasks["score"].where(~are_fractions, 100 * tasks["score"]))
    _refuse_outside(tasks[is_percent], origin)
    return tasks


def small_percentages(tasks: pd.DataFrame, scales: Mapping[str, Scale]) -> list[str]:
    """Say what is hardly in percent, though a user says so: arguments are those of ``in_percent``."""
    sizes = tasks["score"].abs()[said_scales(tasks, scales) == "percent"]
    largest = sizes.groupby(tasks["benchmark"].astype(str)).max()
    return [
        f"scores of {name} are at most {size:.2g} percent, as --scale percent says; if {size:.2g} is "
        f"{size:.0%}, write --scale fraction"
        for name, size in largest[largest <= 1].items()
    ]


def said_scales(rows: pd.DataFrame, scales: Mapping[str, Scale]) -> pd.Series:
    """Return of each row what was said of its benchmark or metric, ``""`` where nothing was.

    Args:
        rows: With benchmark and metric.
        scales: As of ``in_percent``.
    """
    names = (_names_of(*place) for place in zip(rows["benchmark"], rows["metric"], strict=True))
    words = [next((scales[name] for name in (*of_row, "") if name in scales), "") for of_row in names]
    return pd.Series(words, rows.index, dtype=str)


def _names_of(benchmark: Any, metric: str) -> tuple[str, ...]:
    """Under what names a row's scale may be said; a benchmark may stand apart by its head."""
    return str(benchmark), getattr(benchmark, "name", str(benchmark)), metric


def _refuse_other_names(
    tasks: pd.DataFrame, is_percent: pd.Series, scales: Mapping[str, Scale], origin: str
) -> None:
    places = list(zip(tasks["benchmark"], tasks["metric"], is_percent, strict=True))
    percentages = {name for *place, is_one in places for name in _names_of(*place) if is_one}
    for name, scale in scales.items():
        if name and name not in {name for *place, _ in places for name in _names_of(*place)}:
            raise unknown_name("metric in --scale", name, sorted({str(place[0]) for place in places}))
        if name not in percentages and (name or not percentages):
            what = f"{name} is no percentage" if name else "no score is a percentage"
            raise UsageError(f"{origin}: {what}; leave out --scale {f'{name}={scale}' if name else scale}")


def _refuse_outside(percentages: pd.DataFrame, origin: str) -> None:
    """Refuse what is above 100, or below 0 and no correlation."""
    lowest = np.where(percentages["metric"].map(unit_of) == "correlation", -100, 0)
    for _, row in percentages[~percentages["score"].between(lowest, 100)].head(1).iterrows():
        raise UsageError(
            f"{origin}: {row.benchmark} of {run_name((row.family, row.variant, row.seed))} is {row.score:g} "
            "percent; correct it, name in --scale what is a fraction, or write ratio in a column unit"
        )


def _refuse_fractions(percentages: pd.DataFrame, is_unsaid: pd.Series, origin: str) -> None:
    """Refuse an arm, and a task over all arms, of which no score is above 1, unless all are 0."""
    of_all = bool((percentages["size"] <= 1).all())
    for keys in (ARM, ["benchmark", "task"]):
        largest = percentages[is_unsaid].groupby(keys)["size"].max()
        for names in largest[(largest > 0) & (largest <= 1)].index[:1]:
            name = "" if of_all else f"{shlex.quote(str(names[0]))}="
            raise (OnlyFractionsError if of_all else UsageError)(
                f"{origin}: no score of {' '.join(map(str, names))} is above 1; write --scale {name}fraction "
                f"to have {'all of ' * of_all}them times 100, or --scale {name}percent if they are that small"
            )


def _refuse_mixtures(percentages: pd.DataFrame, origin: str) -> None:
    """Refuse a task of which some scores are above 1, and the others like them once taken times 100."""
    for (benchmark, task, _), scores in percentages[percentages["size"] > 0].groupby(TASK):
        small, large = (scores["size"][is_small] for is_small in (scores["size"] <= 1, scores["size"] > 1))
        if len(small) and (100 * small).between(large.min() / NEAR, large.max() * NEAR).all():
            row: Any = scores.loc[small.idxmax()]
            raise UsageError(
                f"{origin}: scores of {benchmark} {task} are {row.score:g} ("
                f"{run_name((row.family, row.variant, row.seed))}) and {scores['score'][large.idxmax()]:g}; "
                "write all as percentages"
            )
