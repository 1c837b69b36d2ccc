"""Checkpoints: written aside and renamed, checksummed, and without pickles.

A checkpoint holds weights, optimizer moments, schedule and step. No random state is stored, because what a
step draws is a function of the seed and the step (see ``pretrain.batches``).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

FILES = ("model.safetensors", "optimizer.safetensors")


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LambdaLR,
    state: dict[str, Any],
    keep: int,
) -> Path:
    """Write a checkpoint and delete the oldest ones.

    Args:
        folder: The run's ``checkpoints/``.
        model: The unwrapped model.
        optimizer: Its optimizer.
        scheduler: Its schedule.
        state: JSON values of the loop; ``state["step"]`` names the checkpoint.
        keep: Checkpoints to keep.

    Returns:
        The folder of the new checkpoint.
    """
    final = folder / f"step_{state['step']:07d}"
    aside = final.with_name(f"{final.name}.tmp-{os.getpid()}")
    aside.mkdir(parents=True)
    save_file(_weights(model), aside / FILES[0])
    save_file(_moments(model, optimizer), aside / FILES[1])
    saved = {
        "state": state,
        "scheduler": scheduler.state_dict(),
        "sha256": {name: _checksum(aside / name) for name in FILES},
    }
    (aside / "state.json").write_text(json.dumps(saved, indent=2))
    for path in aside.iterdir():
        _sync(path)
    if final.exists():  # left by an earlier attempt whose newest checkpoint could not be read
        shutil.rmtree(final)
    os.replace(aside, final)
    _sync(folder)
    for old in _newest_first(folder)[keep:]:
        shutil.rmtree(old)
    return final


def load_newest(
    folder: Path, model: nn.Module, optimizer: Optimizer, scheduler: LambdaLR
) -> tuple[dict[str, Any], Path] | None:
    """Restore the newest checkpoint that can be read, and tell of those that cannot.

    Returns:
        The state saved with it and its folder, or None where there is no readable checkpoint.
    """
    for aside in folder.glob("*.tmp-*"):  # a process was killed while it wrote
        shutil.rmtree(aside, ignore_errors=True)
    for path in _newest_first(folder):
        try:
            saved = json.loads((path / "state.json").read_text())
            for name in FILES:
                if _checksum(path / name) != saved["sha256"][name]:
                    raise ValueError(f"{name} does not match its checksum")
        except (OSError, ValueError, KeyError) as error:
            warnings.warn(f"{path} cannot be read ({error}); the checkpoint before it is used", stacklevel=2)
            continue
        _restore_weights(model, load_file(path / FILES[0]))
        _restore_moments(model, optimizer, load_file(path / FILES[1]))
        scheduler.load_state_dict(saved["scheduler"])
        for group, rate in zip(optimizer.param_groups, scheduler.get_last_lr(), strict=True):
            group["lr"] = rate
        return saved["state"], path
    return None


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("step_" + "[0-9]" * 7), reverse=True)


def _unique(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; a tied tensor once, under its first name."""
    unique: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        unique.setdefault(id(tensor), (name, tensor))
    return dict(unique.values())


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in _unique(model).items()}


def _restore_weights(model: nn.Module, saved: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in _unique(model).items():
            tensor.copy_(saved[name])


def _moments(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value.detach().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def _restore_moments(model: nn.Module, optimizer: Optimizer, saved: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for name, value in saved.items():
        parameter, _, key = name.rpartition("/")
        # A fused AdamW keeps its step counters beside the parameters.
        optimizer.state[parameters[parameter]][key] = value.to(parameters[parameter].device)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Have the system write a file or folder to the disk, so that the rename cannot overtake its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
