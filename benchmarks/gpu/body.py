"""Counts a step whose model is compiled as a whole (``--train.compile-model``), without a GPU.

Dynamo, AOTAutograd and Inductor make of the model's body what they would for an H100, without a graph break.
What Inductor leaves to libraries (products, attention, the project's own operations) runs over fake tensors
and is counted as ever; each kernel that it writes is a launch of the bytes that its scheduler says.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.graph import GraphLowering
from torch._inductor.ir import MultiOutput
from torch._inductor.scheduler import ExternKernelSchedulerNode
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks.gpu import steps
from benchmarks.gpu.inductor import pretend_gpu
from benchmarks.gpu.trace import Launch, Trace

KERNEL = "compiled::kernel"
"""Name of the launches of what Inductor writes."""

LIBRARIES = re.compile(r"::(mm|addmm|bmm|baddbmm|_flash_attention\w*)$|^ffn_variants::|^fused::")
"""Operations that stay launches of their own."""


def install() -> None:
    """Compile the body of every model that ``steps`` trains from now on; for the rest of the process."""
    pretend_gpu()
    config.joint_graph_constant_folding = False  # it computes constants on the device, which is not there
    config.fallback_random = True  # as the project has it: dropout draws as it does uncompiled, unfused
    FakeTensorMode.avoid_device_init = property(lambda self: True)  # type: ignore[assignment]
    compile_function, build_loss = torch.compile, steps.build_loss

    def build_compiled(*args: Any) -> nn.Module:
        loss: Any = build_loss(*args)
        forward = loss.model.base_model.forward
        loss._compiled = compile_function(forward, dynamic=False, fullgraph=True, backend=_backend)
        return loss

    steps.build_loss = build_compiled  # type: ignore[bad-assignment]


def _backend(graph: Any, inputs: Any) -> Any:
    return compile_fx(graph, inputs, inner_compile=_count_and_interpret)  # type: ignore[bad-argument-type]


def _count_and_interpret(graph: Any, inputs: Any, **options: Any) -> Callable[[list[Any]], Any]:
    """Have Inductor schedule a graph; return what runs it step by step and is counted as its kernels."""
    original = copy.deepcopy(graph)  # Inductor changes it
    kernels = _kernels(graph, inputs, options)

    def run(args: list[Any]) -> Any:
        traces = [mode for mode in _modes() if isinstance(mode, Trace)]
        before = [len(trace.launches) for trace in traces]
        own = list(args)
        args.clear()
        out = original(*own)
        for trace, length in zip(traces, before, strict=True):
            trace.launches[length:] = [one for one in trace.launches[length:] if LIBRARIES.search(one.name)]
            trace.launches += kernels
        return out

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _modes() -> list[Any]:
    return torch.utils._python_dispatch._get_current_dispatch_mode_stack()


def _runs_elsewhere(node: Any) -> bool:
    """Whether a node is an operation that is counted as it runs, or one of the results of one.

    torch's own kernels that are neither, such as the draws of dropout, are counted like Inductor's.
    """
    if not isinstance(node, ExternKernelSchedulerNode):
        return False
    kernel: Any = node.node
    if isinstance(kernel, MultiOutput):
        return True
    operation = getattr(kernel, "op_overload", None)
    name = operation.name().split(".")[0] if operation is not None else str(kernel.python_kernel_name)
    return LIBRARIES.search(name.replace("extern_kernels.", "::")) is not None


def _kernels(graph: Any, inputs: Any, options: dict[str, Any]) -> list[Launch]:
    """A launch for each kernel that Inductor writes for a graph."""
    found: list[list[int]] = []

    def keep(self: GraphLowering) -> Any:
        self.codegen()
        nodes = [node for node in self.scheduler.nodes if not _runs_elsewhere(node)]
        found.append([node.get_read_write_buffers_sizes() for node in nodes])
        raise NotImplementedError("there is no GPU to load it on")

    before = GraphLowering.compile_to_module
    GraphLowering.compile_to_module = keep  # type: ignore[assignment]
    try:
        compile_fx_inner(graph, inputs, **options)
    except Exception:  # what comes after the code needs a GPU
        if not found:
            raise
    finally:
        GraphLowering.compile_to_module = before  # type: ignore[assignment]
    return [Launch(KERNEL, (), (), num_bytes, 0, (), "compiled") for num_bytes in found[0]]
