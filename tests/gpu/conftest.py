"""Where these tests run: on a GPU; or, to try them out, on the CPU, with GPU_TESTS_DEVICE=cpu."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState

from benchmarks.gpu.workload import build_loop, build_network
from ffn_variants.kernels.compilation import use_compiled_kernels
from pretrain.config import ResolvedConfig
from pretrain.resolution import load_config
from pretrain.training.loop import Loop
from tests.cases import small_run

HERE = Path(__file__).parent
DEVICE = os.environ.get("GPU_TESTS_DEVICE", "cuda")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are marked, and left out where their device is not."""
    absent = DEVICE == "cuda" and not torch.cuda.is_available()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.filterwarnings("ignore::UserWarning"))  # of what torch does there
            if absent:
                item.add_marker(pytest.mark.skip(reason="there is no CUDA device"))


@pytest.fixture
def device() -> str:
    """``cuda``, or ``cpu`` where the tests are tried out."""
    return DEVICE


@pytest.fixture
def only_cuda(device: str) -> None:
    """For what a CPU does not have."""
    if device != "cuda":
        pytest.skip("only CUDA has it")


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., ResolvedConfig]:
    """Makes a small run's configuration without dropout, whose draws differ from device to device."""

    def make(family: str, *flags: str) -> ResolvedConfig:
        model = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2}
        sections = small_run(
            tmp_path / "runs",
            model=model | {"hidden_dropout": 0.0, "attention_dropout": 0.0},
            optim={"learning_rate": 1e-3},
            train={"logging_steps": 1, "mixed_precision": "no", "torch_compile": True},
        )
        return load_config(None, ["--family", family, *flags], sections)

    return make


@pytest.fixture
def loops(tmp_path: Path) -> Callable[..., Loop]:
    """Makes the loop of a configuration on random rows, on the tests' device or on the CPU."""

    def make(config: ResolvedConfig, on_cpu: bool = False) -> Loop:
        PartialState._reset_state()
        AcceleratorState._reset_state(True)
        precision = "bf16" if config.train.mixed_precision == "bf16" else "no"
        accelerator = Accelerator(mixed_precision=precision, cpu=on_cpu or DEVICE == "cpu")
        use_compiled_kernels(config.train.torch_compile is not False and not on_cpu)
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        return build_loop(config, build_network(config), folder, accelerator)

    return make
