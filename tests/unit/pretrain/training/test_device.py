"""On which device a run is trained, and a step that does not fit its memory."""

import itertools
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState

from base.config_input import deep_merge
from base.errors import UsageError
from pretrain.config import ResolvedConfig, TrainConfig
from pretrain.resolution import load_config
from pretrain.training import device
from pretrain.training.device import (
    choose_precision,
    compiles_kernels,
    compiles_model,
    fit_to_memory,
    is_long,
    is_out_of_memory,
    join_processes,
    set_numerics,
)
from pretrain.training.loop import Loop
from pretrain.training.training_run import train
from tests.cases import first_is_fast, listed
from tests.processes import free_port


@pytest.mark.parametrize(("choice", "device", "flops", "expected"), listed(__file__, "who compiles"))
def test_short_runs_on_a_cpu_compile_nothing_unless_told_to(choice, device, flops, expected):
    assert compiles_kernels(TrainConfig(torch_compile=choice), torch.device(device), flops) is expected


# On which device a run is trained.
@pytest.fixture
def fresh() -> Iterator[None]:
    """Processes and numerics as at the start, before and after."""
    PartialState._reset_state()
    AcceleratorState._reset_state()
    yield
    PartialState._reset_state()
    AcceleratorState._reset_state()
    set_numerics(deterministic=False)
    for name in ("CUBLAS_WORKSPACE_CONFIG", "TORCHINDUCTOR_DETERMINISTIC"):
        os.environ.pop(name, None)


def test_a_mac_trains_on_its_cpu(fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accelerate alone would take its GPU, on which no result was ever compared."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    assert Accelerator().device.type == "mps"
    PartialState._reset_state()
    assert join_processes(TrainConfig()).device.type == "cpu"


WAITING = """
import datetime, time; from pretrain.config import TrainConfig; from pretrain.training import device
device.STEP_WAIT = datetime.timedelta(seconds=2)
processes = device.join_processes(TrainConfig())
time.sleep(5 * processes.is_main_process); device.wait_long(); processes.wait_for_everyone()
"""


@pytest.mark.ci
def test_processes_wait_longer_for_a_corpus_than_for_a_step() -> None:
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "ACCELERATE_USE_CPU": "true"}
    places = [os.environ | place | {"WORLD_SIZE": "2", "RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    processes = [subprocess.Popen([sys.executable, "-c", WAITING], env=place) for place in places]
    assert [process.wait(120) for process in processes] == [0, 0]


@pytest.fixture
def gpu(monkeypatch) -> Callable[[bool], None]:
    """Let torch see a GPU that has bf16 or not."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return lambda has: monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)


@pytest.mark.parametrize(("asked", "supported", "chosen"), listed(__file__, "precisions of a GPU"))
def test_the_precision_of_a_gpu(gpu, asked, supported, chosen) -> None:
    gpu(supported)
    assert choose_precision(asked) == chosen


def test_bf16_needs_a_gpu_that_has_it_and_is_used(gpu, monkeypatch) -> None:
    gpu(False)
    with pytest.raises(UsageError, match="which this GPU does not support; use no or auto"):
        choose_precision("bf16")
    gpu(True)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert choose_precision("auto") == "no"


@pytest.fixture
def bf16_cpu(monkeypatch) -> Callable[[bool], None]:
    """Compute on a CPU that multiplies bf16 or not."""
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    return lambda has: monkeypatch.setattr(device, "multiplies_bf16", lambda: has)


@pytest.mark.parametrize(("has", "long", "earlier", "chosen"), listed(__file__, "precisions of a CPU"))
def test_the_precision_of_a_cpu(bf16_cpu, has, long, earlier, chosen) -> None:
    bf16_cpu(has)
    assert choose_precision("auto", long, earlier) == chosen
    assert choose_precision("no", long, earlier) == "no"


def test_runs_are_long_or_not_whatever_their_ffn() -> None:
    zoo = {"model": {"hidden_size": 96, "intermediate_size": 384}}
    configs = [
        load_config(Path("mini-gpt-neo"), overrides=deep_merge(zoo, {"model": {"ffn": ffn}}))
        for ffn in ("gelu", "no-ffn")
    ]
    assert [is_long(config, 1000) for config in configs] == [True, True]
    assert not is_long(configs[0], 300)
    assert not is_long(load_config(Path("mini-gpt-neo")), 300)


@pytest.mark.parametrize(("overrides", "expected"), listed(__file__, "what a long run compiles"))
def test_what_a_long_run_compiles(overrides, expected) -> None:
    config = load_config(None, overrides=overrides)
    assert compiles_model(config, is_long=True, on_gpu=False) is expected
    assert not compiles_model(config, is_long=False, on_gpu=False)
    assert not compiles_model(config, is_long=True, on_gpu=False, earlier=False)


@pytest.mark.parametrize("missing", ["", "no C compiler"])
def test_on_a_gpu_a_long_run_compiles_where_triton_can(missing, monkeypatch) -> None:
    monkeypatch.setattr(device, "missing_for_triton", lambda: missing)
    config = load_config(Path("roberta"))  # which drops out
    of_source_study, short = (is_long(config, steps, on_gpu=True) for steps in (8000, 800))
    assert (of_source_study, short) == (True, False)
    assert compiles_model(config, True, on_gpu=True) == (not missing)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not compiles_model(config, True, on_gpu=True)


@pytest.mark.parametrize("name", ["cuda:7", "foo"])
def test_a_device_of_accelerates_variable_is_checked(fresh, monkeypatch, name) -> None:
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", name)
    with pytest.raises(UsageError, match=f"{name}' (is no device|cannot be used here)"):
        join_processes(TrainConfig())


def test_sums_of_narrow_products_are_wide(fresh) -> None:
    matmul = torch.backends.cuda.matmul
    matmul.allow_bf16_reduced_precision_reduction = True
    torch.set_float32_matmul_precision("high")
    set_numerics(deterministic=False)
    assert not matmul.allow_bf16_reduced_precision_reduction
    assert torch.get_float32_matmul_precision() == "highest"
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


@pytest.mark.parametrize("family", first_is_fast(["gpt_neo", "roberta", "t5"]))
def test_a_deterministic_run_reads_no_memory_that_nobody_wrote(fresh, tiny, family) -> None:
    """torch then fills all new memory with NaN."""
    flags = ["--family", family, "--ffn", "kan", "--optim.max-steps", "2", "--train.deterministic"]
    assert (train(tiny(*flags)) / "COMPLETED").exists()
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_an_operation_without_a_fixed_order_is_named(fresh, monkeypatch, tiny) -> None:
    def update(loop, step):
        return torch.zeros(2).put_(torch.tensor([1]), torch.tensor([1.0]))

    monkeypatch.setattr(Loop, "_update", update)
    told = r"^train.deterministic: put_ has no deterministic kernel here; leave it"
    with pytest.raises(UsageError, match=told):
        train(tiny("--train.deterministic"))


# Cutting a step that does not fit; that it happens for real is tested in test_interruptions.py.
def run_that_fits(rows: int, tried: list[int], eval_rows: int = 1000):
    """A run whose forward passes hold so many rows, with the error that CUDA raises beyond."""

    def run(config: ResolvedConfig) -> None:
        train = config.train
        tried.append(train.per_device_train_batch_size)
        if train.per_device_train_batch_size > rows or train.per_device_eval_batch_size > eval_rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    return run


def config(rows: int, size: int | str, find: bool = True) -> ResolvedConfig:
    sizes = {"batch_size": rows, "per_device_train_batch_size": size, "find_batch_size": find}
    return load_config(None, overrides={"train": sizes})


@pytest.mark.parametrize(("rows", "size", "earlier", "fits", "expected"), listed(__file__, "rows that fit"))
def test_forward_passes_are_halved_until_they_fit(rows, size, earlier, fits, expected, capsys):
    tried: list[int] = []
    fit_to_memory(run_that_fits(fits, tried), config(rows, size), 1, earlier_rows=earlier)
    assert tried == list(expected)
    assert capsys.readouterr().out.splitlines() == [
        f"out of memory with {one} rows per forward pass; trying {other}"
        for one, other in itertools.pairwise(expected)
    ]


@pytest.mark.parametrize(
    ("on_gpu", "earlier", "expected"), [(True, None, [112, 56, 28]), (True, 28, [28]), (False, None, [16])]
)
def test_auto_begins_with_all_rows_on_a_gpu_and_needs_no_other_flag(on_gpu, earlier, expected):
    tried: list[int] = []
    asked = config(112, "auto", find=False)
    fit_to_memory(run_that_fits(30, tried), asked, on_gpu=on_gpu, earlier_rows=earlier)
    assert tried == expected


def test_a_number_alone_is_kept():
    tried: list[int] = []
    with pytest.raises(torch.OutOfMemoryError):
        fit_to_memory(run_that_fits(4, tried), config(16, 8, find=False), earlier_rows=2)
    assert tried == [8]


def test_several_processes_with_auto_and_one_row_that_does_not_fit_are_told_what_to_do():
    with pytest.raises(UsageError, match=r"with 56 rows .*; give --train.per-device-train-batch-size 28$"):
        fit_to_memory(run_that_fits(4, []), config(112, "auto", find=False), 2, on_gpu=True)
    with pytest.raises(UsageError, match="memory runs out with 1 rows per forward pass; shorten"):
        fit_to_memory(run_that_fits(0, []), config(4, 4), 1)


def test_the_tensors_of_an_attempt_are_gone_before_the_next():
    kept: list[weakref.ref] = []

    def run(config: ResolvedConfig) -> None:
        assert all(tensor() is None for tensor in kept)
        held = torch.ones(3)
        kept.append(weakref.ref(held))
        if config.train.per_device_train_batch_size != 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    fit_to_memory(run, config(16, 16))
    assert len(kept) == 3


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("of a device"), True),
        (MemoryError(), True),
        (RuntimeError("Triton Error [CUDA]: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (RuntimeError(OSError("the first argument is no text")), False),
        (RuntimeError("shapes do not match"), False),
        (ValueError("CUDA out of memory."), False),
    ],
    ids=repr,
)
def test_what_is_a_lack_of_memory(error, expected):
    assert is_out_of_memory(error) == expected


def test_evaluation_that_does_not_fit_has_fewer_rows_too():
    tried: list[int] = []
    fit_to_memory(run_that_fits(48, tried, eval_rows=12), config(48, "auto", find=False), on_gpu=True)
    assert tried == [48, 24, 12]
