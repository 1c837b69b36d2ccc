"""Checkpoints: written aside and renamed, checksummed, without pickles, and while training goes on.

A checkpoint holds weights, optimizer moments, schedule and loop state. No random state is stored, because
what a step draws is a function of the seed and the step (see ``pretrain.data.batches``), and no gradient
scaler, because bf16 needs none.

What a full disk or a kill leaves is a ``*.tmp-<pid>`` folder that the next start removes; a checkpoint that
cannot be read is renamed to ``*.broken``. Neither is ever taken for a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from base.errors import UsageError
from base.files import flush, sha256_of
from base.json_text import parse_json

WEIGHTS, MOMENTS, STATE = FILES = ("model.safetensors", "optimizer.safetensors", "state.json")

CHECKSUMS = "sha256.json"


@dataclass(frozen=True)
class Snapshot:
    """Everything a checkpoint holds, in host memory, where no later step can change it.

    Attributes:
        weights: Parameters and persistent buffers by name; a tied tensor once.
        moments: The optimizer's tensors as ``<parameter>/<key>``.
        scheduler: State of the schedule.
        state: JSON values of the loop; ``state["step"]`` names the checkpoint.
        run: Hash of the configuration of the run that it belongs to; empty where nobody asks.
    """

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    scheduler: dict[str, Any]
    state: dict[str, Any]
    run: str = ""


def take_snapshot(
    model: nn.Module, optimizer: Optimizer, scheduler: LambdaLR, state: dict[str, Any], run: str = ""
) -> Snapshot:
    """Copy what a checkpoint holds; ``model`` is the unwrapped one. A GPU is waited for once."""
    weights = {name: _copy(tensor) for name, tensor in _unique(model).items()}
    moments = {name: _copy(tensor) for name, tensor in _moments(model, optimizer).items()}
    if any(tensor.device.type == "cuda" for tensor in _unique(model).values()):
        torch.cuda.current_stream().synchronize()
    return Snapshot(weights, moments, scheduler.state_dict(), state, run)


def all_finite(model: nn.Module, optimizer: Optimizer) -> bool:
    """Whether every number that a checkpoint would hold is finite; the device is asked once."""
    tensors = [*_unique(model).values(), *_moments(model, optimizer).values()]
    floats = [tensor.detach() for tensor in tensors if tensor.is_floating_point()]
    return math.isfinite(float(nn.utils.get_total_norm(floats, math.inf)))


class CheckpointWriter:
    """Writes checkpoints in a thread of its own, one at a time.

    A checkpoint that cannot be written (a full disk, say) costs a warning and not the run: the ones before
    it stay, and the next one is tried. Any other error ends the run, at the latest in ``wait``.

    Args:
        folder: The run's ``checkpoints/``.
        keep: Checkpoints to keep, newest first.
        newest: The newest one there is.
        sync: A file that must be on the disk before a checkpoint counts.
    """

    def __init__(self, folder: Path, keep: int, newest: Path | None, sync: Path) -> None:
        self.folder, self.keep, self.newest, self.sync = folder, keep, newest, sync
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, snapshot: Snapshot) -> None:
        """Begin to write a checkpoint; waits only for the one before."""
        self.wait()
        self._thread = threading.Thread(target=self._write, args=(snapshot,), name="checkpoint")
        self._thread.start()

    def check(self) -> None:
        """Tell of an error, without waiting."""
        if self._thread is not None and not self._thread.is_alive():
            self.wait()

    def wait(self) -> None:
        """Wait until nothing is being written, and tell of an error."""
        if self._thread is None:
            return
        self._thread.join()
        self._thread, error, self._error = None, self._error, None
        if isinstance(error, OSError):
            kept = f"{self.newest} remains" if self.newest else "there is none yet"
            warnings.warn(
                f"a checkpoint could not be written to {self.folder} ({error.strerror or error}); training "
                f"goes on and the next one is tried, {kept}",
                stacklevel=2,
            )
        elif error is not None:
            raise error

    def _write(self, snapshot: Snapshot) -> None:
        try:
            if self.sync.exists():
                flush(self.sync)
            self.newest = write_checkpoint(self.folder, snapshot, self.keep)
        except BaseException as error:  # handed to the training thread
            self._error = error


def write_checkpoint(folder: Path, snapshot: Snapshot, keep: int) -> Path:
    """Write a checkpoint, then delete the oldest ones.

    Args:
        folder: The run's ``checkpoints/``.
        snapshot: What it holds.
        keep: Checkpoints to keep.

    Returns:
        The folder of the checkpoint.
    """
    final = folder / f"step_{snapshot.state['step']:07d}"
    if final.exists():  # the one that this run was continued from: the step decides the content
        return final
    aside = final.with_name(f"{final.name}.tmp-{os.getpid()}")
    try:
        aside.mkdir(parents=True)
        _fill(aside, snapshot)
        os.replace(aside, final)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)  # a full disk needs the space
        raise
    flush(folder)
    for old in checkpoints(folder)[keep:]:
        shutil.rmtree(old)
    return final


def _fill(folder: Path, snapshot: Snapshot) -> None:
    try:
        safetensors.torch.save_file(snapshot.weights, folder / WEIGHTS)
        safetensors.torch.save_file(snapshot.moments, folder / MOMENTS)
    except safetensors.SafetensorError as error:  # how it tells of a full disk
        raise OSError(str(error)) from error
    state = {"state": snapshot.state, "scheduler": snapshot.scheduler, "run": snapshot.run}
    (folder / STATE).write_text(json.dumps(state, indent=2))
    checksums = {name: sha256_of(folder / name) for name in FILES}
    (folder / CHECKSUMS).write_text(json.dumps(checksums, indent=2))
    for path in (*folder.iterdir(), folder):
        flush(path)


def load_newest(
    folder: Path,
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LambdaLR,
    tidy: bool = True,
    run: str = "",
) -> tuple[dict[str, Any], Path] | None:
    """Restore the newest checkpoint that is whole and of this run; set those aside that are not.

    Args:
        folder: The run's ``checkpoints/``.
        model: The unwrapped model.
        optimizer: Its optimizer.
        scheduler: Its schedule.
        tidy: Whether to set broken ones aside, with a warning, and to remove what a kill left; of several
            processes one does.
        run: Hash of the run's configuration; checkpoints of others may lie here, where somebody copied them.

    Returns:
        The state saved with it and its folder, or None where there is no such checkpoint.

    Raises:
        UsageError: If its weights have other shapes than the model's.
    """
    if tidy:
        for aside in folder.glob("*.tmp-*"):  # a process was killed while it wrote
            shutil.rmtree(aside, ignore_errors=True)
    for path in checkpoints(folder):
        try:
            content = _read_checked(path, run)
        except (OSError, ValueError, KeyError, AttributeError) as error:
            if tidy:
                _set_aside(path, error)
            continue
        saved = parse_json(content[STATE])
        _restore_weights(model, safetensors.torch.load(content[WEIGHTS]), path)
        _restore_moments(model, optimizer, safetensors.torch.load(content[MOMENTS]))
        scheduler.load_state_dict(saved["scheduler"])
        for group, rate in zip(scheduler.optimizer.param_groups, scheduler.get_last_lr(), strict=True):
            group["lr"] = rate
        return saved["state"], path
    return None


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the weights of one checkpoint, whose files are compared with their checksums.

    Raises:
        UsageError: If it is damaged; names it.
    """
    try:
        return safetensors.torch.load(_read_checked(path, "")[WEIGHTS])
    except (OSError, ValueError, KeyError, AttributeError, safetensors.SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"{path} cannot be read ({reason}); remove it, and the others are used") from None


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, newest first."""
    return sorted(folder.glob("step_" + "[0-9]" * 7), reverse=True)


def _read_checked(path: Path, run: str) -> dict[str, bytes]:
    """The files of a checkpoint, each compared with its checksum, and the run that it was written by."""
    checksums = parse_json((path / CHECKSUMS).read_bytes())
    content = {name: (path / name).read_bytes() for name in FILES}
    for name, data in content.items():
        if hashlib.sha256(data).hexdigest() != checksums.get(name):
            raise ValueError(f"{name} does not match its checksum")
    if run and parse_json(content[STATE]).get("run") not in (None, "", run):
        raise ValueError("it is of another run")
    return content


def _set_aside(path: Path, error: Exception) -> None:
    reason = error.strerror if isinstance(error, OSError) else error
    if isinstance(error, OSError) and error.filename:
        reason = f"{Path(error.filename).name}: {reason}"
    broken = path.with_name(f"{path.name}.broken")
    shutil.rmtree(broken, ignore_errors=True)
    os.replace(path, broken)
    warnings.warn(
        f"{path} cannot be read ({reason}); the checkpoint before it is used, and this one is kept as "
        f"{broken.name}",
        stacklevel=3,
    )


def _copy(tensor: Tensor) -> Tensor:
    """A copy in host memory; of a GPU's tensor, which is not there yet."""
    if tensor.device.type != "cuda":
        return tensor.detach().to("cpu", copy=True).contiguous()
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return pinned.copy_(tensor.detach(), non_blocking=True)


def _unique(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; a tied tensor once, under its first name."""
    unique: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        unique.setdefault(id(tensor), (name, tensor))
    return dict(unique.values())


def _restore_weights(model: nn.Module, saved: dict[str, Tensor], path: Path) -> None:
    with torch.no_grad():
        for name, tensor in _unique(model).items():
            if saved[name].shape != tensor.shape:
                raise UsageError(
                    f"{path}: {name} is {tuple(saved[name].shape)}, and the run's model now has "
                    f"{tuple(tensor.shape)}, so another version of this project began it; give another "
                    "--run-name"
                )
            tensor.copy_(saved[name])


def _moments(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _restore_moments(model: nn.Module, optimizer: Optimizer, saved: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for name, value in saved.items():
        parameter, _, key = name.rpartition("/")
        # Beside the parameter, where an optimizer on a GPU keeps all of it (see pretrain.training.optim).
        optimizer.state[parameters[parameter]][key] = value.to(parameters[parameter].device)
