"""``python -m eval.heads``: the registry of classification heads as a table, for given sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from base.command_line import parse_flags
from base.errors import UsageError, run_cli
from base.table import describe_options, format_table

STOCK = (
    "default", "example", "no", "GPT-Neo: W x; RoBERTa: W tanh(V x + c) + b; others: their own", "-",
    "transformers' sequence classifiers",
)  # fmt: skip
"""The row of the head that is no part of the registry: its parameters depend on the architecture."""


@dataclass(frozen=True, kw_only=True)
class HeadsArgs:
    """List the classification heads: what they read, formula, parameters and reference.

    "reads" is what stands for a text: one vector, those of all its tokens, or one for each of its segments.
    "several" says whether examples may have several labels. Parameters are counted for the given sizes,
    biases included.

    python -m eval.heads --hidden-size 768 --num-labels 4

    python -m eval.heads "kan grid_size=10" "mlp match=fourier-kan" --options
    """

    heads: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Only these, each with its options in quotes (default: all at their defaults)."""
    hidden_size: int = 512
    """Width D of the backbone."""
    num_labels: int = 2
    """Number C of labels."""
    options: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Also list the options of each head."""


def table_rows(args: HeadsArgs) -> list[tuple[str, ...]]:
    """Make the table's rows, the header first.

    Raises:
        UsageError: For a size below 1, an unknown head, or an option that it does not have.
    """
    from eval.classification.heads.choice import HeadChoice, parse_head
    from eval.classification.heads.names import DEFAULT_HEAD
    from eval.classification.heads.registry import HEADS, check_head

    for flag, size in (("--hidden-size", args.hidden_size), ("--num-labels", args.num_labels)):
        if size < 1:
            raise UsageError(f"{flag} must be at least 1, got {size}")
    header = ("name", "reads", "several", "formula", "parameters", "reference")
    choices = [check_head(parse_head(text)) for text in args.heads]
    rows: list[tuple[str, ...]] = [header]
    for choice in choices or [HeadChoice(name) for name in (DEFAULT_HEAD, *HEADS)]:
        if choice.name == DEFAULT_HEAD:
            rows.append(STOCK)
            continue
        spec = HEADS[choice.name]
        count = spec.num_params(args.hidden_size, args.num_labels, **dict(choice.options))
        several = "yes" if spec.fits_multi_label else "no"
        rows.append((str(choice), spec.reads, several, spec.formula, f"{count:,}", spec.reference))
    return rows


def main() -> None:
    """Print the table."""
    args = parse_flags(HeadsArgs, prog="python -m eval.heads")
    rows = table_rows(args)
    print(format_table(rows))
    if args.options:
        from eval.classification.heads.registry import HEADS

        shown = dict.fromkeys(row[0].split()[0] for row in rows[1:])
        print(
            "\n" + "\n".join(describe_options(name, HEADS[name].options) for name in shown if name in HEADS)
        )


if __name__ == "__main__":
    run_cli(main)
