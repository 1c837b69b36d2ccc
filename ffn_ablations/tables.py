"""What calls of the Python API return as data frames, and how names in them are found."""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.typing import DataFrameGroupBy

from base.errors import UsageError, unknown_name
from base.other_names import OtherNames

OTHER_NAMES = OtherNames("column")
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

    def __call__(self, *_: Any, **settings: Any) -> Table:
        if settings:
            raise UsageError("it is a data frame; to_latex(), to_markdown() and to_csv() write it")
        return self

    def summary(self) -> Table:
        """Return mean and sd of scores beside differences: ``ffn_ablations.compare(self).summary()``."""
        return importlib.import_module("ffn_ablations.comparing").compare(self).summary()

    def __repr__(self) -> str:
        width = max(100, pd.get_option("display.width") or 0)
        columns = ("display.max_columns", None, "display.width", width)
        with pd.option_context(*columns, "display.float_format", _short):
            return super().__repr__()

    def groupby(self, by: Any = None, *arguments: Any, **settings: Any) -> Any:  # type: ignore[bad-override]
        """Group as pandas does; of the groups, a benchmark may be taken as a column may."""
        by = self._known(by)
        groups = super(Table, self._headlines(by)).groupby(by, *arguments, **settings)
        groups.__class__ = Groups
        return groups

    def pivot(self, **names: Any) -> pd.DataFrame:  # type: ignore[bad-override]
        """Turn as pandas does; ``values`` may be a benchmark, whose scores are taken.

        Raises:
            UsageError: Where several rows would stand in one place.
        """
        rows, known = self._scores_of("values", names)
        places = [each for role in ("index", "columns") for each in np.ravel(known.get(role, []))]
        if rows.duplicated([each for each in places if each in rows]).any():
            raise UsageError("several rows would stand in one place; pivot_table(...) takes their mean")
        return rows.to_pandas().pivot(**known)

    def pivot_table(self, values: Any = None, *others: Any, **names: Any) -> Any:  # type: ignore[bad-override]
        """Turn and average as pandas does; ``values`` may be a benchmark, whose scores are taken."""
        rows, known = self._scores_of("values", {"values": values, **names})
        turned = [*map(self._known, others), *known.values()]
        return (
            rows._headlines(turned)
            .to_pandas()
            .pivot_table(known.pop("values"), *map(self._known, others), **known)
        )

    def boxplot(self, column: Any = None, **names: Any) -> Any:  # type: ignore[bad-override]
        """Draw as pandas does; ``column`` may be a benchmark, whose scores are taken."""
        rows, known = self._scores_of("column", {"column": column, **names})
        return rows.to_pandas().boxplot(**known)

    def _headlines(self, by: Any) -> Table:
        """Leave out a benchmark's other metrics, which share its name, where rows are told apart by that."""
        names = [each for part in np.atleast_1d(np.array(by, object)) for each in np.ravel(part)]
        by_benchmark = "benchmark" in names and not {"metric", "primary"} & {*map(str, names)}
        return self[self["primary"].astype(bool)] if by_benchmark and "primary" in self.columns else self

    def _scores_of(self, role: str, names: dict[str, Any]) -> tuple[Table, dict[str, Any]]:
        """Return the rows and the columns that are meant by names, of which one may be a benchmark."""
        known = {each: self._known(name) for each, name in names.items()}
        if isinstance(name := known.get(role), str) and name not in self.columns and "score" in self.columns:
            return self[name]._headlines("benchmark"), known | {role: "score"}
        return self, known

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
        columns = {*self.columns}
        if isinstance(key, list) and (absent := [x for x in key if isinstance(x, str) and x not in columns]):
            raise KeyError(str(unknown_name("column", absent[0], [*map(str, self.columns)])))
        if not isinstance(key, str) or key in self.columns:
            return super().__getitem__(key)
        labels = self.index.get_level_values(0)
        names = pd.Index([] if pd.api.types.is_numeric_dtype(labels) else labels.astype(str), dtype=str)
        benchmarks = pd.Index(self["benchmark"] if "benchmark" in self.columns else (), dtype=str)
        found = is_called(names, key)
        is_label = bool(found.any())
        found = found if is_label else is_called(benchmarks, key)
        if not found.any():
            known = [*map(str, self.columns), *names.unique(), *benchmarks.unique()]
            raise KeyError(str(unknown_name("column or row", key, known)))
        return self.iloc[found.argmax()] if is_label and found.sum() == 1 else self.loc[found]


class Groups(DataFrameGroupBy):
    """Groups of a table: ``scores.groupby("ffn")["held-out-loss"]`` are the scores of that benchmark."""

    obj: Any
    keys: Any
    """What the table was grouped by."""

    def __getitem__(self, key: Any) -> Any:
        key = self.obj._known(key)
        names = self.obj["benchmark"].unique() if "benchmark" in self.obj.columns else ()
        if key == "score" and len(names) > 1 and "benchmark" not in np.atleast_1d(self.keys):
            told = f'these are scores of {" and ".join(names)}; take one, as groupby(...)["{names[0]}"]'
            warnings.warn(told, stacklevel=2)
        if not isinstance(key, str) or key in self.obj.columns or "score" not in self.obj.columns:
            return super().__getitem__(key)
        return self.obj[key]._headlines("benchmark").groupby(self.keys)["score"]


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
