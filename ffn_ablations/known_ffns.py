"""FFNs and suites as tables, an FFN alone or in a model, and whether one of your own is sound."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from typing import Any

import pandas as pd
from torch import nn
from transformers import PreTrainedModel

from base.errors import UsageError
from base.families import Budget
from ffn_ablations.flags_as_keywords import KeywordError, meant, one_line_errors, read_keywords
from ffn_ablations.own_values import ffn_settings, settings_of_pair
from ffn_ablations.runs import Run, as_html
from ffn_ablations.tables import Table
from ffn_variants import swap
from ffn_variants.check import problems
from ffn_variants.list_variants import TableArgs, table_rows
from ffn_variants.registry import build_ffn, get_variant
from ffn_variants.spec import HIDDEN_NAMES, INNER_NAMES, FFNSpec
from ffn_variants.variant_files import find_variant
from scores.suites import SUITES


class Variants(Table):
    """Variants by name, as ``variants()["kan"]``; iterating gives the names."""

    def __contains__(self, name: object) -> bool:  # type: ignore[bad-override]
        return name in self.index or name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.index)

    def keys(self) -> pd.Index:
        return self.index

    def to_string(self, *arguments: Any, **settings: Any) -> Any:  # type: ignore[bad-override]
        return self.to_pandas().to_string(*arguments, **settings)  # which iterates over columns


@one_line_errors()
def variants(hidden_size: int | str = 512, intermediate_size: int = 1024, **settings: Any) -> Variants:
    """List the FFN variants by name: kind, formula, parameters, FLOPs/token, reference, options.

    Args:
        hidden_size: Width of the model that the numbers are for; a text, as ``"*kan*"``, takes those of such
            a name.
        intermediate_size: Width inside its FFN.
        **settings: ``ffn_budget="params"`` takes the width at which each has as many as gelu, in a column F.

    Raises:
        UsageError: For a size that cannot be.
    """
    if isinstance(hidden_size, str):
        every = variants(intermediate_size=intermediate_size, **settings)
        return Variants(every[[fnmatch(name, hidden_size) for name in every]])
    sizes = {"hidden_size": hidden_size, "intermediate_size": intermediate_size}
    header, *rows = table_rows(read_keywords(TableArgs, {**sizes, **settings}))
    names, cells = [row[0] for row in rows], [row[1:] for row in rows]
    frame = pd.DataFrame(cells, columns=list(header[1:]), index=names)
    numbers = [name for name in ("F", "parameters", "FLOPs/token") if name in frame]
    without_commas = frame[numbers].apply(lambda column: column.str.replace(",", ""))
    numeric = without_commas.apply(pd.to_numeric, errors="coerce").convert_dtypes()
    options = ({key: each.default for key, each in get_variant(name).options.items()} for name in frame.index)
    frame = frame.assign(**numeric, options=list(options))  # type: ignore[bad-argument-type]
    return Variants(frame.rename_axis("variant"))


def suites() -> Table:
    """List what ``evaluate`` scores: its kind, and what it is made of."""
    rows = [(each.kind, each.label) for each in SUITES.values()]
    return Table(rows, columns=["kind", "about"], index=pd.Index(SUITES, name="suite"))


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
    spec, of_name = _spec_and_options(name)
    hidden_size = _width(HIDDEN_NAMES, options, hidden_size)
    intermediate_size = _width(INNER_NAMES, options, intermediate_size)
    if hidden_size is None:
        raise UsageError("hidden_size is missing, the width of what goes in and comes out")
    return build_ffn(spec.name, hidden_size, intermediate_size or 4 * hidden_size, **of_name, **options)


def _spec_and_options(ffn: Any) -> tuple[FFNSpec, dict[str, Any]]:
    settings = settings_of_pair(ffn)
    return find_variant(settings["ffn"]), settings.get("ffn_options", {})


def _width(names: Iterable[str], settings: dict[str, Any], width: int | None) -> int | None:
    """Take a width out of settings, by whichever of its names is there."""
    return next((settings.pop(name) for name in names if name in settings), width)


@one_line_errors()
def swap_ffn(
    model: Any,
    ffn: Any,
    *,
    ffn_options: Mapping[str, Any] | None = None,
    ffn_budget: Budget = "width",
    **width: int,
) -> PreTrainedModel:
    """Return a copy of a model with another FFN, and with all weights outside of it.

    Args:
        model: A language model of transformers, GPT-Neo, RoBERTa, T5 or Llama, another whose blocks have
            their FFN as ``mlp``, as GPT-2 and Qwen, or a ``Run``.
        ffn: What ``train`` takes: a name, a class, ``("kan", {"grid_size": 3})``.
        ffn_options: Options of the FFN.
        ffn_budget: ``"params"`` takes the width with as many parameters as gelu at that width.
        **width: ``intermediate_size``; left out it is the model's.

    Returns:
        A new model in evaluation mode, as of ``ffn_variants.swap.swap_ffn``, which says what another
        architecture has not.

    Raises:
        UsageError: For another model, an unknown FFN or option, or a width below 1.
    """
    spec, options = _spec_and_options(ffn)
    budget: Any = width.pop("budget", ffn_budget)
    given: Any = {"intermediate_size": _width(INNER_NAMES, width, None), "budget": budget}
    if width:
        told = meant(next(iter(width)), ()) or "it takes ffn_options, ffn_budget, intermediate_size"
        raise KeywordError(f"unknown keyword {next(iter(width))!r}; {told}")
    stock = model.model if isinstance(model, Run) else model
    changed = swap.swap_ffn(stock, spec.name, ffn_options=options | {**(ffn_options or {})}, **given)
    if not isinstance(model, Run):
        print("note: swap_ffn returns a new model; the one given stays as it is", file=sys.stderr)
    return changed


@one_line_errors()
def register(name: Any, ffn: Any = None) -> Any:
    """Add a variant for the life of this process: its name then works wherever a variant is named.

    Args:
        name: Lower case, with dashes. Without ``ffn`` the FFN itself, an ``FFNSpec`` or a class, which is
            named as by ``train``.
        ffn: What ``train`` takes, but no name.

    Returns:
        The FFN; for a name alone the decorator of it.

    Raises:
        UsageError: If it is none, or has the name of a variant that was not given in this process.
    """
    name, ffn = ("", name) if ffn is None else (name, ffn)
    if isinstance(ffn, str):
        return partial(register, ffn)
    named = replace(ffn, name=name) if name and isinstance(ffn, FFNSpec) else ffn
    ffn_settings(named, name, is_renamed=bool(name))
    return ffn


class Checks(Table):
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
        One row a check: check, passed, and of one that failed the problem and what to do; none after one
        that others would fail with.

    Raises:
        UsageError: If there is no such FFN, or an option does not fit.
    """
    spec, of_ffn = _spec_and_options(ffn)
    options |= of_ffn
    rows = [(label, not problem, problem) for label, problem in problems(spec, options)]
    return Checks(rows, columns=["check", "passed", "problem"])
