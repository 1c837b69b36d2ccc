"""Checkpoints: one file each, written aside and renamed.

A checkpoint holds weights, optimizer, schedule and loop state. No random state is stored, because what a step
draws is a function of the seed and the step (see ``pretrain.data.batches``), and no gradient scaler, because
bf16 needs none. The format is ``torch.save``'s, a zip file that holds a checksum of each of its parts.

What a kill leaves is a ``*.tmp-<pid>`` file that the next start removes; a checkpoint that cannot be read is
renamed to ``*.broken``. Neither is ever taken for a checkpoint.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from base.errors import UsageError, first_line
from base.records import BROKEN


def snapshot(
    model: nn.Module, optimizer: Optimizer, scheduler: LambdaLR, state: dict[str, Any], run: str = ""
) -> dict[str, Any]:
    """Return what a checkpoint holds; the tensors are those of the model, no copies.

    Args:
        model: The unwrapped model.
        optimizer: Its optimizer.
        scheduler: Its schedule.
        state: Of the loop; ``state["step"]`` names the checkpoint.
        run: Hash of the configuration of the run that it belongs to; empty where nobody asks.
    """
    return {
        "weights": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "state": state,
        "run": run,
    }


def all_finite(model: nn.Module, optimizer: Optimizer) -> bool:
    """Whether every number that a checkpoint would hold is finite; the device is asked once."""
    moments = [value for values in optimizer.state.values() for value in values.values()]
    tensors = [*model.state_dict().values(), *moments]
    floats = [tensor.detach() for tensor in tensors if tensor.is_floating_point()]
    return math.isfinite(float(nn.utils.get_total_norm(floats, math.inf)))


def save_checkpoint(folder: Path, content: dict[str, Any], keep: int) -> Path:
    """Write a checkpoint, then delete the oldest ones.

    Args:
        folder: The run's ``checkpoints/``.
        content: What ``snapshot`` gave.
        keep: Checkpoints to keep.

    Returns:
        The checkpoint.

    Raises:
        OSError: If it cannot be written; nothing of it is left, and the ones before stay.
    """
    path = folder / f"step_{content['state']['step']:07d}"
    if path.exists():  # the one that this run was continued from: the step decides the content
        return path
    folder.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        with aside.open("wb") as file:
            _write(content, file)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)  # a full disk needs the space
        raise
    for old in checkpoints(folder)[keep:]:
        _remove(old)
    return path


def load_newest(folder: Path, run: str = "", tidy: bool = True) -> tuple[dict[str, Any], Path] | None:
    """Read the newest checkpoint that is whole and of a run; set those aside that are not.

    Args:
        folder: The run's ``checkpoints/``.
        run: Hash of the run's configuration; checkpoints of others may lie here, where somebody copied them.
        tidy: Whether to set broken ones aside, with a warning, and to remove what a kill left; of several
            processes one does.

    Returns:
        What ``snapshot`` gave, and the checkpoint; None where there is no such checkpoint.
    """
    if tidy:
        for aside in folder.glob("*.tmp-*"):
            _remove(aside)
    for path in checkpoints(folder):
        try:
            return _read(path, run), path
        except ValueError as error:
            if tidy:
                _set_aside(path, str(error))
    return None


def restore(
    content: dict[str, Any], path: Path, model: nn.Module, optimizer: Optimizer, scheduler: LambdaLR
) -> None:
    """Put a checkpoint's content into a model, its optimizer and its schedule.

    Raises:
        UsageError: If its weights have other names or shapes than the model's.
    """
    weights = content["weights"]
    for name, tensor in model.state_dict().items():
        if name not in weights or weights[name].shape != tensor.shape:
            saved = tuple(weights[name].shape) if name in weights else "absent"
            raise UsageError(
                f"{path}: {name} is {saved}, and the run's model now has {tuple(tensor.shape)}, so another "
                "version of this project began it; give another --run-name"
            )
    model.load_state_dict(weights)
    optimizer.load_state_dict(content["optimizer"])
    scheduler.load_state_dict(content["scheduler"])


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the weights of one checkpoint.

    Raises:
        UsageError: If it is damaged; names it.
    """
    try:
        return _read(path)["weights"]
    except ValueError as error:
        raise UsageError(f"{path} cannot be read ({error}); remove it, and the others are used") from None


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, newest first."""
    return sorted(folder.glob("step_" + "[0-9]" * 7), reverse=True)


def _write(content: dict[str, Any], file: BinaryIO) -> None:
    try:
        torch.save(content, file)
    except RuntimeError as error:  # of a disk that is full torch tells so, where it ends the zip file
        cause = error.__context__
        raise cause if isinstance(cause, OSError) else OSError(first_line(error)) from error


def _read(path: Path, run: str = "") -> dict[str, Any]:
    """The content of a checkpoint; ``ValueError`` says why there is none that belongs here."""
    try:
        with zipfile.ZipFile(path) as file:
            if damaged := file.testzip():
                raise ValueError(f"{damaged} does not match its checksum")
        content = torch.load(path, map_location="cpu", weights_only=True)
        of, step = content["run"], content["state"]["step"]
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    except Exception as error:  # zipfile, zlib, pickle and torch have errors of their own
        raise ValueError(first_line(error)[:200]) from error
    if run and of not in ("", run):
        raise ValueError("it is of another run")
    if path.name != f"step_{step:07d}":
        raise ValueError(f"it is of step {step}")
    return content


def _set_aside(path: Path, reason: str) -> None:
    broken = path.with_name(f"{path.name}{BROKEN}")
    _remove(broken)
    os.replace(path, broken)
    warnings.warn(
        f"{path} cannot be read ({reason}); the checkpoint before it is used, and this one is kept as "
        f"{broken.name}",
        stacklevel=3,
    )


def _remove(path: Path) -> None:
    """Remove a file, or a folder, which checkpoints of older versions are; it may be gone."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
