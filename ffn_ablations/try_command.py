"""``ffn-ablations try``: its flags are read before anything that takes long to import."""

from __future__ import annotations

from collections.abc import Sequence

from base.command_line import parse_flags
from ffn_ablations.try_arguments import TryArgs


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags, and try the layer; returns 1 where a check failed or runs are left."""
    options = parse_flags(TryArgs, args, prog="ffn-ablations try")
    from ffn_ablations.try_layer import try_layer  # torch, without which a mistake in a flag is told

    return try_layer(options)
