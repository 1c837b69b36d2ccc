"""Arrays that go to a device while the host goes on; apart from what only names models and loads no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Copy an array to a device. A GPU fetches it from pinned memory, and the host does not wait."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def all_to_device(arrays: Sequence[np.ndarray], device: torch.device) -> list[Tensor]:
    """Copy several arrays to a device as int64, all of them in one copy; shapes stay."""
    flat = np.concatenate([array.ravel() for array in arrays]).astype(np.int64, copy=False)
    parts = to_device(flat, device).split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]
