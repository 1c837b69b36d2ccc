"""Where a run stands in a study: its levels, its stage, and whether the study's file names all runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

Places = tuple[tuple[str, str], ...]
"""Axes of a study beside family and variant, and a run's level on each: ``(("size", "0.5M"),)``."""


Stage = Literal["tune", "main", "shared"]
TUNE: Final = "tune"
"""Runs that learning rates are chosen by."""
MAIN: Final = "main"
"""Runs that are compared."""
SHARED: Final = "shared"
"""Runs at the point that is best for the baseline, beside those of MAIN."""
STAGES: tuple[Stage, ...] = get_args(Stage)
"""In the order in which they are run."""


def is_cut_off(content: Mapping[str, Any]) -> bool:
    """Whether a study's file, as its command writes it, has lost its end, which names the runs."""
    cells, number = content.get("cells"), content.get("num_cells")
    return isinstance(number, int) and (not isinstance(cells, list) or len(cells) < number)
