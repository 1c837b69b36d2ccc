"""Which variants are compared with which: ``swish - gelu``, ``relu+silu - prelu+swish``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from base.errors import UsageError
from report.significance.axes import Level
from report.significance.factor import Factor, find_level, noun


@dataclass(frozen=True)
class Contrast:
    """Two groups of variants, written ``relu+silu - prelu+swish``; within a group variants weigh the same."""

    plus: tuple[Level, ...]
    minus: tuple[Level, ...]

    def __str__(self) -> str:
        return f"{self.compared} - {'+'.join(map(str, self.minus))}"

    @property
    def compared(self) -> str:
        """The first group, written out: what is compared with the baseline, where the second one is that."""
        return "+".join(map(str, self.plus))

    def weights(self) -> dict[Level, float]:
        """Weight of each variant: +1 shared over the first group, -1 over the second."""
        return {name: sign / len(arm) for arm, sign in ((self.plus, 1.0), (self.minus, -1.0)) for name in arm}


def parse_contrast(
    text: str, variants: Sequence[Level], baseline: Level | None = None, factor: Factor = "ffn"
) -> Contrast:
    """Read ``a+b - c+d``; ``a`` alone means minus the baseline. Names hold hyphens: spaces around the minus.

    Args:
        text: What to read.
        variants: Every name that there is.
        baseline: What a single group is compared with.
        factor: What a variant is; with ``head`` and ``both``, heads may be written with options in any order
            and at their defaults.

    Raises:
        UsageError: For an unknown variant, an empty side, or a variant named twice.
    """
    sides = [[name.strip() for name in side.split("+")] for side in re.split(r"\s+-\s+", text.strip())]
    if len(sides) == 1 and baseline is not None:
        sides.append([str(baseline)])
    if len(sides) != 2 or not all(name for side in sides for name in side):
        raise UsageError(f"contrast {text!r} is not of the form 'a+b - c+d' (a minus with spaces around it)")
    plus, minus = (tuple(find_level(factor, name, variants) for name in side) for side in sides)
    if len({*plus, *minus}) < len(plus) + len(minus):
        raise UsageError(f"contrast {text!r} names a {noun(factor)} twice; each may stand on one side only")
    return Contrast(plus, minus)
