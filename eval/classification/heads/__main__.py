"""``python -m eval.heads``: the registry of classification heads as a table, for given sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from base.command_line import parse_flags
from base.errors import run_cli
from base.table import describe_options, format_table
from eval.classification.heads.registry import HEADS


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


def main(args: Sequence[str] | None = None) -> None:
    """Print the table."""
    asked = parse_flags(HeadsArgs, args, prog="python -m eval.heads")
    from eval.classification.heads.table import table_rows

    rows = table_rows(asked.heads, asked.hidden_size, asked.num_labels)
    print(format_table(rows))
    if asked.options:
        shown = dict.fromkeys(row[0].split()[0] for row in rows[1:])
        print(
            "\n" + "\n".join(describe_options(name, HEADS[name].options) for name in shown if name in HEADS)
        )


if __name__ == "__main__":
    run_cli(main)
