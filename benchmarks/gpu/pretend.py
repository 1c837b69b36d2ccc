"""A CUDA device that only pretends: code runs on fake tensors "on cuda", forward and backward, with no GPU.

It takes torch's wheel for CPUs, Linux, and a C++ compiler. A process that loads it has no other CUDA:

    library = build(folder)       # in any process, once
    load(library)                 # before torch is imported
    with machine() as trace: ...  # tensors of the inside are fake; ``trace`` is a ``Trace``

Tensors have shapes, dtypes and devices, and no values. What the host reads from the device is made up: 1 or
true for a number, as many places as a mask has for ``nonzero``; the trace has it as a wait.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from base.system import cpp_compiler

if TYPE_CHECKING:
    from benchmarks.gpu.trace import Trace

MEMORY = 80 * 2**30
SOURCE = Path(__file__).with_name("guard.cpp")


def why_not() -> str | None:
    """Say why this machine cannot pretend, or None."""
    if not sys.platform.startswith("linux"):
        return "the pretend device is for Linux"
    if not cpp_compiler():
        return "no C++ compiler: g++ is not on the PATH, or what CXX names"
    return None


def is_built_for_cuda() -> bool:
    """Whether torch is. Without a driver it can then pretend in part alone, as a driver pins its memory."""
    return (_torch_folder() / "lib" / "libtorch_cuda.so").exists()


def build(folder: Path) -> Path:
    """Compile the library, 5 to 15 seconds, unless it is there; returns its path."""
    library = folder / "guard.so"
    if library.exists():
        return library
    torch = _torch_folder()
    part = folder / "guard.so.part"
    include = [f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}"]
    flags = ["-shared", "-fPIC", "-O0", "-std=c++20", "-w", "-D_GLIBCXX_USE_CXX11_ABI=1"]
    subprocess.run([cpp_compiler(), *flags, *include, str(SOURCE), "-o", str(part)], check=True)
    part.replace(library)
    return library


def load(library: Path) -> None:
    """Become a process with a pretend device.

    Raises:
        RuntimeError: If torch was imported before: its autograd has then looked for devices.
    """
    if "torch" in sys.modules:
        raise RuntimeError("load the pretend device before torch is imported")
    libraries = _torch_folder() / "lib"
    if not is_built_for_cuda():  # else torch has a guard of its own, and takes no other
        for name in ("libc10.so", "libtorch_cpu.so"):
            ctypes.CDLL(str(libraries / name), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    import torch

    _answer_for_cuda(torch)
    _route_attention(torch)


@contextlib.contextmanager
def machine(opened: Collection[str] = ()) -> Iterator[Trace]:
    """Have tensors made inside be fake, those of before be taken as they are, and everything be counted.

    Args:
        opened: As for ``Trace``.
    """
    from benchmarks.gpu.trace import Trace

    with pretending(), Trace(opened=opened) as trace:
        yield trace


@contextlib.contextmanager
def pretending() -> Iterator[None]:
    """``machine`` without its counter, which is slower."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True), _answers():
        yield


def _torch_folder() -> Path:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise RuntimeError("torch is not installed")
    return Path(spec.origin).parent


def _answer_for_cuda(torch: Any) -> None:
    """Have torch's Python say what the library's C++ says: one device, an H100 say."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.amp import autocast_mode

    # A model moved to the device has new parameters, as a fake tensor cannot become the data of a real one.
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    common: Any = importlib.import_module("torch.cuda.amp.common")
    common.amp_definitely_not_available = lambda: False
    autocast_mode.torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda including_emulation=True: True
    torch.cuda.get_device_capability = lambda device=None: (9, 0)
    torch.backends.cuda.flash_sdp_enabled = torch.backends.cuda.is_flash_attention_available = lambda: True
    torch.cuda.memory_reserved = torch.cuda.memory_allocated = lambda device=None: 0
    torch.cuda.mem_get_info = lambda device=None: (MEMORY, MEMORY)
    torch.cuda.empty_cache = lambda: None
    torch.cuda.manual_seed = torch.cuda.manual_seed_all = lambda seed: None
    # Fake tensors do not know inference mode. What differs is bookkeeping.
    torch.inference_mode = lambda mode=True: torch.no_grad() if mode else contextlib.nullcontext()
    # The kind of operations for lists of tensors is chosen by the type of these.
    foreach: Any = importlib.import_module("torch.utils._foreach_utils")
    foreach._foreach_supported_types += [FakeTensor, torch.nn.Parameter]
    fake: Any = FakeTensor
    fake.numpy = lambda tensor, *, force=False: _zeros(torch, tensor)
    fake.tolist = lambda tensor: _zeros(torch, tensor).tolist()


def _zeros(torch: Any, tensor: Any) -> Any:
    import numpy as np

    if tensor.device.type != "cpu":
        raise TypeError("can't convert cuda:0 device type tensor to numpy")
    wide = {torch.bfloat16: torch.float32}.get(tensor.dtype, tensor.dtype)
    return np.zeros(tuple(tensor.shape), str(wide).removeprefix("torch."))


def _answers() -> Any:
    """A mode between the counter and the fake tensors: what cannot be known of a value is made up."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Answers(TorchDispatchMode):
        @classmethod
        def is_infra_mode(cls) -> bool:
            return True  # Dynamo compiles under it

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = func.name().split(".")[0].removeprefix("aten::")
            if name in ("_pin_memory", "is_pinned") or kwargs.get("pin_memory"):
                return _pinned(torch, name, func, args, kwargs)
            if name.startswith("_fused_") and name.endswith(
                "_"
            ):  # some have no shape rule; they write in place
                return None
            if name in ("_local_scalar_dense", "item") and type(args[0]) is not torch.Tensor:
                return _one(torch, args[0].dtype)
            if name in ("equal", "is_nonzero"):
                return True
            if name == "nonzero":
                return args[0].new_empty(args[0].numel(), args[0].ndim, dtype=torch.int64)
            if name == "masked_select":
                return args[0].new_empty(args[0].numel())
            if name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1]):
                mask = args[1][0]
                return args[0].new_empty(mask.numel(), *args[0].shape[mask.ndim :])
            if name.startswith(("_unique", "unique")):
                return tuple(args[0].new_empty(args[0].numel(), dtype=dtype) for dtype in (None, torch.int64))
            if name == "repeat_interleave" and kwargs.get("output_size") is None:
                return args[0].new_empty(args[0].numel())
            return func(*args, **kwargs)

    return Answers()


def _pinned(torch: Any, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Memory of the host that the device can read: a real tensor's is real, a fake one's has a mark."""
    from torch.utils._python_dispatch import _disable_current_modes

    if args and type(args[0]) is torch.Tensor:
        with _disable_current_modes():
            return func(*args, **kwargs)
    if name == "is_pinned":
        return getattr(args[0].untyped_storage(), "is_pretend_pinned", False)
    kwargs = {key: value for key, value in kwargs.items() if key != "pin_memory"}
    out = torch.empty_like(args[0]) if name == "_pin_memory" else func(*args, **kwargs)
    out.untyped_storage().is_pretend_pinned = True
    return out


def _one(torch: Any, dtype: Any) -> Any:
    if dtype == torch.bool:
        return True
    return 1.0 if dtype.is_floating_point else 1


def _route_attention(torch: Any) -> None:
    """Choose a kernel of attention as CUDA does (sdp_utils.cpp): flash without a mask, else the other one."""
    functional = torch.nn.functional
    real = functional.scaled_dot_product_attention

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        if query.device.type != "cuda":
            return real(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        if attn_mask is None and query.dtype != torch.float32:
            flash = torch.ops.aten._scaled_dot_product_flash_attention
            return flash(query, key, value, dropout_p, is_causal, scale=scale)[0]
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:  # as convert_boolean_attn_mask does
                seen = torch.zeros((), dtype=query.dtype, device=query.device)
                attn_mask = torch.where(attn_mask, seen, seen.new_full((), -torch.inf))
            attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
        efficient = torch.ops.aten._scaled_dot_product_efficient_attention
        grad = torch.is_grad_enabled()
        return efficient(query, key, value, attn_mask, grad, dropout_p, is_causal, scale=scale)[0]

    functional.scaled_dot_product_attention = attention
