"""The FFN variants as a table, and whether one of your own is sound; needs the full installation."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ffn_ablations.flags_as_keywords import one_line_errors, read_keywords
from ffn_ablations.own_values import ffn_settings
from ffn_ablations.runs import as_html
from ffn_variants.check import D, F, problems
from ffn_variants.list_variants import TableArgs, table_rows
from ffn_variants.variant_files import find_variant


@one_line_errors()
def variants(hidden_size: int = 512, intermediate_size: int = 1024, **settings: Any) -> pd.DataFrame:
    """List the FFN variants by name: name, kind, formula, parameters, FLOPs/token, reference.

    Args:
        hidden_size: Width of the model that the numbers are for.
        intermediate_size: Width inside its FFN.
        **settings: ``ffn_budget="params"`` takes the width at which each has as many as gelu, in a column F.

    Raises:
        UsageError: For a size that cannot be.
    """
    sizes = {"hidden_size": hidden_size, "intermediate_size": intermediate_size}
    header, *rows = table_rows(read_keywords(TableArgs, {**sizes, **settings}))
    frame = pd.DataFrame(rows, columns=list(header), index=[row[0] for row in rows])
    numbers = [name for name in ("F", "parameters", "FLOPs/token") if name in frame]
    without_commas = frame[numbers].apply(lambda column: column.str.replace(",", ""))
    return frame.assign(**without_commas.apply(pd.to_numeric, errors="coerce").convert_dtypes())


class Checks(pd.DataFrame):
    """A row for each check, shown with what to do in full."""

    def __repr__(self) -> str:
        return self.to_string(index=False)

    def _repr_html_(self) -> str:
        return as_html(self)


@one_line_errors()
def check(ffn: Any, **options: float | bool | str) -> Checks:
    """Say whether an FFN does what every FFN must: what the command ``check`` does, in some seconds.

    Args:
        ffn: What ``train`` takes: a class, an ``FFNSpec``, ``"mine.py:SPEC"`` or a name.
        **options: Options of the FFN.

    Returns:
        One row a check: check, passed, and of one that failed the problem and what to do; that of shapes
        alone, if that fails.

    Raises:
        UsageError: If there is no such FFN, or an option does not fit.
    """
    spec = find_variant(ffn_settings(ffn)["ffn"])
    spec.num_params(D, F, **options)
    rows = [(label, not problem, problem) for label, problem in problems(spec, options)]
    return Checks(rows, columns=["check", "passed", "problem"])
