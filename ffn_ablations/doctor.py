"""What this machine computes with: each part of a GPU, or of a CPU, that works, or what takes its place.

On a CPU it imports torch alone, and compiles nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import torch

from base.command_line import parse_flags
from base.errors import first_line
from base.other_names import OtherNames
from base.sections import Section
from base.system import cpp_compiler, cpu_fact, multiplies_bf16, num_cores
from ffn_variants.devices import ask_nvidia_smi, choose_device, is_mps_running, use_gpu, visible_gpus
from ffn_variants.kernels.compilation import missing_for_triton

WITHOUT_TRITON = (
    "functions run eagerly, predicted to take gelu 1.8 times as long; a basis or functions of edges (10) "
    "stop without --train.torch-compile-fallback; no model is compiled: 118 s in place of 91"
)
WITHOUT_GRAPH = "kernels are launched one by one: kan takes 1.3 to 2.1 times as long, 0.14M parameters 6"
WITHOUT_FLASH = "a mask of all pairs takes its place, at a cost that was not measured"


class DoctorArgs(Section):
    """Say what of this machine works, what takes the place of what does not, and what that costs.

    ffn-ablations doctor
    """

    hints: ClassVar = OtherNames("doctor")


def main(args: Sequence[str] | None = None) -> None:
    """Print a line for each part.

    Raises:
        UsageError: At the end, for a GPU that torch cannot use.
    """
    parse_flags(DoctorArgs, args, prog="ffn-ablations doctor")
    print(f"torch     {torch.__version__}, built for CUDA: {torch.version.cuda or 'no'}")
    for part, found in of_gpus() if use_gpu() else of_cpu():
        print(f"{part:<9} {found}", flush=True)


def of_cpu() -> Iterator[tuple[str, str]]:
    """What a CPU computes with."""
    yield "device", f"CPU ({cpu_fact('model name')}); no NVIDIA GPU is used"
    gain = "long runs are in it, 1.6 to 2.0 times as fast as in float32"
    yield "bf16", f"works: {gain}" if multiplies_bf16() else "missing (AVX512-BF16, AMX): all is in float32"
    without = "none: install g++; functions run eagerly, and kan takes 2.6 times the time of its MLP"
    yield "compiler", f"works: {compiler} compiles long runs" if (compiler := cpp_compiler()) else without
    yield "threads", f"{torch.get_num_threads()} of {num_cores()} cores; OMP_NUM_THREADS sets them"


def of_gpus() -> Iterator[tuple[str, str]]:
    """What the GPUs that this process may use are, and what works on the first."""
    told = {gpu["uuid"]: gpu for gpu in ask_nvidia_smi("uuid", "driver_version", "compute_mode")}
    users = ask_nvidia_smi("gpu_uuid", "pid", "process_name", of="compute-apps")
    for number, name in enumerate(visible_gpus()):
        properties = torch.cuda.get_device_properties(number)
        gpu = told.get(uuid := f"GPU-{properties.uuid}", {})
        free, total = (size / 2**30 for size in torch.cuda.mem_get_info(number))
        driver = f"{properties.name}, driver {gpu.get('driver_version', 'unknown')}"
        mode = f"mode {gpu.get('compute_mode', 'unknown')}{', MPS runs' * is_mps_running()}"
        yield f"GPU {name}", f"{driver}, {mode}, {free:.0f} of {total:.0f} GiB free"
        for user in users:
            if user["gpu_uuid"] == uuid and user["pid"] != str(os.getpid()):
                yield "", f"others are on it: {user['process_name']}, process {user['pid']}"
        if not is_built_for((properties.major, properties.minor), built := torch.cuda.get_arch_list()):
            yield "", f"FAILS: this torch has kernels for {' '.join(built)} alone; install another"
    yield "kernels", f"of torch run on {choose_device(None)}"
    yield "Triton", _found(_triton, WITHOUT_TRITON)
    yield "flash", _found(_flash, WITHOUT_FLASH)
    yield "graph", _found(_graph, WITHOUT_GRAPH)


def is_built_for(capability: tuple[int, int], architectures: Sequence[str]) -> bool:
    """Whether a GPU runs kernels of a list such as sm_80, of its generation, or compute_90, of any before."""
    for kind, number in (each.rstrip("af").split("_") for each in architectures):
        built = int(number[:-1]), int(number[-1])
        if built <= capability and (kind == "compute" or built[0] == capability[0]):
            return True
    return not architectures  # then nothing is known


def _found(probe: Callable[[], str], instead: str) -> str:
    try:
        reason = probe()
    except Exception as error:  # of whatever library fails
        reason = f"{type(error).__name__}: {first_line(error)}"
    return f"FAILS ({reason}): {instead}" if reason else "works"


def _triton() -> str:
    if reason := missing_for_triton():
        return reason
    doubled = torch.compile(lambda x: 2 * x, fullgraph=True)(torch.ones(4, device="cuda"))
    return "" if doubled.tolist() == [2.0] * 4 else "a kernel computed another result"


def _flash() -> str:
    from ffn_variants.models import packed_attention  # which takes seconds

    fits = packed_attention.takes_flash(torch.device("cuda", 0), torch.bfloat16, 64)
    return "" if fits else "".join(packed_attention.FAILURES) or "it needs compute capability 8.0"


def _graph() -> str:
    x = torch.ones(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = 2 * x
    x.fill_(3)
    graph.replay()
    return "" if doubled.tolist() == [6.0] * 4 else "a replay computed another result"
