"""Which variants are compared with which: ``swish - gelu``, ``relu+silu - prelu+swish``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ffn_variants.errors import UsageError, unknown_name


@dataclass(frozen=True)
class Contrast:
    """Two groups of variants, written ``relu+silu - prelu+swish``; within a group variants weigh the same."""

    plus: tuple[str, ...]
    minus: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'+'.join(self.plus)} - {'+'.join(self.minus)}"

    def weights(self) -> dict[str, float]:
        """Weight of each variant: +1 shared over the first group, -1 over the second."""
        return {name: sign / len(arm) for arm, sign in ((self.plus, 1.0), (self.minus, -1.0)) for name in arm}


def parse_contrast(
    text: str, variants: Sequence[str], baseline: str | None = None, noun: str = "variant"
) -> Contrast:
    """Read ``a+b - c+d``; ``a`` alone means minus the baseline. Names hold hyphens: spaces around the minus.

    Args:
        text: What to read.
        variants: Every name that there is.
        baseline: What a single group is compared with.
        noun: What messages call a variant.

    Raises:
        UsageError: For an unknown variant, an empty side, or a variant named twice.
    """
    sides = [[name.strip() for name in side.split("+")] for side in re.split(r"\s+-\s+", text.strip())]
    if len(sides) == 1 and baseline is not None:
        sides.append([baseline])
    if len(sides) != 2 or not all(name for side in sides for name in side):
        raise UsageError(f"contrast {text!r} is not of the form 'a+b - c+d' (a minus with spaces around it)")
    names = [*sides[0], *sides[1]]
    for name in names:
        if name not in variants:
            raise unknown_name(noun, name, variants)
    if len(set(names)) < len(names):
        raise UsageError(f"contrast {text!r} names a {noun} twice; each may stand on one side only")
    return Contrast(tuple(sides[0]), tuple(sides[1]))
