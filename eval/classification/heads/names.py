"""The names of the heads, and of their options with the defaults, known without loading one."""

from __future__ import annotations

from collections.abc import Mapping
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
OPTION_DEFAULTS: Mapping[str, Mapping[str, int | float | str]] = {
    "mlp": {"width": 128, "match": "none"},
    "fourier-kan": {"grid_size": 5, "init_scale": 1.0},
    "kan": {"grid_size": 5, "spline_order": 3},
    "cheby-kan": {"degree": 4},
    "rbf-kan": {"grid_size": 8, "init_scale": 0.1},
    "gr-kan": {"groups": 0},
    "spline-kan": {"num_knots": 10},
    "swipe": {
        "pooling": "max", "num_layers": 0, "num_heads": 4, "segments": "windows", "window": 128, "stride": 32,
    },
    "space": {"num_dimensions": 3, "intra_weight": 0.001, "inter_weight": 0.0},
}  # fmt: skip
"""Those of the registry, for who names heads as rows do and never builds one."""
