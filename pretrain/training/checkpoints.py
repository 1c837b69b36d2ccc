"""Where a run stands, and the checkpoints of it: one file each, written aside and renamed.

A checkpoint holds weights, optimizer, schedule and loop state. No random state is stored, because what a step
draws is a function of the seed and the step (see ``pretrain.data.step_batches``), and no gradient scaler,
because bf16 needs none. The format is ``torch.save``'s, a zip file that holds a checksum of each part.

What a kill leaves is a ``*.tmp-<pid>`` file that the next start removes; a checkpoint that cannot be read is
renamed to ``*.broken``. Neither is ever taken for a checkpoint.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from base.errors import UsageError, first_line
from base.files import remove_leftovers, write_atomically
from base.records import set_aside


@dataclass
class LoopState:
    """What a checkpoint stores beside weights, moments and schedule.

    Attributes:
        step: Optimizer updates done.
        tokens: Tokens trained on, without padding.
        time_s: Seconds spent, over all sessions.
        compile_s: How many of them went into compiling kernels.
        losses: Losses of the steps since the last logged line, in nats per target token.
        grad_norms: Gradient norms of the same steps, before clipping.
        first_loss: Loss of the first step, which is that of the untrained model.
    """

    step: int = 0
    tokens: int = 0
    time_s: float = 0.0
    compile_s: float = 0.0
    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    first_loss: float | None = None

    def fetch(self, unread: list[Tensor]) -> None:
        """Fetch what the device has computed since, and forget where it was; this waits for the device.

        Args:
            unread: What updates returned: (2,) loss and gradient norm of each.
        """
        if unread:
            for loss, grad_norm in torch.stack(unread).tolist():
                self.losses.append(loss)
                self.grad_norms.append(grad_norm)
            unread.clear()
        if self.first_loss is None and self.losses:
            self.first_loss = self.losses[0]

    def take_means(self) -> dict[str, float]:
        """Loss and gradient norms of the steps since the last logged line, for the line that is due."""
        losses, norms = list(self.losses), list(self.grad_norms)
        self.losses.clear()
        self.grad_norms.clear()
        return {
            "loss": sum(losses) / len(losses),
            "grad_norm": sum(norms) / len(norms),
            "grad_norm_max": max(norms),
        }


def snapshot(
    model: nn.Module, optimizer: Optimizer, scheduler: LambdaLR, state: dict[str, Any], run: str = ""
) -> dict[str, Any]:
    """Return what a checkpoint holds; the tensors are those of the model, no copies.

    Args:
        model: The unwrapped model.
        optimizer: Its optimizer.
        scheduler: Its schedule.
        state: Of the loop; ``state["step"]`` names the checkpoint.
        run: Hash of the configuration of the run that it belongs to.
    """
    return {
        "weights": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "state": state,
        "run": run,
    }


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
    if not path.exists():  # else this run was continued from it: the step decides the content
        write_atomically(path, lambda aside: _write(content, aside))
        for old in checkpoints(folder)[keep:]:
            old.unlink()
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
        remove_leftovers(folder)
    for path in checkpoints(folder):
        try:
            return _read(path, run), path
        except ValueError as error:
            if tidy:
                set_aside(path, f"{error}; the checkpoint before it is used")
    return None


def restore(
    content: dict[str, Any], path: Path, model: nn.Module, optimizer: Optimizer, scheduler: LambdaLR
) -> LoopState:
    """Put a checkpoint's content into a model, its optimizer and its schedule; returns where the loop was.

    Raises:
        UsageError: If its weights have other names or shapes than the model's, or its state other fields.
    """
    try:
        model.load_state_dict(content["weights"])
        state = LoopState(**content["state"])
    except (RuntimeError, TypeError) as error:
        raise UsageError(
            f"{path} was written by another version of this project ({' '.join(str(error).split())[:300]}); "
            "give another --run-name"
        ) from None
    optimizer.load_state_dict(content["optimizer"])
    scheduler.load_state_dict(content["scheduler"])
    return state


def all_finite(model: nn.Module) -> bool:
    """Whether every weight is a number; waits for the device."""
    return bool(torch.stack([parameter.isfinite().all() for parameter in model.parameters()]).all())


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, newest first."""
    return sorted(folder.glob("step_" + "[0-9]" * 7), reverse=True)


def newest_step(folder: Path) -> int:
    """The step of the newest checkpoint; 0 where there is none."""
    newest = checkpoints(folder)
    return int(newest[0].name.removeprefix("step_")) if newest else 0


def _write(content: dict[str, Any], path: Path) -> None:
    try:
        with path.open("wb") as file:
            torch.save(content, file)
    except RuntimeError as error:  # torch's, where it ends the zip file on a disk that is full
        cause = error.__context__
        raise cause if isinstance(cause, OSError) else OSError(first_line(error)) from error


def _read(path: Path, run: str) -> dict[str, Any]:
    """The content of a checkpoint; ``ValueError`` says why there is none that belongs here."""
    try:
        with zipfile.ZipFile(path) as file:
            if part := file.testzip():
                raise ValueError(f"{part} does not match its checksum")
        content = torch.load(path, map_location="cpu", weights_only=True)
        recorded_run = content["run"]
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    except Exception as error:  # zipfile, zlib, pickle and torch have errors of their own
        raise ValueError(first_line(error)[:200]) from error
    if recorded_run != run:
        raise ValueError("it is of another run")
    return content
