"""The run folder's name and the configuration in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from base.errors import UsageError
from base.files import write_text
from pretrain.config import OptimConfig, RunConfig, SplineConfig
from pretrain.resolution import load_config, resolve
from pretrain.run.folders import RunFolder

RESULT_NEUTRAL: dict[str, Any] = {
    "output": True,
    # What it decides is in intermediate_size: the same width is the same run however it was chosen.
    "model": {"ffn_budget"},
    "train": {
        "per_device_eval_batch_size",
        "logging_steps",
        "eval_steps",
        "eval_every",
        "eval_suite",
        "eval_dir",
        "save_steps",
        "save_minutes",
        "save_total_limit",
        "max_loss_ratio",
        # The rows of a step stay the same, cut into more forward passes.
        "find_batch_size",
        "torch_compile",
        "compile_model",
        "tracker",
    },
}
"""Fields that cannot change the trained model; they are left out of the hash and of the comparison."""


def config_hash(config: RunConfig) -> str:
    """Eight hexadecimal digits over every field that can change the result, and nothing else."""
    decisive = _decisive(config)
    # Runs from before these existed keep their hash.
    if config.splines == SplineConfig():
        del decisive["splines"]
    if config.optim.optimizer == OptimConfig().optimizer:
        del decisive["optim"]["optimizer"]
    text = json.dumps(decisive, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def run_dir(config: RunConfig) -> Path:
    """Folder of a run: ``<runs_dir>/<study>/<family>/<variant>/`` and ``seed<N>-<hash>`` or ``run_name``."""
    return Path(config.output.runs_dir) / config.output.study / run_id(config)


def run_id(config: RunConfig) -> str:
    """What a run is called in its study: ``<family>/<variant>/`` and ``seed<N>-<hash>`` or ``run_name``."""
    name = config.output.run_name or f"seed{config.seed}-{config_hash(config)}"
    return f"{config.family}/{config.model.ffn}/{name}"


def read_run(path: Path) -> RunConfig:
    """The configuration of the run in a folder.

    Raises:
        UsageError: If the folder holds no run.
    """
    folder = RunFolder(Path(path))
    if not folder.is_run:
        raise UsageError(
            f"{path}: is no run folder (it has no {folder.config_file.name}); "
            "give runs/<study>/<family>/<variant>/<run>"
        )
    return load_config(folder.config_file)


def check_same_config(path: Path, config: RunConfig) -> None:
    """Refuse to go on in a folder that holds a run with another configuration.

    Raises:
        UsageError: Naming the first field that differs, with both values.
    """
    if not RunFolder(path).is_run:
        return
    difference = _first_difference(_decisive(read_run(path)), _decisive(config))
    if difference:
        raise UsageError(
            f"{path} holds a run with another config ({difference}); pass another --run-name or remove it"
        )


def write_config(path: Path, config: RunConfig) -> None:
    """Save the resolved configuration; a valid input of the training command."""
    write_text(RunFolder(path).config_file, to_yaml(config))


def to_yaml(config: BaseModel) -> str:
    """A configuration as YAML, in the order of its fields."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _decisive(config: RunConfig) -> dict[str, Any]:
    values = resolve(config).model_dump(mode="json", exclude=RESULT_NEUTRAL)
    if (
        values["train"]["mean_noise_span_length"] is None
    ):  # runs without spans keep the hash they had before it
        del values["train"]["mean_noise_span_length"]
    return values


def _first_difference(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> str | None:
    for name in now:
        old, new = before.get(name), now[name]
        if isinstance(old, dict) and isinstance(new, dict) and name != "ffn_options":
            if found := _first_difference(old, new, f"{prefix}{name}."):
                return found
        elif old != new:
            return f"{prefix}{name} {old}, now {new}"
    return None
