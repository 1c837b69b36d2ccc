"""``ffn-ablations list variants``: the registry as a table, for given sizes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

import ffn_variants
from base.command_line import Positional, parse_flags
from base.errors import UsageError
from base.families import Budget
from base.options import describe_options
from base.printing import format_table
from base.sections import Section
from ffn_variants.known_costs import known
from ffn_variants.names import installed_variants

if TYPE_CHECKING:
    from ffn_variants.spec import FFNSpec

LARGEST = 1_000_000
"""Beyond any model; counts are made by building a network."""


class TableArgs(Section):
    """List the feed-forward variants: kind, formula, parameters, FLOPs and reference.

    Counts are for one feed-forward network at the given sizes, linear layers and biases included. FLOPs are
    those of one token's forward pass, two for each multiply-add of the weights. "activation" stands between
    the stock linear layers, "block" replaces the whole network. Equal sizes are not equal parameter counts;
    --ffn-budget finds the sizes that are, where there are any.

    ffn-ablations list variants kan gr-kan     # these, and what --model.ffn-options may say of them
    """

    names: Positional[tuple[str, ...]] = ()
    """Only these, with their options; else all."""

    hidden_size: int = Field(512, ge=1, le=LARGEST)
    """Width D of the model."""
    intermediate_size: int = Field(1024, ge=1, le=LARGEST)
    """Inner width F of the feed-forward network; with another budget than width that of gelu's."""
    ffn_budget: Budget = "width"
    """params, active-params or flops: give each variant the width at which it has as many as gelu, in column
    F. Active parameters are those that one token meets: fewer than all in moe and product-key-memory."""
    options: bool = False
    """Also list what ffn_options may hold for each variant."""


def table_rows(args: TableArgs) -> list[tuple[str, ...]]:
    """Make the table's rows, the header first."""
    if args.model_copy(update={"options": False}) == TableArgs() and (rows := known().get("rows")):
        return [tuple(row) for row in rows]
    width_column = ("F",) if args.ffn_budget != "width" else ()
    header = ("name", "kind", "formula", *width_column, "parameters", "FLOPs/token", "reference")
    specs = list(map(ffn_variants.get_variant, args.names)) or all_variants()
    return [header, *(_row(args, spec) for spec in specs)]


def all_variants() -> list[FFNSpec]:
    """Return the registry with what installed packages bring; of one that is broken it says so."""
    for name in installed_variants():
        try:
            ffn_variants.get_variant(name)
        except UsageError as error:
            print(f"note: {error}", file=sys.stderr)
    return list(ffn_variants.FFN_VARIANTS.values())


def _row(args: TableArgs, spec: FFNSpec) -> tuple[str, ...]:
    """Make one variant's row; "-" for the numbers of one that cannot be matched."""
    described = (spec.name, spec.kind, spec.formula)
    try:
        width = ffn_variants.matching_width(
            spec.name, {}, args.hidden_size, args.intermediate_size, args.ffn_budget
        )
    except UsageError:
        return (*described, "-", "-", "-", spec.reference)
    width_column = (f"{width:,}",) if args.ffn_budget != "width" else ()
    sizes = (args.hidden_size, width)
    params, flops = spec.num_params(*sizes), spec.flops_per_token(*sizes)
    return (*described, *width_column, f"{params:,}", f"{flops:,}", spec.reference)


def main(args: Sequence[str] | None = None) -> None:
    """Print the table."""
    table = parse_flags(TableArgs, args, prog="ffn-ablations list variants")
    print(format_table(table_rows(table)))
    if table.options or table.names:
        names = table.names or ffn_variants.FFN_VARIANTS
        options = {name: ffn_variants.get_variant(name).options for name in names}
        print("\n" + "\n".join(describe_options(*each) for each in options.items()))
