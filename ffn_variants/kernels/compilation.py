"""Fused kernels by torch.compile where a compiler is at hand; the same functions as they stand where not.

Only small elementwise functions are compiled, with symbolic sizes, so that a variant costs a few seconds
once: Inductor keeps what it compiled on disk (``TORCHINDUCTOR_CACHE_DIR``, else below /tmp), and every later
process reads it from there.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from base.errors import UsageError


class _State:
    """What holds for the whole process."""

    choice: bool | None = None
    fallback = False
    failure = ""
    """Why compiling has failed, in a line; everything is eager from then on."""
    seconds = 0.0


class _Thread(threading.local):
    in_graph = False


_THREAD = _Thread()


def use_compiled_kernels(enabled: bool | None = True, fallback: bool = False) -> None:
    """Choose, for this process, whether the variants' elementwise functions are compiled.

    Compiling takes 5 to 20 seconds a variant the first time and 1 to 4 seconds in each later process, which a
    long training earns back and a short look at a model does not. The function computed is the same up to
    rounding. Where compiling fails, one line on standard error says so and all stays eager. Only of functions
    that then take a multiple of a GPU's time, those of a basis and of edges, it is an error there.

    Args:
        enabled: None, as before any choice, compiles in somebody's ``torch.compile`` and nowhere else.
        fallback: Be eager on a GPU with those too.
    """
    _State.choice, _State.fallback = enabled, fallback
    _State.failure = ""  # of a run before in this process, which may have had another variant
    # torch 2.11 tells in five lines which of its kernels it splits.
    warnings.filterwarnings("ignore", r"\s*Online softmax is disabled", UserWarning)


@contextlib.contextmanager
def eager_kernels() -> Iterator[None]:
    """Leave kernels uncompiled for a while, whatever was chosen."""
    before, _State.choice = _State.choice, False
    try:
        yield
    finally:
        _State.choice = before


def compiled_kernels_in_use() -> bool:
    """Whether kernels are compiled: chosen, and not found impossible."""
    is_wanted = _THREAD.in_graph if _State.choice is None else _State.choice
    return is_wanted and not _State.failure


def compile_failure() -> str:
    """Why kernels are eager that were to be compiled, in a line; empty if they are not."""
    return "" if _State.choice is False else _State.failure


@contextlib.contextmanager
def in_compiled_graph() -> Iterator[None]:
    """Mark what an operation of somebody's ``torch.compile`` does, to be as fast as the rest of it."""
    before, _THREAD.in_graph = _THREAD.in_graph, True
    try:
        yield
    finally:
        _THREAD.in_graph = before


def needs_plain_torch() -> bool:
    """Whether all that computes must be torch's own operations, with no kernel of this project around them.

    What ``torch.export`` writes (and ONNX by it) or ``torch.jit.trace`` is to run where this project is not,
    and ``torch.func`` and forward-mode differentiation want to see every operation. Somebody's
    ``torch.compile`` stays in this process: it is given the kernels, as operations of its graph.
    """
    return (
        torch.compiler._is_exporting_flag  # to Dynamo of torch 2.11, is_exporting() is always true
        or torch.jit.is_tracing()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )


def compile_seconds() -> float:
    """Seconds that this process has spent compiling, or reading back what was compiled before."""
    return _State.seconds


def compiled(
    function: Callable[..., Any], by_hand: Callable[..., Any] | None = None, slow_eagerly: bool = False
) -> Callable[..., Any]:
    """Wrap a function of tensors and hashable values so that it is compiled while that is chosen.

    Only where compiling fails does the function run as it stands. By then nothing has run, so what it does in
    place is done once. Errors of what was compiled, such as a lack of memory, are raised.

    Args:
        function: Without data-dependent control flow. It is a part of an ``autograd.Function``: no gradient
            flows through it.
        by_hand: The same on CUDA tensors, none of them in float64, by a kernel that is compiled at its first
            call.
        slow_eagerly: Whether a GPU takes many times as long for the function as it stands.

    Returns:
        The same function. Inside somebody else's ``torch.compile``, an export or ``torch.func`` it is traced
        as it stands.
    """
    kinds: set[tuple[Any, ...]] = set()

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if torch.compiler.is_compiling() or needs_plain_torch() or not compiled_kernels_in_use():
            if slow_eagerly and _State.failure and _State.choice:  # of another function, before this one
                _check_fallback(UnsupportedError(_State.failure), args, slow_eagerly)
            return function(*args)
        losing = torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in args)
        assert not losing, (
            f"{function.__name__} is compiled without gradients; call it in an autograd.Function"
        )
        # torch.compile would compile anew for a tensor that takes a gradient or is a view of another.
        args = tuple(value.detach() if isinstance(value, Tensor) else value for value in args)
        kind = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), *map(_kind, args))
        start = time.perf_counter()
        try:
            kernel = by_hand if by_hand is not None and _serves_by_hand(args) else fused()
            result = kernel(*args)
        except (*_compile_errors(), RuntimeError) as error:
            unloadable = kind not in kinds and _UNLOADABLE.search(str(error))
            if not (unloadable or isinstance(error, _compile_errors())):
                raise
            _check_fallback(error, args, slow_eagerly)
            spent = time.perf_counter() - start
            result = function(*args)  # if this raises as well, compiling is not to blame
            _State.seconds += spent
            _give_up(_reason(error, args))
            return result
        if kind not in kinds:
            kinds.add(kind)
            _State.seconds += time.perf_counter() - start
        return result

    @functools.cache
    def fused() -> Callable[..., Any]:
        # Broken graphs would be slow without a word; so they are errors, and end in the eager function.
        try:
            return torch.compile(_with_own_code(function), dynamic=True, fullgraph=True)
        except RuntimeError as error:  # this Python or system is not supported
            raise UnsupportedError(str(error)) from error

    return call


class UnsupportedError(RuntimeError):
    """A function cannot be compiled here; it has not run."""


def _serves_by_hand(args: tuple[Any, ...]) -> bool:
    return all(v.is_cuda and v.dtype != torch.float64 for v in args if isinstance(v, Tensor))


def _with_own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with a code object of its own.

    Dynamo counts its compilations by code object, eight at most; the kernels of all bases have one in common.
    """
    code = function.__code__.replace()
    copy = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    return functools.update_wrapper(copy, function)


def _kind(value: Any) -> Any:
    """What makes torch.compile compile anew; sizes do not, except that 1 is a case of its own."""
    if not isinstance(value, Tensor):
        return value
    return value.dtype, value.device, tuple(size == 1 for size in value.shape)


def _compile_errors() -> tuple[type[Exception], ...]:
    """What Dynamo, Inductor, Triton and C++ compilers raise, before any of a function has run.

    OSError is of a folder for what they compile that is full, or that cannot be made: kernels have no files.
    """
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException  # takes a second

    return UnsupportedError, TorchDynamoException, FailOnRecompileLimitHit, OSError


_UNLOADABLE = re.compile("kernel image is invalid|unsupported toolchain|PTX JIT compil|invalid ptx", re.I)
"""What a driver says of a kernel that it cannot load, as of a Triton that is newer than it is."""


def is_compile_error(error: Exception) -> bool:
    """Whether a compiler raised it, not what runs; by its place, as importing that takes a second."""
    places = ("torch._dynamo", "torch._inductor", "triton", __name__)
    return type(error).__module__.startswith(places) or _UNLOADABLE.search(str(error)) is not None


_FAULTS = (MemoryError, torch.OutOfMemoryError, torch.AcceleratorError)
"""Of memory and of the device: no fault of compiling, though it may have met them first."""


@functools.cache
def has_triton() -> bool:
    """Whether Triton is installed; it is not imported."""
    return importlib.util.find_spec("triton") is not None


def missing_for_triton() -> str:
    """What Triton compiles with and this machine lacks, and what to do; empty where all is there."""
    if not has_triton():
        return "the package triton is not installed"
    compiler = os.environ.get("CC")
    if not (shutil.which(compiler) if compiler else shutil.which("gcc") or shutil.which("clang")):
        return "no C compiler: install gcc, or name one in CC"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "no Python.h: install python3-dev"
    return ""


def _check_fallback(error: Exception, args: tuple[Any, ...], slow_eagerly: bool) -> None:
    """Raise where a failure of compiling is not to be passed over."""
    if fault := next((each for each in _causes(error) if isinstance(each, _FAULTS)), None):
        raise fault from error
    if slow_eagerly and not (_are_on_cpu(args) or _State.fallback):
        raise UsageError(
            f"torch.compile failed on a GPU ({_reason(error, args)}), without which this FFN takes many "
            "times as long; mend Triton (ffn-ablations doctor), or run eagerly: ffn-ablations train "
            "--train.torch-compile-fallback; from Python use_compiled_kernels(fallback=True)"
        ) from error


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = getattr(cause, "inner_exception", None) or cause.__cause__ or cause.__context__


def _give_up(reason: str) -> None:
    _State.failure = reason
    print(
        f"note: torch.compile failed ({_State.failure}): functions run eagerly, to the same results; "
        "ffn-ablations doctor says what it needs, --train.no-torch-compile leaves it out",
        file=sys.stderr,
    )


def _reason(error: Exception, args: tuple[Any, ...]) -> str:
    if not _are_on_cpu(args) and (lacking := missing_for_triton()):
        return lacking
    # Not base.errors.first_line, which does not travel with a pushed model.
    said = str(error).strip().split("\n")[0][:200] or "no message"
    return said if isinstance(error, UnsupportedError) else f"{type(error).__name__}: {said}"


def _are_on_cpu(args: tuple[Any, ...]) -> bool:
    return all(value.device.type == "cpu" for value in args if isinstance(value, Tensor))
