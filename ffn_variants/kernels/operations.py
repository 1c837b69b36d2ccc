"""What kernels share: names for the functions they are made of, and the dtype of their products.

An operation of a compiled graph takes functions of a module and frozen dataclasses by a text that names them.
A graph holds tensors, numbers and text. The text says where a definition is and what it was made with, so it
means the same in every process: ``ffn_variants.variants.series_kan:FourierBasis:{'grid_size': 5}``.

A layer's products are in the dtype of autocast, or in float32 at least where autocast must not decide.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import operator
from contextlib import AbstractContextManager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

_PLAIN = (bool, int, float, str, type(None))


def _constant_in_graphs(function: FunctionType) -> FunctionType:
    """Mark as ``torch.compiler.assume_constant_result`` does, which imports Dynamo: more than a second."""
    function._dynamo_marked_constant = True  # type: ignore[missing-attribute]
    return function


def name_of(value: Any) -> str | None:
    """Name a function or an instance of a frozen dataclass; torch.compile traces this and has a constant.

    Returns:
        None where no text finds it again: it was defined within a function, or has a field that is not a
        number, text or None.
    """
    if isinstance(value, FunctionType):
        return _name_of_function(value)
    kind = type(value)
    fields = {name: getattr(value, name) for name in getattr(kind, "__dataclass_fields__", ())}
    if "<locals>" in kind.__qualname__ or not all(isinstance(each, _PLAIN) for each in fields.values()):
        return None
    return f"{kind.__module__}:{kind.__qualname__}:{fields!r}" if fields else None


@_constant_in_graphs
def _name_of_function(function: FunctionType) -> str | None:
    if "<" in function.__qualname__:
        return None
    return f"{function.__module__}:{function.__qualname__}:"


@functools.cache
def with_name(name: str) -> Any:
    """Find what has a name."""
    module, qualified, fields = name.split(":", 2)
    definition = operator.attrgetter(qualified)(importlib.import_module(module))
    return definition(**ast.literal_eval(fields)) if fields else definition


@_constant_in_graphs
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
