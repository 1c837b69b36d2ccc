"""Means with their spread, which tables of papers hold and which cannot be compared as runs.

A test over seeds needs the score of each run. Of a mean nobody knows which of its runs share a seed with
those of another, and its spread may be a standard deviation, an error of the mean or half an interval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

from base.errors import UsageError, shown
from scores.rows import ROW_COLUMNS

_NUMBER = r"[-+]?\d*[.,]?\d+%?[*_]*"
_SPREAD = re.compile(
    rf"\W*{_NUMBER}\s*(?:(?:±|\+/-|\+-|\$?_?\{{?\\pm\$?)\s*{_NUMBER}\}}?\$?|[(\[]±?\s*{_NUMBER}[)\]])\W*"
)
_OF_SPREAD = re.compile(r"(.+?)[\W_]+(std|sd|std_?dev|sem|ci(95)?)\W*", re.IGNORECASE)
WHY = (
    "a mean with its spread has no runs in it, so a test cannot compare it; give one row a run, with columns "
    "variant, seed and its scores"
)
_CURES = (
    (_SPREAD, WHY),
    (re.compile(r"[-+]?\d+,(\d{1,2}|\d{4,})"), "write a decimal point, or ; or tabs between fields"),
    (re.compile(r"[-+]?\d{1,3}([ ,.'\s]\d{3})+([.,]\d+)?"), "write it without signs between thousands"),
    (re.compile(""), "correct or remove it"),
)


def cure_of_cell(cell: str) -> str:
    """Say what to do about a cell that is no number."""
    return next(cure for pattern, cure in _CURES if pattern.fullmatch(cell.strip()) or not pattern.pattern)


def refuse_spreads(table: pd.DataFrame, scores: Iterable[str], origin: str) -> None:
    """Refuse a table of means with spreads: in one cell, or in columns beside each other.

    Args:
        table: Its texts as they were written.
        scores: Its columns that the user called scores; none where nobody said it.
        origin: Where it is from, named in errors.

    Raises:
        UsageError: Naming the first such cell or column, and what to give instead.
    """
    others = [name for name in table.columns if name not in ROW_COLUMNS]
    names = ["score"] if "score" in table.columns else list(scores) or others
    for name in (x for x in names if not pd.api.types.is_numeric_dtype(table[x])):
        if (cells := table[name][table[name].str.strip().str.fullmatch(_SPREAD)]).size:
            place = f"{'' if name == 'score' else f'column {name}, '}{table.index.name} {cells.index[0]}"
            raise UsageError(f"{origin}: score {shown(cells.iloc[0])} in {place} is not a number: {WHY}")
    metrics = {re.sub(r"[\W_]+(mean|avg)\W*$", "", name, flags=re.IGNORECASE) for name in names}
    for name in () if "seed" in table.columns else names:  # a run has a spread over its items
        if (match := _OF_SPREAD.fullmatch(name)) and match[1] in metrics:
            raise UsageError(f"{origin}: {name} is a spread, and no column says seeds: {WHY}")
