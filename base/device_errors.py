"""What a GPU failed with, and what to do about it: ``device_errors.yaml`` has both."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

TYPES = ("RuntimeError", "AcceleratorError", "OutOfMemoryError", "DistBackendError", "DistNetworkError")
"""Names, as this must not import torch."""


LACKS_OF_MEMORY = re.compile("out of memory|STATUS_ALLOC_FAILED|can't allocate memory")
"""In the words of CUDA and Triton, of cuBLAS, and of torch on a CPU."""


def failure_of_device(error: BaseException) -> str | None:
    """Say what a GPU failed with, and what to do, in one line; None for any other error."""
    if type(error).__name__ in TYPES:
        said = str(error).strip().split("\n")[0][:300].partition(". ")[0].rstrip(".")
        table = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
        for pattern, advice in table.items():
            if re.search(pattern, str(error), re.IGNORECASE):
                return f"{said}; {advice}"
    return failure_of_device(error.__cause__) if error.__cause__ else None
