"""Timing some steps of a run that is not trained yet, for plans; nothing is left behind."""

from __future__ import annotations

from pathlib import Path

from accelerate.utils import set_seed

from ffn_variants.kernels.compilation import use_compiled_kernels
from pretrain.config import RunConfig
from pretrain.data.prepare import PreparedData, cached_summary, prepare_data
from pretrain.model.build import build, special_token_ids
from pretrain.model.objective import build_loss
from pretrain.own_variant import load_own_variant
from pretrain.resolution import resolve
from pretrain.run.provenance import device_name
from pretrain.training.device import build_accelerator
from pretrain.training.loop import Loop, Timing
from pretrain.training.memory import fit_to_memory
from pretrain.training.train import batch_source

UPDATES = 30
UNTIMED = 5
MOST_S = 60.0
NO_RUN = "run"
"""A folder that no run is written to."""


def calibrate(config: RunConfig, folder: Path) -> tuple[Timing, str]:
    """Train some steps of a run, from new weights and on its own batches, in this process.

    Args:
        config: The run; of its folder and its folder of runs nothing is touched.
        folder: A folder to be removed afterwards, for one run or several. Data that is not prepared is
            prepared there.

    Returns:
        What the steps took, and the device.

    Raises:
        UsageError: If the text or the device cannot be used.
    """
    load_own_variant(config.model)
    config = resolve(config)
    data = _data(config, folder)
    train = config.train.model_copy(update={"tracker": "none"})
    config = config.model_copy(update={"train": train})
    accelerator = build_accelerator(config, folder / NO_RUN)
    timings: list[Timing] = []

    def measure(fitting: RunConfig) -> None:
        use_compiled_kernels(config.train.torch_compile, config.train.torch_compile_fallback)
        set_seed(config.seed)
        network = build(fitting, len(data.tokenizer), special_token_ids(data.tokenizer))
        loss = build_loss(network, fitting.family, fitting.train.compile_model)
        loop = Loop(
            fitting, accelerator, loss, batch_source(fitting, accelerator, data), data, folder / NO_RUN
        )
        timings.append(loop.time_updates(UPDATES, UNTIMED, MOST_S))

    fit_to_memory(measure, config, 1, accelerator.device.type == "cuda")
    return timings[-1], device_name(accelerator.device)


def _data(config: RunConfig, folder: Path) -> PreparedData:
    """Read the run's data where it is prepared, else prepare it in a folder that is removed."""
    if cached_summary(config):
        return prepare_data(config)
    output = config.output.model_copy(update={"runs_dir": str(folder)})
    return prepare_data(config.model_copy(update={"output": output}))
