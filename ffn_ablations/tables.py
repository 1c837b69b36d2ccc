"""What calls of the Python API return as data frames, and how names in them are found."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.typing import DataFrameGroupBy

from base.errors import unknown_name

OTHER_NAMES = {
    "ffn": "variant", "std": "sd", "means": "mean", "losses": "loss",
    **dict.fromkeys(("p_values", "pvalues", "p_value", "pvalue"), "p"),
    **dict.fromkeys(("effects", "effect", "differences", "difference", "diff", "estimates"), "estimate"),
}  # fmt: skip
"""What others call columns."""


class Table(pd.DataFrame):
    """A data frame of which a text that is no column names rows: ``table["swiglu"]``; it prints every column.

    Rows of scores are named by their benchmark: ``scores["held-out-loss"]``.

    Columns have the names of others, too: ``ffn``, ``difference``, ``p_value``. A property called as a method
    returns itself.
    """

    @property
    def _constructor(self) -> type[Table]:
        return Table

    def __call__(self, *_: Any) -> Table:
        return self

    def __repr__(self) -> str:
        width = max(100, pd.get_option("display.width") or 0)
        columns = ("display.max_columns", None, "display.width", width)
        with pd.option_context(*columns, "display.float_format", _short):
            return super().__repr__()

    def groupby(self, by: Any = None, *arguments: Any, **settings: Any) -> Any:  # type: ignore[bad-override]
        """Group as pandas does; of the groups, a benchmark may be taken as a column may."""
        groups = super().groupby(self._known(by), *arguments, **settings)
        groups.__class__ = Groups
        return groups

    def pivot(self, **names: Any) -> pd.DataFrame:  # type: ignore[bad-override]
        """Turn as pandas does; ``values`` may be a benchmark, whose scores are taken."""
        rows, known = self._scores_of("values", names)
        return rows.pivot(**known)

    def pivot_table(self, values: Any = None, *others: Any, **names: Any) -> Any:  # type: ignore[bad-override]
        """Turn and average as pandas does; ``values`` may be a benchmark, whose scores are taken."""
        rows, known = self._scores_of("values", {"values": values, **names})
        return rows.pivot_table(known.pop("values"), *map(self._known, others), **known)

    def boxplot(self, column: Any = None, **names: Any) -> Any:  # type: ignore[bad-override]
        """Draw as pandas does; ``column`` may be a benchmark, whose scores are taken."""
        rows, known = self._scores_of("column", {"column": column, **names})
        return rows.boxplot(**known)

    def _scores_of(self, role: str, names: dict[str, Any]) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return the rows and the columns that are meant by names, of which one may be a benchmark."""
        known = {each: self._known(name) for each, name in names.items()}
        if isinstance(name := known.get(role), str) and name not in self.columns and "score" in self.columns:
            return self[name].to_pandas(), known | {role: "score"}
        return self.to_pandas(), known

    def _known(self, key: Any) -> Any:
        if isinstance(key, list):
            return [self._known(each) for each in key]
        ours = OTHER_NAMES.get(key, key) if isinstance(key, str) else key
        names = [*self.columns, *self.index.names] if isinstance(key, str) else []
        return ours if key not in names and ours in names else key

    def to_frame(self) -> Table:
        """Return it, as it is a data frame."""
        return self

    def to_pandas(self) -> pd.DataFrame:
        """Return it as a frame of pandas's own."""
        return pd.DataFrame(self)

    def __getitem__(self, key: Any) -> Any:
        key = self._known(key)
        if isinstance(key, list) and self.index.name in key:
            return self.reset_index()[key]
        if not isinstance(key, str) or key in self.columns:
            return super().__getitem__(key)
        labels = self.index.get_level_values(0)
        has_names = not pd.api.types.is_numeric_dtype(labels)
        benchmarks = self["benchmark"] if "benchmark" in self.columns else ()
        names = labels.astype(str) if has_names else pd.Index(benchmarks, dtype=str)
        if not (found := is_called(names, key)).any():
            known = [*map(str, self.columns), *names.unique()]
            raise KeyError(str(unknown_name("column or row", key, known)))
        return self.iloc[found.argmax()] if has_names and found.sum() == 1 else self.loc[found]


class Groups(DataFrameGroupBy):
    """Groups of a table: ``scores.groupby("ffn")["held-out-loss"]`` are the scores of that benchmark."""

    keys: Any
    """What the table was grouped by."""

    def __getitem__(self, key: Any) -> Any:
        names = self.obj["benchmark"].unique() if "benchmark" in self.obj.columns else ()
        if key == "score" and len(names) > 1 and "benchmark" not in np.atleast_1d(self.keys):
            told = f'these are scores of {" and ".join(names)}; take one, as groupby(...)["{names[0]}"]'
            warnings.warn(told, stacklevel=2)
        if not isinstance(key, str) or key in self.obj.columns or "score" not in self.obj.columns:
            return super().__getitem__(OTHER_NAMES.get(key, key) if isinstance(key, str) else key)
        return self.obj[key].groupby(self.keys)["score"]


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
