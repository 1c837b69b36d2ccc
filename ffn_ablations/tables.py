"""What calls of the Python API return as data frames, and how names in them are found."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from base.errors import unknown_name


class Table(pd.DataFrame):
    """A data frame of which a text that is no column names rows: ``table["swiglu"]``.

    What is made of it, as by ``query``, is a frame of pandas's own.
    """

    def to_frame(self) -> pd.DataFrame:
        """Return it as a frame of pandas's own."""
        return pd.DataFrame(self)

    to_pandas = to_frame

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str) or key in self.columns:
            return super().__getitem__(key)
        names = self.index.get_level_values(0).astype(str)
        if not (found := is_called(names, key)).any():
            raise KeyError(
                str(unknown_name("column or row", key, [*map(str, self.columns), *names.unique()]))
            )
        return self.iloc[found.argmax()] if found.sum() == 1 else self.loc[found]


def is_called(names: pd.Index, name: str) -> Any:
    """Whether each name is this one; where none is, whether it differs in signs and capitals alone."""
    exact = names == name
    return exact if exact.any() else names.map(letters) == letters(name)


def letters(name: str) -> str:
    """Return a name without capitals and the signs between its words: ``MyFFN`` is ``my-ffn``."""
    return re.sub(r"[-_ ]", "", name).lower()
