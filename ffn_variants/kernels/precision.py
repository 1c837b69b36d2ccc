"""The dtype of a layer's products: that of autocast, or float32 at least where autocast must not decide."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn


@torch.compiler.assume_constant_result
def autocast_available(device: str) -> bool:
    """Whether a type of device knows autocast; Dynamo of torch 2.11 cannot trace torch's own question."""
    return torch.amp.is_autocast_available(device)


def autocast_dtype(x: Tensor) -> torch.dtype | None:
    """The dtype in which autocast multiplies matrices where x lies; None where there is none."""
    device = x.device.type
    on = autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if on else None


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Compute in the dtypes of the operands where x lies."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if autocast_available(device) else contextlib.nullcontext()


def in_float32(layer: nn.Module, x: Tensor) -> Tensor:
    """Call a layer in float32 at least, with its weights as wide, whatever autocast says.

    The module itself is called, so what was put on it or in its place counts: hooks, adapters.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    floats = {name: p for name, p in layer.named_parameters() if p.is_floating_point()}
    widened = {name: p.to(dtype) for name, p in floats.items() if p.dtype != dtype}
    with without_autocast(x):
        return torch.func.functional_call(layer, widened, (x.to(dtype),)) if widened else layer(x.to(dtype))
