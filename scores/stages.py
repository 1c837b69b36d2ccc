"""Where a run stands in a study: its places and its stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

Places = tuple[tuple[str, str], ...]
"""Axes of a study beside family and variant, and a run's value on each: ``(("size", "0.5M"),)``."""

Stage = Literal["tune", "main", "shared"]
TUNE: Final = "tune"
"""Runs that learning rates are chosen by."""
MAIN: Final = "main"
"""Runs that are compared."""
SHARED: Final = "shared"
"""Runs at the point that is best for the baseline, beside those of MAIN."""


def is_cut_off(content: Mapping[str, Any]) -> bool:
    """Whether a study's file, as its command writes it, has lost its end, which names the runs."""
    cells, is_counted = content.get("cells"), not content.keys().isdisjoint(("typed", "num_cells"))
    return is_counted and (not isinstance(cells, list) or len(cells) != content.get("num_cells"))
