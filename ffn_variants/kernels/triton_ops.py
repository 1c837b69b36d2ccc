"""The bases' Triton kernels as operations of torch, for CUDA tensors; Triton is imported at the first launch.

For the bases of this project there is a pair of kernels each, one launch for a call, with nothing kept in
memory between reading x and writing the result. Every other basis, and float64, has Inductor's.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import subprocess
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ffn_variants.kernels.compilation import UnsupportedError, has_triton
from ffn_variants.kernels.operations import name_of, with_name

MAX_BLOCK = 1024
"""Inputs of a row in one program; a thread has four of them, which are one 16-byte access in float32."""
WIDTH = 4


@dataclass(frozen=True)
class Kernels:
    """Where the kernels of a basis are.

    Attributes:
        name: What their names begin with: ``name_features`` and ``name_slopes``.
        settings: From the basis and its constants, what is fixed when they are compiled.
        constants: How many of the constants the kernels read.
    """

    name: str
    settings: Callable[..., dict[str, float]]
    constants: int = 0


def _even(basis: Any) -> dict[str, float]:
    step = (basis.high - basis.low) / basis.grid_size
    return {"grid_size": basis.grid_size, "order": basis.spline_order, "low": basis.low, "step": step}


def _uneven(basis: Any, knots: Tensor, reciprocals: Tensor) -> dict[str, float]:
    return {"count": len(knots), "order": basis.spline_order}


# By name, as what has a basis imports this package. A subclass may compute something else, so it has none.
BY_HAND = {
    "ffn_variants.splines.b_splines.EvenSplines": Kernels("even", _even),
    "ffn_variants.splines.b_splines.UnevenSplines": Kernels("uneven", _uneven, 1),
}


def triton_kernels(basis: Any) -> tuple[Callable[..., None], Callable[..., None]] | None:
    """Find the kernels of a basis.

    Args:
        basis: As ``basis_linear`` takes it.

    Returns:
        ``features(x, out, *constants)`` and ``slopes(x, grad, out, *constants)``, or None where Triton is not
        installed or the basis has none. x is (rows, I) of any strides; ``out`` of the features and ``grad``
        of the slopes are (rows, K, I) and contiguous; ``out`` of the slopes is like x. No float64.
    """
    name = name_of(basis)
    if name is None or _full_name(basis) not in BY_HAND or not has_triton():
        return None

    def features(x: Tensor, out: Tensor, *constants: Tensor) -> None:
        basis_features(x, out, list(constants), name)

    def slopes(x: Tensor, grad: Tensor, out: Tensor, *constants: Tensor) -> None:
        basis_slopes(x, grad, out, list(constants), name)

    return features, slopes


@torch.library.custom_op("ffn_variants::basis_features", mutates_args=("out",))
def basis_features(x: Tensor, out: Tensor, constants: list[Tensor], basis: str) -> None:
    """Write the features of x (rows, I) to out (rows, K, I)."""
    assert out.is_contiguous()
    launch("features", x, feature_arguments(x, out), constants, basis)


@torch.library.custom_op("ffn_variants::basis_slopes", mutates_args=("out",))
def basis_slopes(x: Tensor, grad: Tensor, out: Tensor, constants: list[Tensor], basis: str) -> None:
    """Write the gradient of x (rows, I) to out, from that of the features (rows, K, I)."""
    assert grad.is_contiguous()
    launch("slopes", x, slope_arguments(x, grad, out), constants, basis)


@basis_features.register_fake
def _(x: Tensor, out: Tensor, constants: list[Tensor], basis: str) -> None:
    return None


@basis_slopes.register_fake
def _(x: Tensor, grad: Tensor, out: Tensor, constants: list[Tensor], basis: str) -> None:
    return None


def feature_arguments(x: Tensor, out: Tensor) -> tuple[Any, ...]:
    """What every kernel of features takes first."""
    return x, *x.stride(), out


def slope_arguments(x: Tensor, grad: Tensor, out: Tensor) -> tuple[Any, ...]:
    """What every kernel of slopes takes first."""
    return x, *x.stride(), grad, out, *out.stride()


def launch(kind: str, x: Tensor, arguments: tuple[Any, ...], constants: list[Tensor], basis: str) -> None:
    """Start the kernel of x (rows, I)."""
    if not x.numel():
        return
    start(*call(kind, x, arguments, constants, with_name(basis)), on=x)


def call(
    kind: str, x: Tensor, arguments: tuple[Any, ...], constants: Sequence[Tensor], basis: Any
) -> tuple[Any, tuple[int, int], tuple[Any, ...], dict[str, Any]]:
    """Find what to start: kernel, programs (one for each row and block of inputs), arguments and settings."""
    kernels = BY_HAND[_full_name(basis)]
    rows, inputs = x.shape
    block = min(MAX_BLOCK, 1 << (inputs - 1).bit_length())
    kernel = getattr(_kernels(), f"{kernels.name}_{kind}")
    settings = kernels.settings(basis, *constants) | {"block": block, "num_warps": _warps(block)}
    # As they are stored everywhere in this project; others are copied.
    constant_inputs = [each.expand(-1, inputs).contiguous() for each in constants[: kernels.constants]]
    return kernel, (rows, -(-inputs // block)), (*arguments, *constant_inputs, inputs), settings


def _warps(block: int) -> int:
    """Groups of 32 threads for a block, with ``WIDTH`` inputs for each thread."""
    return max(1, block // (32 * WIDTH))


def start(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], settings: dict[str, Any], on: Tensor
) -> None:
    """Start a kernel on the device of a tensor, which need not be the current one.

    Raises:
        UnsupportedError: If it cannot be compiled.
    """
    # Triton's interpreter takes tensors of a CPU.
    with torch.cuda.device(on.device) if on.is_cuda else contextlib.nullcontext():
        try:
            kernel[grid](*arguments, **settings)
        except Exception as error:
            if not _is_of_compiling(error):
                raise
            raise UnsupportedError(f"Triton: {error}") from error


def _is_of_compiling(error: Exception) -> bool:
    """Whether Triton, ptxas or the C compiler of the launchers failed; a lack of memory is none of these.

    Where there is no C compiler, or what it made cannot be loaded, the error's type says nothing, but the
    place does.
    """
    if isinstance(error, _triton_error() | subprocess.CalledProcessError | OSError):
        return True
    places = (frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__))
    return "triton.runtime.build" in places


@functools.cache
def _triton_error() -> type[Exception]:
    return importlib.import_module("triton.errors").TritonError


@functools.cache
def _kernels() -> ModuleType:
    """The module of the kernels, which imports Triton.

    Raises:
        UnsupportedError: If Triton is installed and cannot be imported.
    """
    try:
        return importlib.import_module(f"{__package__}.triton_kernels")
    except ImportError as error:
        raise UnsupportedError(f"Triton: {error}") from error


def _full_name(basis: Any) -> str:
    return f"{type(basis).__module__}.{type(basis).__qualname__}"
