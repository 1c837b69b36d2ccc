"""Columns of large tables: functions worked out once a name, and CSV that a spreadsheet opens as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd


def of_each(column: pd.Series, function: Callable[[Any], Any]) -> np.ndarray:
    """(N,) values of a function of each entry of a column without gaps."""
    return of_each_row(column.to_frame(), function)


def of_each_row(table: pd.DataFrame, function: Callable[..., Any]) -> np.ndarray:
    """(N,) values of a function of each row of a table without gaps; rows that are alike share one object."""
    if table.empty:
        return np.empty(0, object)
    codes = table.groupby(list(table.columns), sort=False).ngroup().to_numpy()
    first = ~pd.Series(codes).duplicated().to_numpy()
    values = np.empty(int(first.sum()), object)
    values[:] = [function(*row) for row in table[first].itertuples(index=False, name=None)]
    return values[codes]


# What Excel, LibreOffice and Google Sheets take for the begin of a formula, behind any number of marks.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_MARKED = re.compile(r"'+[=+\-@\t\r]")


def to_csv(table: pd.DataFrame) -> str:
    """Write a table without its index.

    Texts that begin with ``= + - @``, a tab or a carriage return get an apostrophe in front, the sign of
    spreadsheets for text. Numbers stay as they are.
    """
    marked = {name: table[name].astype(object).map(_mark) for name in _texts(table)}
    return table.assign(**marked).to_csv(index=False)


def unmark(table: pd.DataFrame) -> pd.DataFrame:
    """Take the apostrophes of ``to_csv`` off the texts of a table."""
    marked = [name for name in _texts(table) if table[name].astype(str).str.startswith("'").any()]
    table = table.copy()
    for name in marked:
        table[name] = table[name].map(_unmark)
    return table


def _texts(table: pd.DataFrame) -> list[str]:
    is_number = pd.api.types.is_numeric_dtype  # of a Boolean, too
    return [name for name in table.columns if not is_number(table[name])]


def _mark(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def _unmark(value: object) -> object:
    return value[1:] if isinstance(value, str) and _MARKED.match(value) else value
