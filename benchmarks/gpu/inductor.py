"""The Triton code that Inductor writes for a GPU, on a machine without one.

``pretend_gpu`` has torch believe in an H100 as far as Inductor asks about it; it holds for the process, in
which nothing can be computed on that device. ``written`` then has a function of tensors compiled, and stops
where its kernels would be loaded. ``pretend.load`` must have come before, for fake tensors on the device.
"""

from __future__ import annotations

import contextlib
import functools
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from torch._dynamo.device_interface import CudaInterface
from torch._dynamo.source import ConstantSource
from torch._inductor import config
from torch._inductor.codecache import PyCodeCache
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_helpers
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from triton.backends.compiler import GPUTarget

CAPABILITY = (9, 0)
"""Of the GPU that Inductor writes for; what it has written can be compiled for others."""
ROWS = 8192
"""Of a block, as a hint: Inductor chooses its tiles by it."""


class Driver:
    """What Triton asks of the GPU that it compiles for; each capability is a device with its own kernels."""

    capability = 90
    utils = types.SimpleNamespace(
        get_device_properties=lambda device: {
            "max_shared_mem": 232448,
            "multiprocessor_count": 132,
            "warpSize": 32,
            "max_num_regs": 65536,
        }
    )

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return self.capability

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_device_interface(self) -> Any:
        return torch.cuda


@contextlib.contextmanager
def target(capability: int) -> Iterator[None]:
    """Have Triton's own compiler, inside, write for another GPU, such as 80 for an A100."""
    pretend_gpu()
    before, Driver.capability = Driver.capability, capability
    try:
        yield
    finally:
        Driver.capability = before


def _properties(device: Any = None) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name="H100",
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        multi_processor_count=132,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        max_threads_per_block=1024,
        warp_size=32,
        total_memory=80 << 30,
        gcnArchName="",
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=232448,
        L2_cache_size=50 << 20,
        is_integrated=False,
    )


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


@functools.cache
def pretend_gpu() -> None:
    """Answer Inductor's questions about the device, for the rest of the process."""
    triton.runtime.driver.set_active(Driver())  # type: ignore[bad-argument-type]
    devices = ("current_device", "_exchange_device", "_maybe_exchange_device", "exchange_device")
    numbers = {name: _always(0) for name in devices}  # one each: Dynamo tells functions apart by identity
    nothing = {name: _always(None) for name in ("set_device", "synchronize", "_lazy_init", "set_rng_state")}
    answers = {
        **numbers,
        **nothing,
        "maybe_exchange_device": _always(0),
        "is_available": _always(True),
        "device_count": _always(1),
        "is_initialized": _always(False),
        "get_device_properties": _properties,
        "get_device_capability": _always(CAPABILITY),
        "get_rng_state": _always(torch.zeros(16, dtype=torch.uint8)),
        "get_compute_capability": _always(10 * CAPABILITY[0] + CAPABILITY[1]),
        "is_bf16_supported": _always(True),
        "is_triton_capable": _always(True),
        "raise_if_triton_unavailable": _always(None),
    }
    for place in (torch.cuda, CudaInterface, CudaInterface.Worker):
        for name, answer in answers.items():
            if hasattr(place, name):
                setattr(place, name, answer if place is torch.cuda else staticmethod(answer))
    triton_helpers.set_driver_to_gpu = _always(None)
    config.compile_threads = 1
    config.fx_graph_cache = False
    config.fx_graph_remote_cache = False


_SYMBOL = re.compile(r"\bs\d+")
"""What Inductor calls a size that is not known."""


@dataclass(frozen=True)
class Written:
    """What Inductor made of a function.

    Attributes:
        source: Python that has the kernels as text and calls them.
    """

    source: str

    def kernels(self) -> dict[str, str]:
        """Name and source of each Triton kernel."""
        found = re.findall(r"async_compile\.triton\('(\w+)', '''(.*?)'''", self.source, re.DOTALL)
        return {name: text.replace("\\\\", "\\") for name, text in found}

    def temporaries(self) -> list[str]:
        """Buffers in device memory that it makes and does not return, as ``(rows, 512) float32``."""
        body = self.source[self.source.index("def call") :]
        buffers = re.findall(r"(\w+) = empty_strided_cuda\(\(([^()]*)\), \([^()]*\), torch\.(\w+)\)", body)
        returned = body[body.rindex("return (") :]
        kept = [(shape, dtype) for name, shape, dtype in buffers if not re.search(rf"\b{name}\b", returned)]
        return [f"({re.sub(_SYMBOL, 'rows', shape.rstrip(', '))}) {dtype}" for shape, dtype in kept]

    @property
    def launches(self) -> int:
        """Kernels that a call starts, those of libraries among them."""
        body = self.source[self.source.index("def call") :]
        return len(re.findall(r"\b\w+\.run\(|extern_kernels\.\w+\(", body))

    def configurations(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Each kernel in each way that Inductor would try: what to compile, and the options."""
        for name, text in self.kernels().items():
            tuner = getattr(PyCodeCache.load(text), name)
            for each in tuner.configs:
                meta = tuner._create_compile_meta(each)
                source = triton.compiler.ASTSource(
                    tuner.fn, meta["signature"], meta["constants"], meta["configs"][0]
                )
                yield source, tuner._create_compile_options(each, meta)


Shape = tuple[Any, ...]
"""Of an argument. ``"rows"`` is a symbolic size, as with ``dynamic=True``, which is ``ROWS`` in this case."""


def written(function: Callable[..., Any], *arguments: tuple[Shape, torch.dtype]) -> Written:
    """Have Inductor compile a function of CUDA tensors, which may write to its arguments.

    Args:
        function: As the project would give it to ``compiled``.
        *arguments: Shape and dtype of each tensor.
    """
    pretend_gpu()
    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    sizes = {name: _symbol(environment, name) for shape, _ in arguments for name in shape if name == "rows"}
    with mode:
        tensors = [
            torch.empty([sizes.get(size, size) for size in shape], device="cuda", dtype=dtype)
            for shape, dtype in arguments
        ]
    found: list[str] = []
    with mode, torch.no_grad():
        functional = torch.func.functionalize(_as_tuple(function), remove="mutations_and_views")
        graph = make_fx(functional, select_decomp_table(), tracing_mode="symbolic")(*tensors)
    original = GraphLowering.compile_to_module
    GraphLowering.compile_to_module = _keep_source(found)  # type: ignore[assignment]
    try:
        compile_fx_inner(graph, tensors)
    except Exception:  # what comes after the source needs a GPU
        if not found:
            raise
    finally:
        GraphLowering.compile_to_module = original  # type: ignore[assignment]
    return Written(found[0])


def _symbol(environment: ShapeEnv, name: str) -> Any:
    source = ConstantSource(name)
    return environment.create_symintnode(environment.create_symbol(ROWS, source), hint=ROWS, source=source)


def _as_tuple(function: Callable[..., Any]) -> Callable[..., tuple[Tensor, ...]]:
    def wrapped(*tensors: Tensor) -> tuple[Tensor, ...]:
        result = function(*tensors)
        if result is None:
            return ()
        return (result,) if isinstance(result, Tensor) else tuple(result)

    return wrapped


def _keep_source(found: list[str]) -> Callable[[GraphLowering], Any]:
    def compile_to_module(self: GraphLowering) -> Any:
        code: Any = self.codegen()[0]
        found.append(code.value if hasattr(code, "value") else code)
        raise NotImplementedError("there is no GPU to load it on")

    return compile_to_module
