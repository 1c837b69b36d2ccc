"""Fused kernels by torch.compile where a compiler is at hand; the same functions as they stand where not.

Only small elementwise functions are compiled, with symbolic sizes, so that a variant costs a few seconds
once: Inductor keeps what it compiled on disk, and every later process reads it from there.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


class _State:
    """What holds for the whole process."""

    enabled = False
    broken = False
    """Set once compiling has failed; everything is eager from then on."""
    seconds = 0.0


def use_compiled_kernels(enabled: bool = True) -> None:
    """Choose, for this process, whether the variants' elementwise functions are compiled.

    They are not by default: compiling takes 5 to 20 seconds a variant the first time and 1 to 4 seconds in
    each later process, which a long training earns back and a short look at a model does not. The function
    computed is the same up to rounding. Where there is no compiler, one warning says so and all stays eager.
    """
    _State.enabled = enabled
    if enabled:
        _keep_cache_at_home()


def compiled_kernels_in_use() -> bool:
    """Whether kernels are compiled: asked for, and not found impossible."""
    return _State.enabled and not _State.broken


def compile_seconds() -> float:
    """Seconds that this process has spent compiling, or reading back what was compiled before."""
    return _State.seconds


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of tensors and hashable values so that it is compiled while that is chosen.

    Args:
        function: Without data-dependent control flow; it may be called again with the same arguments. It is
            a part of an ``autograd.Function``: no gradient flows through it.

    Returns:
        The same function. Inside somebody else's ``torch.compile`` it is traced as it stands.
    """
    seen: set[tuple[Any, ...]] = set()

    @functools.cache
    def fused() -> Callable[..., Any]:
        # Broken graphs would be slow without a word; so they are errors, and end in the eager function.
        return torch.compile(function, dynamic=True, fullgraph=True, **_ISOLATED)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if not compiled_kernels_in_use() or torch.compiler.is_compiling():
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
            result = fused()(*args)
        except Exception as error:  # whatever Dynamo, Inductor, Triton or a C++ compiler may raise
            result = function(*args)  # if this raises as well, compiling is not to blame
            _give_up(error)
            return result
        if kind not in seen:
            seen.add(kind)
            _State.seconds += time.perf_counter() - start
        return result

    return call


# Else the kernels of all bases, whose code is the same, share torch's limit of 8 compilations
# of one function. Before torch 2.13 they do; past the limit all run eagerly, with a warning.
_ISOLATED: dict[str, Any] = (
    {"isolate_recompiles": True}
    if "isolate_recompiles" in inspect.signature(torch.compile).parameters
    else {}
)


def _kind(value: Any) -> Any:
    """What makes torch.compile compile anew; sizes do not, except that 1 is a case of its own."""
    if not isinstance(value, Tensor):
        return value
    return value.dtype, value.device, tuple(size == 1 for size in value.shape)


def _give_up(error: Exception) -> None:
    _State.broken = True
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    warnings.warn(
        f"torch.compile failed ({type(error).__name__}: {lines[0] if lines else 'no message'}): the FFN runs "
        "eagerly, with the same results but slower. It needs a C++ compiler on a CPU and Triton on a GPU; "
        "train.py --train.no-torch-compile leaves it out without this warning",
        stacklevel=3,
    )


def _keep_cache_at_home() -> None:
    """Put Inductor's cache where the next job on another node finds it too; its default is below /tmp."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    # As soon as it is imported, Dynamo writes that default into the environment, as if a user had chosen it.
    if os.environ.get("TORCHINDUCTOR_CACHE_DIR") not in (None, default_cache_dir()):
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ffn-ablations" / "inductor"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
