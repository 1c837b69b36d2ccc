"""What CUDA, cuBLAS, NCCL and drivers say of a GPU that fails, each with what to do about it."""

from __future__ import annotations

import re

MEMORY = (
    "its memory is full: take a GPU that nobody else uses (ffn-ablations doctor names who does), or fewer "
    "rows, as --train.per-device-train-batch-size auto does"
)
ON_CPU = "or compute on the CPU: CUDA_VISIBLE_DEVICES= before the command"
OTHER = "take another (CUDA_VISIBLE_DEVICES)"
GOES_ON = "the same command goes on from the last checkpoint"
KERNEL = (
    f"{GOES_ON}; if it fails there again, --train.no-torch-compile or --train.no-cuda-graph leaves out "
    "what is added to torch, and CUDA_LAUNCH_BLOCKING=1 before the command names the place"
)
ADVICE = {
    r"out of memory|STATUS_ALLOC_FAILED": MEMORY,
    r"no kernel image": f"this torch has no kernels for that GPU; install one that has, {ON_CPU}",
    r"driver (version |on your system )?is (too old|insufficient)": (
        f"install a newer NVIDIA driver, or a torch for an older CUDA, {ON_CPU}"
    ),
    r"uncorrectable|\bECC\b": f"its memory is damaged: {OTHER}, and have this one reset; {GOES_ON}",
    r"busy or unavailable|exclusive": f"another process has that GPU for itself: {OTHER}, wait, or start MPS",
    r"fallen off|\blost\b|unknown error|no CUDA-capable": (
        f"that GPU is gone (dmesg tells of an Xid): {OTHER}, or restart the machine; {GOES_ON}"
    ),
    r"\bNCCL\b|ProcessGroup|Connection (closed|reset) by peer": (
        "a process of this run ended or waits: the first error of all of them says why, NCCL_DEBUG=INFO "
        f"before the command tells more; {GOES_ON}"
    ),
    r"\bCU(BLAS|DNN|SPARSE|SOLVER)_STATUS": (
        "others may hold its memory, or libraries may not fit the driver (ffn-ablations doctor tells "
        f"of both); {GOES_ON}"
    ),
    r"\bCUDA (driver )?error\b|\[CUDA\]": KERNEL,
}
"""By what such an error says; the first that fits."""
TYPES = ("RuntimeError", "AcceleratorError", "OutOfMemoryError", "DistBackendError", "DistNetworkError")
"""Names, as this must not import torch."""


def failure_of_device(error: BaseException) -> str | None:
    """Say what a GPU failed with, and what to do, in one line; None for any other error."""
    link: BaseException | None = error
    while link is not None:
        said = str(link).strip().split("\n")[0][:300].partition(". ")[0].rstrip(".")
        for pattern, advice in ADVICE.items():
            if type(link).__name__ in TYPES and re.search(pattern, str(link), re.IGNORECASE):
                return f"{said}; {advice}"
        link = link.__cause__
    return None
