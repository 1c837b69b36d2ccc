"""What calls of the Python API return as data frames, and how names in them are found."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from base.errors import unknown_name


class Table(pd.DataFrame):
    """A data frame of which a text that is no column names rows: ``table["swiglu"]``; it prints every column.

    Its column ``variant`` is ``ffn``, too. What is made of it, as by ``query``, is a frame of pandas's own.
    """

    def __repr__(self) -> str:
        width = max(100, pd.get_option("display.width") or 0)
        columns = ("display.max_columns", None, "display.width", width)
        with pd.option_context(*columns, "display.float_format", _short):
            return super().__repr__()

    def groupby(self, by: Any = None, *arguments: Any, **settings: Any) -> Any:  # type: ignore[bad-override]
        """Group as pandas does."""
        keys = [self._known(key) for key in by] if isinstance(by, list) else self._known(by)
        return super().groupby(keys, *arguments, **settings)

    def _known(self, key: Any) -> Any:
        return "variant" if isinstance(key, str) and key == "ffn" and key not in self.columns else key

    def to_frame(self) -> pd.DataFrame:
        """Return it as a frame of pandas's own."""
        return pd.DataFrame(self)

    to_pandas = to_frame

    def __getitem__(self, key: Any) -> Any:
        key = self._known(key)
        if not isinstance(key, str) or key in self.columns:
            return super().__getitem__(key)
        names = self.index.get_level_values(0).astype(str)
        if not (found := is_called(names, key)).any():
            rows = [] if isinstance(self.index, pd.RangeIndex) else names.unique()
            raise KeyError(str(unknown_name("column or row", key, [*map(str, self.columns), *rows])))
        return self.iloc[found.argmax()] if found.sum() == 1 else self.loc[found]


def _short(number: float) -> str:
    size = abs(number)
    return f"{number:.0f}" if size >= 1e4 else f"{number:.{3 if size < 1 else 4}g}"


def is_called(names: pd.Index, name: str) -> Any:
    """Whether each name is this one; where none is, whether it differs in signs and capitals alone."""
    exact = names == name
    return exact if exact.any() else names.map(letters) == letters(name)


def letters(name: str) -> str:
    """Return a name without capitals and the signs between its words: ``MyFFN`` is ``my-ffn``."""
    return re.sub(r"[-_ ]", "", name).lower()
