"""What a run computes on: devices and processes, precision, how sums are taken, and what fits into memory."""

from __future__ import annotations

import ctypes
import datetime
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import parse_flag_from_env
from accelerate.utils.memory import clear_device_cache

from base.device_errors import LACKS_OF_MEMORY
from base.errors import UsageError
from base.families import get_family
from base.run.folder_names import RunFolder
from base.system import cpp_compiler, multiplies_bf16, num_cores
from ffn_variants.devices import check_device, choose_device, use_gpu
from ffn_variants.kernels.compilation import missing_for_triton
from pretrain.config import ResolvedConfig, TrainConfig, cut_step

WORTH_COMPILING = 1e11
"""FLOPs of a training on a CPU: about 10 s of a core. Compiling, or reading back what was compiled, costs 5 s
a process; of that long a training, kan takes half the time with it."""

LONG_RUN = 1.5e12
"""FLOPs of a training on a CPU, about 30 s of a core, which earn back compiling."""

LONG_RUN_ON_GPU = 1e16
"""36 s of an H200, of which a compiled model saves a fifth; compiling takes 5 s there, a minute elsewhere."""

STEP_WAIT = datetime.timedelta(minutes=15)
"""Of processes for each other in a step: the first compiles for a minute, and one that died is noticed."""

LONG_WAIT = datetime.timedelta(hours=24)
"""While one of them prepares a corpus or scores."""


def join_processes(train: TrainConfig) -> PartialState:
    """The processes that share a run and the device of this one, with numerics set.

    Raises:
        UsageError: If there is a GPU that torch cannot use, or the device lacks bf16 that is asked for.
    """
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    set_numerics(train.deterministic)
    keep_freed_memory()
    if device := os.environ.get("ACCELERATE_TORCH_DEVICE"):  # which Accelerate would take as it is
        check_device(device)
    # Accelerate would take a Mac's GPU, where no run was ever compared with one on a CPU.
    on_cpu = torch.backends.mps.is_available() or parse_flag_from_env("ACCELERATE_USE_CPU")
    processes = PartialState(cpu=on_cpu, timeout=STEP_WAIT)
    wait_long()
    device_type = torch.device(choose_device(str(processes.device))).type
    choose_precision(train.mixed_precision)
    cores, load = num_cores(), os.getloadavg()[0]
    if device_type == "cpu" and load > cores and torch.get_num_threads() > 1:
        print(
            f"note: others compute here (load {load:.0f} on {cores} cores), and threads wait for each other; "
            "OMP_NUM_THREADS=1 before the command is faster",
            file=sys.stderr,
        )
    return processes


@functools.cache
def _long_waits(world: Any) -> Any:
    """The processes of a group again, which wait for each other on the host, and long."""
    return torch.distributed.new_group(backend="gloo", timeout=LONG_WAIT)


def wait_long() -> None:
    """Wait until all processes are here, for as long as one may prepare or score; nothing for one alone."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier(_long_waits(torch.distributed.group.WORLD))


def build_accelerator(config: ResolvedConfig, path: Path, precision: str) -> Accelerator:
    """Precision and trackers of a run, in the processes that were joined."""
    AcceleratorState._reset_state()  # a study trains several runs in one process, each with its own precision
    tracker = None if config.train.tracker == "none" else config.train.tracker
    return Accelerator(
        mixed_precision=precision,
        log_with=tracker,
        project_dir=RunFolder(path).logs_dir,
        cpu=torch.backends.mps.is_available(),
    )


MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Of glibc's malloc.h."""


def keep_freed_memory() -> None:
    """Have glibc keep what a step frees for the next one, which needs as much.

    Else it gives large tensors back to the system, and every page of the next ones is a fault: a thousand a
    step at some layouts of the heap, and none at others. Other C libraries are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt:
        mallopt(MMAP_THRESHOLD, 2**30)
        mallopt(TRIM_THRESHOLD, 2**31 - 1)


def is_long(config: ResolvedConfig, num_steps: int, on_gpu: bool = False) -> bool:
    """Whether a training is long enough to be compiled as a whole, and in bf16 where a CPU has it.

    Runs that differ in their FFN alone must not differ in precision, so that every FFN counts as a stock one:
    6 FLOPs a token for each of 12 d^2 weights a layer and of the head (Kaplan et al. 2020, table 1).

    Args:
        config: The run.
        num_steps: Its optimizer updates.
        on_gpu: Whether it runs on a GPU.
    """
    model, data = config.model, config.data
    weights = 12 * model.num_hidden_layers * model.hidden_size**2 + data.vocab_size * model.hidden_size
    flops = 6 * weights * num_steps * config.train.batch_size * data.block_size
    return flops >= (LONG_RUN_ON_GPU if on_gpu else LONG_RUN)


def choose_precision(precision: str, is_long: bool = False, earlier: str | None = None) -> str:
    """Accelerate's name of a precision: ``auto`` is bf16 on GPUs that have it, and in long runs on CPUs.

    There is no fp16: its gradients need a scale that is looked for by updates that overflow, which the host
    has to notice and to leave out.

    Args:
        precision: What is asked for.
        is_long: Whether the run is, as of ``is_long``.
        earlier: What an earlier session of the run chose on such a device; a run keeps its precision.

    Raises:
        UsageError: If bf16 is given, and the GPU lacks it.
    """
    on_gpu = use_gpu()
    supported = on_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
    if precision == "bf16" and on_gpu and not supported:
        raise UsageError("train.mixed_precision is bf16, which this GPU does not support; use no or auto")
    if precision != "auto":
        return precision
    if earlier:
        return earlier
    return "bf16" if supported or (not on_gpu and is_long and multiplies_bf16()) else "no"


def compiles_model(config: ResolvedConfig, is_long: bool, on_gpu: bool, earlier: bool | None = None) -> bool:
    """Whether a run compiles its whole model: what it is told, or ``auto``'s choice.

    On a CPU no graph can draw what is dropped out, and one cut at each dropout gains nothing.

    Args:
        config: The run.
        is_long: Whether it is, as of the function of that name.
        on_gpu: Whether it runs on GPUs.
        earlier: What an earlier session of it chose.
    """
    train, model, splines = config.train, config.model, config.splines
    if train.compile_model != "auto":
        return train.compile_model
    if earlier is not None:
        return earlier
    has_one_stack = get_family(config.family).objective != "span_corruption"
    keeps_layers = has_one_stack and not (splines.knot_updates or splines.prune_below)
    if not (keeps_layers and is_long and train.torch_compile is not False):
        return False
    if on_gpu:
        return os.environ.get("WORLD_SIZE", "1") == "1" and not missing_for_triton()
    return not (model.hidden_dropout or model.attention_dropout) and bool(cpp_compiler())


def set_numerics(deterministic: bool) -> None:
    """Have sums of bf16 products taken in float32, products of float32 not rounded, and choose the order.

    Args:
        deterministic: Whether the same program on the same machine must give the same bits, at the cost of
            slower kernels where fast ones add in no fixed order; else on a GPU it may differ in roundings.
            torch then raises a ``RuntimeError`` that names an operation for which there is no such kernel.
    """
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.set_float32_matmul_precision("highest")  # containers of NVIDIA's set TF32 in the environment
    torch.use_deterministic_algorithms(deterministic)
    if deterministic:
        # Both are read when they are first needed, which is after this: by Inductor, which else chooses
        # kernels by measuring them, and by cuBLAS.
        os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"


def fit_to_memory(
    run: Callable[[ResolvedConfig], None],
    config: ResolvedConfig,
    num_processes: int = 1,
    on_gpu: bool = False,
    earlier_rows: int | None = None,
) -> None:
    """Run with a number of rows a forward pass; where memory runs out, and it may, again with half of them.

    It may with ``auto`` and with ``find_batch_size``. A step keeps its rows and masks. Only dropout, which is
    drawn forward pass by forward pass, has other values than in a run that fits at once, and moved knots may
    lie between other inputs, where inputs are equal but for rounding. Evaluation too may not have fitted, so
    it has no more rows than a smaller pass. Several processes do not halve: one that ran out of memory cannot
    tell those that wait for its gradients.

    Args:
        run: Trains with a configuration, from the newest checkpoint on.
        config: What the user wrote.
        num_processes: Processes that share a step.
        on_gpu: Whether it runs on GPUs.
        earlier_rows: Rows of a forward pass that an earlier part of the run was done with, to begin with.

    Raises:
        UsageError: If one row does not fit, or if several processes would have to agree.
    """
    share, rows = cut_step(config.train, num_processes, on_gpu)
    is_auto = config.train.per_device_train_batch_size == "auto"
    if not (is_auto or config.train.find_batch_size):
        run(with_train(config, per_device_train_batch_size=rows))
        return
    if earlier_rows:
        rows = min(earlier_rows, share if is_auto else rows)
    attempt = with_train(config, per_device_train_batch_size=rows)
    while True:
        try:
            run(attempt)
            return
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        # Outside of the handler, whose traceback holds on to the tensors of the attempt.
        clear_device_cache(garbage_collection=True)
        if rows == 1 or num_processes > 1:
            advice = (
                f"give --train.per-device-train-batch-size {rows // 2}"
                if rows > 1
                else "shorten data.block_size or shrink the model"
            )
            raise UsageError(f"memory runs out with {rows} rows per forward pass; {advice}")
        print(f"out of memory with {rows} rows per forward pass; trying {rows // 2}", flush=True)
        rows //= 2
        evaluated = min(rows, config.train.per_device_eval_batch_size)
        attempt = with_train(config, per_device_train_batch_size=rows, per_device_eval_batch_size=evaluated)


def with_train(config: ResolvedConfig, **fields: object) -> ResolvedConfig:
    """A configuration with other fields of ``train``."""
    return config.model_copy(update={"train": config.train.model_copy(update=fields)})


def compiles_kernels(train: TrainConfig, device: torch.device, flops: float) -> bool:
    """Whether a run compiles its FFN's functions; the same in every session of a run.

    Args:
        train: What is asked for.
        device: What the run computes on.
        flops: Of the whole training, forward and backward passes.
    """
    if train.torch_compile != "auto":
        return train.torch_compile
    return device.type != "cpu" or flops >= WORTH_COMPILING


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a device or on the host."""
    of_words = isinstance(error, RuntimeError) and LACKS_OF_MEMORY.search(str(error))
    return bool(of_words) or isinstance(error, torch.OutOfMemoryError | MemoryError)
