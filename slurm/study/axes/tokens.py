"""Training tokens of a run, as users write them: ``1M``, ``1.5M``, ``2B``, ``30000``."""

from __future__ import annotations

import re
from decimal import Decimal

from base.errors import UsageError, shown

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9}
_WRITTEN = re.compile(r"(?P<number>\d{1,16}(?:\.\d{1,16})?(?:[eE]\+?\d{1,2})?)\s*(?P<unit>[kKMB]?)")
_MOST = 10**15


def read_tokens(value: object) -> int:
    """Read a number of tokens.

    Raises:
        UsageError: If it is none, or no whole number above 0.
    """
    text = str(value).strip().replace("_", "").replace(",", "")
    written = None if isinstance(value, bool) else _WRITTEN.fullmatch(text)
    number = Decimal(written["number"]) * _UNITS[written["unit"].replace("K", "k")] if written else Decimal(0)
    if not 1 <= number <= _MOST or number != int(number):
        raise UsageError(f"{shown(value)} is no number of training tokens; write 1M, 1.5M, 2B or 300000")
    return int(number)


def write_tokens(number: int) -> str:
    """Write a number of tokens as short as it is exact: ``1.5M``."""
    for unit in ("B", "M", "k"):
        scaled = Decimal(number) / _UNITS[unit]
        if 1 <= scaled < 1000 and scaled == round(scaled, 3):
            return f"{scaled.normalize():f}{unit}"
    return str(number)


def num_steps(tokens: int, batch_size: int, block_size: int) -> int:
    """Count the steps that train on so many tokens and no more.

    Raises:
        UsageError: If there are too few for one.
    """
    steps = tokens // (batch_size * block_size)
    if not steps:
        raise UsageError(
            f"tokens {write_tokens(tokens)} are fewer than the {batch_size * block_size:,} of one step "
            f"(train.batch_size {batch_size} x data.block_size {block_size}); name more"
        )
    return steps
