"""What follows from names alone, worked out once a name: a table has a million rows and few names."""

from __future__ import annotations

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
