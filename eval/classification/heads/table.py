"""The registry of heads as a table, with their parameters for given sizes."""

from __future__ import annotations

from collections.abc import Sequence

from base.errors import UsageError
from eval.classification.heads.layers import count_parameters
from scores.heads.registry import (
    DEFAULT_HEAD,
    HEAD_NAMES,
    HEADS,
    HeadChoice,
    check_head,
    parse_head,
)

LARGEST = 1_000_000
"""Beyond any model; counts are made by building a head."""

STOCK = (
    "default", "example", "no", "GPT-Neo: W x; RoBERTa: W tanh(V x + c) + b; others: their own", "-",
    "transformers' sequence classifiers",
)  # fmt: skip
"""The row of the head that is no part of the registry: its parameters depend on the architecture."""


def table_rows(heads: Sequence[str], hidden_size: int, num_labels: int) -> list[tuple[str, ...]]:
    """Make the table's rows, the header first.

    Args:
        heads: As a user writes them; none for all.
        hidden_size: D of the backbone.
        num_labels: C.

    Raises:
        UsageError: For a size below 1, an unknown head, or an option that it does not have.
    """
    for flag, size in (("--hidden-size", hidden_size), ("--num-labels", num_labels)):
        if not 1 <= size <= LARGEST:
            raise UsageError(f"{flag} must be from 1 to {LARGEST:,}, got {size}")
    header = ("name", "reads", "several", "formula", "parameters", "reference")
    choices = [check_head(parse_head(text)) for text in heads] or [HeadChoice(name) for name in HEAD_NAMES]
    return [header, *(_row(choice, hidden_size, num_labels) for choice in choices)]


def _row(choice: HeadChoice, hidden_size: int, num_labels: int) -> tuple[str, ...]:
    if choice.name == DEFAULT_HEAD:
        return STOCK
    spec = HEADS[choice.name]
    count = count_parameters(choice, hidden_size, num_labels)
    several = "yes" if spec.fits_multi_label else "no"
    return (str(choice), spec.reads, several, spec.formula, f"{count:,}", spec.reference)
