"""The stages of a study, by the names that its files give them."""

from __future__ import annotations

from typing import Final, Literal, get_args

Stage = Literal["tune", "main", "shared"]
TUNE: Final = "tune"
"""Runs that learning rates are chosen by."""
MAIN: Final = "main"
"""Runs that are compared."""
SHARED: Final = "shared"
"""Runs at the point that is best for the baseline, beside those of MAIN."""
STAGES: tuple[Stage, ...] = get_args(Stage)
"""In the order in which they are run."""
