"""Functions of a module and frozen dataclasses as text, which an operation of a compiled graph can take.

A graph holds tensors, numbers and text. The text says where a definition is and what it was made with, so it
means the same in every process: ``ffn_variants.variants.fourier_kan:FourierBasis:{'grid_size': 5}``.
"""

from __future__ import annotations

import ast
import functools
import importlib
import operator
from types import FunctionType
from typing import Any

import torch

_PLAIN = (bool, int, float, str, type(None))


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


@torch.compiler.assume_constant_result
def _name_of_function(function: FunctionType) -> str | None:
    if "<" in function.__qualname__:
        return None
    return f"{function.__module__}:{function.__qualname__}:"


@functools.cache
def named(name: str) -> Any:
    """Find what has a name."""
    module, qualified, fields = name.split(":", 2)
    found = operator.attrgetter(qualified)(importlib.import_module(module))
    return found(**ast.literal_eval(fields)) if fields else found
