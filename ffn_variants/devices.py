"""Which device a command computes on: a GPU that can be used or the CPU, which is never taken by accident."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from functools import cache
from glob import glob
from itertools import takewhile
from pathlib import Path

import torch

from base.errors import UsageError, first_line, shown

VISIBLE = "CUDA_VISIBLE_DEVICES"
ADVICE = f"mend that, or compute on the CPU: {VISIBLE}= before the command"
NONE_THERE = ("Found no NVIDIA driver", "No CUDA GPUs are available")
"""What torch says where there is no GPU, rather than one that it cannot use."""
_HIDES_ALL = re.compile(r"\s*(-|(none|void|nodevfiles)?\s*$)", re.IGNORECASE)
"""What people and schedulers write to hide every GPU. To torch, what names none (``cuda:0``) is the same."""


def is_cpu_asked_for() -> bool:
    """Whether the environment asks for the CPU: by hiding every GPU, or by Accelerate's variable for it."""
    names = os.environ.get(VISIBLE)
    hides_all = names is not None and _HIDES_ALL.match(names) is not None
    on_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower()
    return hides_all or on_cpu in ("1", "y", "yes", "t", "true", "on")


def visible_gpus() -> list[str]:
    """Return the names of the GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` takes them.

    They are those of that variable, where it is set: numbers, UUIDs, or MIG devices.
    """
    number = 0 if is_cpu_asked_for() else torch.cuda.device_count()
    visible = os.environ.get(VISIBLE)
    if visible is None or not number:
        return [str(index) for index in range(number)]
    names = [*takewhile(bool, (name.strip() for name in visible.split(",")))]
    # A process counts one MIG device at most, however many it is given.
    return names if names[0].startswith("MIG-") else names[:number]


def ask_nvidia_smi(*fields: str, of: str = "gpu") -> list[dict[str, str]]:
    """Return what nvidia-smi tells of each GPU, or of each of another kind of thing; nothing without it."""
    command = ["nvidia-smi", f"--query-{of}={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [dict(zip(fields, map(str.strip, line.split(",")), strict=False)) for line in told.splitlines()]


def is_mps_running() -> bool:
    """Whether NVIDIA's Multi-Process Service shares the GPUs here."""
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control").exists()


def takes_one_process() -> bool:
    """Whether a GPU here takes one process alone: in exclusive mode, without MPS."""
    modes = {gpu["compute_mode"] for gpu in ask_nvidia_smi("compute_mode")}
    return "Exclusive_Process" in modes and not is_mps_running()


def use_gpu() -> bool:
    """Whether to compute on a GPU: if there is one, and the CPU is not asked for. Allocates nothing.

    Raises:
        UsageError: If there is one, and torch cannot use it.
    """
    if is_cpu_asked_for():
        return False
    reason = _trouble()
    # SLURM names a job's GPUs in the variable; those of a job without any are somebody else's.
    is_ours = VISIBLE in os.environ or "SLURM_JOB_ID" not in os.environ
    is_driver_there = torch.version.cuda is not None and not reason.startswith(NONE_THERE)
    if reason and is_ours and (is_driver_there or glob("/dev/nvidia[0-9]*")):
        raise UsageError(
            f"there is an NVIDIA GPU, and torch {torch.__version__} cannot use it: {reason}; {ADVICE}"
        )
    if reason and torch.version.cuda is not None:
        _note_that_there_is_none()
    return not reason


def choose_device(name: str | None) -> str:
    """Return the device of that name, or where no name is given the GPU if there is one.

    Raises:
        UsageError: If this machine has no such device, or torch cannot use it.
    """
    name = check_device(name)
    try:
        torch.ones(1, device=name)  # by a kernel, which wheels have for some kinds of GPUs only
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {name!r} cannot be used here: {_sentence(error)}; {ADVICE}") from error
    return name


def check_device(name: str | None) -> str:
    """Choose a device as ``choose_device`` does, without allocating on it."""
    if name is None:
        return "cuda" if use_gpu() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"{shown(name)} is no device; give cpu, cuda, cuda:1, mps or xpu") from None
    if device.type != "cuda":
        return name
    count = torch.cuda.device_count()
    reason = _trouble() or (f"GPUs here: {count}, from cuda:0" if (device.index or 0) >= count else "")
    if reason:
        raise UsageError(f"device {name!r} cannot be used here: {reason}; give another, or cpu")
    return name


def _trouble() -> str:
    """Return torch's reason why it cannot use a GPU; empty if it can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says the same in several lines
        if torch.cuda.is_available():
            return ""
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as error:
            visible = os.environ.get(VISIBLE)
            return _sentence(error) + (f" under {VISIBLE}={shown(visible)}" if visible else "")
    return "it finds none"


def _sentence(error: BaseException) -> str:
    return first_line(error).partition(". ")[0].rstrip(".")


@cache
def _note_that_there_is_none() -> None:
    if os.environ.get("RANK", "0") == "0":
        found = f"torch {torch.__version__} finds no NVIDIA GPU"
        print(f"note: {found}, so this computes on the CPU", file=sys.stderr)
