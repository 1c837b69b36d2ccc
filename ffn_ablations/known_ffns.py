"""The FFN variants as a table, and whether one of your own is sound; needs the full installation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from torch import nn

from base.errors import UsageError
from ffn_ablations.flags_as_keywords import one_line_errors, read_keywords
from ffn_ablations.own_values import ffn_settings
from ffn_ablations.runs import Framed, as_html
from ffn_variants.check import D, F, problems
from ffn_variants.list_variants import TableArgs, table_rows
from ffn_variants.registry import build_ffn, get_variant
from ffn_variants.variant_files import find_variant


class Variants(Framed):
    """Variants by name, as ``variants()["kan"]``; all else as of ``frame``, which has a row for each."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame.rename_axis("variant")

    def __getitem__(self, key: Any) -> Any:
        is_variant = isinstance(key, str) and key not in self.frame
        return self.frame.loc[get_variant(key).name] if is_variant else self.frame[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.frame.index)

    def __len__(self) -> int:
        return len(self.frame)


@one_line_errors()
def variants(hidden_size: int = 512, intermediate_size: int = 1024, **settings: Any) -> Variants:
    """List the FFN variants by name: name, kind, formula, parameters, FLOPs/token, reference, options.

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
    numeric = without_commas.apply(pd.to_numeric, errors="coerce").convert_dtypes()
    options = ({key: each.default for key, each in get_variant(name).options.items()} for name in frame.index)
    return Variants(frame.assign(**numeric, options=list(options)))  # type: ignore[bad-argument-type]


@one_line_errors()
def ffn(
    name: Any, hidden_size: int | None = None, intermediate_size: int | None = None, **options: Any
) -> nn.Module:
    """Build one feed-forward network, with new weights.

    Args:
        name: What ``train`` takes: a name, a class, an ``FFNSpec``, or ``"mine.py:SPEC"``.
        hidden_size: Width D of what goes in and comes out, (..., D); ``d_model`` is the same.
        intermediate_size: Width inside, or ``d_ff``; None takes four times ``hidden_size``.
        **options: Options of the FFN.

    Raises:
        UsageError: If there is no such FFN, or an option or a size does not fit.
    """
    spec = find_variant(ffn_settings(name)["ffn"])
    hidden_size = options.pop("d_model", hidden_size)
    intermediate_size = options.pop("d_ff", intermediate_size)
    if hidden_size is None:
        raise UsageError("hidden_size is missing, the width of what goes in and comes out")
    return build_ffn(spec.name, hidden_size, intermediate_size or 4 * hidden_size, **options)


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
