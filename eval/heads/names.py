"""The names of the heads, known without loading one."""

from __future__ import annotations

from typing import Literal, get_args

HeadName = Literal[
    "default", "linear", "mlp", "fourier-kan", "kan", "cheby-kan", "rbf-kan", "gr-kan", "spline-kan", "swipe",
    "space",
]  # fmt: skip
HEAD_NAMES: tuple[str, ...] = get_args(HeadName)
DEFAULT_HEAD = "default"
"""The head that transformers gives a sequence classifier of the backbone's architecture."""
FROZEN = "frozen"
"""Behind a head's name: the backbone keeps its weights."""
