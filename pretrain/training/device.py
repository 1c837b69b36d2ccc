"""What a run computes on: devices and processes, precision, and how sums are taken."""

from __future__ import annotations

import datetime
import os
import re
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs

from base.errors import UsageError
from base.run.folders import RunFolder
from base.system import cpp_compiler
from ffn_variants.models.devices import check_device, choose_device, use_gpu
from pretrain.config import RunConfig

PROCESSES_WAIT = datetime.timedelta(hours=24)
"""For each other: while one prepares a corpus, evaluates or scores. NCCL's own limit is 10 minutes."""

CUBLAS_WORKSPACES = (":4096:8", ":16:8")
"""With which cuBLAS takes its sums in the same order every time."""


def build_accelerator(config: RunConfig, path: Path) -> Accelerator:
    """Devices, precision and trackers.

    Raises:
        UsageError: If there is a GPU that torch cannot use, or the device lacks what is asked for: bf16, a
            compiler or equal results.
    """
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    set_numerics(config.train.deterministic)
    if device := os.environ.get("ACCELERATE_TORCH_DEVICE"):  # which Accelerate would take as it is
        check_device(device)
    AcceleratorState._reset_state()  # a study trains several runs in one process, each with its own precision
    tracker = None if config.train.tracker == "none" else config.train.tracker
    accelerator = Accelerator(
        mixed_precision=choose_precision(config.train.mixed_precision),
        log_with=tracker,
        project_dir=RunFolder(path).logs_dir,
        # Accelerate would take a Mac's GPU, where no run was ever compared with one on a CPU.
        cpu=torch.backends.mps.is_available(),
        kwargs_handlers=[InitProcessGroupKwargs(timeout=PROCESSES_WAIT)],
    )
    choose_device(str(accelerator.device))
    if config.train.compile_model and accelerator.device.type == "cpu" and not cpp_compiler():
        raise UsageError(
            "train.compile_model needs a C++ compiler, and there is none; install g++ (on a Mac: "
            "xcode-select --install), name another in CXX, or leave --train.compile-model out"
        )
    return accelerator


def choose_precision(asked: str) -> str:
    """Accelerate's name of a precision, where ``auto`` is bf16 on GPUs that have it.

    There is no fp16: its gradients need a scale that is looked for by updates that overflow, which the host
    has to notice and to leave out.

    Raises:
        UsageError: If bf16 is asked for on a GPU that lacks it.
    """
    on_gpu = use_gpu()
    supported = on_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
    if asked == "bf16" and on_gpu and not supported:
        raise UsageError("train.mixed_precision is bf16, which this GPU does not support; use no or auto")
    if asked != "auto":
        return asked
    if on_gpu and not supported and os.environ.get("RANK", "0") == "0":
        print(
            "note: this GPU has no bf16 (those from compute capability 8.0 on have), so the run is in full "
            "precision; fp16 is not offered, as its gradients overflow without a scale",
            file=sys.stderr,
        )
    return "bf16" if supported else "no"


def set_numerics(deterministic: bool) -> None:
    """Have sums of bf16 products taken in float32, products of float32 not rounded, and choose the order.

    Args:
        deterministic: Whether the same program on the same machine must give the same bits, at the cost of
            slower kernels where fast ones add in no fixed order; else on a GPU it may differ in roundings.

    Raises:
        UsageError: If ``CUBLAS_WORKSPACE_CONFIG`` is set to what allows no such promise.
    """
    matmul = torch.backends.cuda.matmul
    matmul.allow_bf16_reduced_precision_reduction = False
    matmul.allow_fp16_reduced_precision_reduction = False
    torch.set_float32_matmul_precision("highest")  # containers of NVIDIA's set TF32 in the environment
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(deterministic)
    if deterministic:
        # Both are read when they are first needed, which is after this: by Inductor, which else chooses
        # kernels by measuring them, and by cuBLAS.
        os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"
        chosen = os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_WORKSPACES[0])
        if chosen not in CUBLAS_WORKSPACES:
            raise UsageError(
                f"train.deterministic needs CUBLAS_WORKSPACE_CONFIG to be {' or '.join(CUBLAS_WORKSPACES)}, "
                f"and it is {chosen}; unset it"
            )


def without_deterministic_way(error: RuntimeError) -> UsageError | None:
    """What to tell of an operation that torch refuses under ``train.deterministic``; None of other errors."""
    if not (found := re.match(r"(\S+) does not have a deterministic implementation", str(error))):
        return None
    return UsageError(
        f"train.deterministic: {found[1]} adds in no fixed order on this device, and there is no other way; "
        "leave --train.deterministic out"
    )
