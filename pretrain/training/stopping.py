"""What ends a run before its last step: a signal, or a loss that diverges.

SIGTERM, SIGUSR1 and SIGUSR2 end it after the step it is at, with a checkpoint. A scheduler sends one of them
some time before it kills. Nothing is done inside the handler but to remember the signal, so that no step is
left half done.

A run that diverges is marked as failed, and the same command refuses to repeat it.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from base.records import peek_record, write_record
from base.run.folder_names import RunFolder
from base.system import STOP_SIGNALS

ADVICE = "lower --optim.learning-rate or --optim.max-grad-norm, or add --optim.warmup-steps"
"""For a run that diverged."""

EXIT_STOPPED = os.EX_TEMPFAIL
"""Exit code 75 of a run that was told to stop and can be continued: a temporary failure to sysexits.h."""


class Stopped(SystemExit):
    """A signal ended a run; the process ends with ``EXIT_STOPPED`` unless this is caught.

    Args:
        message: What happened and how to go on, in one line.
        signum: The signal.
    """

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(EXIT_STOPPED)
        self.message = message
        self.signum = signum

    def __str__(self) -> str:
        return self.message

    def hand_on(self) -> None:
        """Give the signal to the handler that was there before the run, where one was.

        A job launcher's own handler may queue the job again, which it must not do before the checkpoint lies
        on the disk.
        """
        if callable(signal.getsignal(self.signum)):
            signal.raise_signal(self.signum)


class StopRequest:
    """The signal to stop that the process got, if any.

    Attributes:
        signum: The first such signal; None so far.
        is_answered: Whether the run ended because of it.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self.is_answered = False

    def stopped(self, message: str) -> Stopped:
        """The exception to end the run with."""
        assert self.signum is not None
        self.is_answered = True
        return Stopped(message, self.signum)

    def _remember(self, signum: int, _frame: Any) -> None:
        if self.signum is None:
            self.signum = signum


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Catch the signals inside the block; the handlers of before are back after it.

    A signal that the block did not answer, because it was at its end, is sent again to the old handler.
    Outside the main thread Python allows no handlers, and nothing is caught.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {signum: signal.signal(signum, request._remember) for signum in STOP_SIGNALS}
    try:
        yield request
    finally:
        for signum, handler in before.items():
            # None stands for a handler that was not set from Python and cannot be put back from it.
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        if request.signum is not None and not request.is_answered:
            signal.raise_signal(request.signum)


class Diverged(Exception):  # noqa: N818  an event, as Stopped is
    """A run diverged.

    Attributes:
        step: The number of the step at fault, counted from 1.
        problem: What is wrong with it.
    """

    def __init__(self, step: int, problem: str) -> None:
        super().__init__(f"{problem} at step {step}")
        self.step, self.problem = step, problem


def find_problem(
    losses: Sequence[float], grad_norms: Sequence[float], step: int, limit: float
) -> Diverged | None:
    """Look for what no run recovers from in the steps since the last logged line.

    Args:
        losses: Loss of each of those steps, in nats per target token.
        grad_norms: Norm of the gradient of each, before it was clipped.
        step: Steps done.
        limit: The mean loss above which a run has exploded.
    """
    first = step - len(losses) + 1
    for number, (loss, norm) in enumerate(zip(losses, grad_norms, strict=True), start=first):
        if not math.isfinite(loss) or not math.isfinite(norm):
            return Diverged(number, f"the loss is {loss:.4g} and the norm of the gradient {norm:.4g}")
    mean = sum(losses) / len(losses) if losses else 0.0
    if mean > limit:
        norm = max(grad_norms)
        return Diverged(
            step,
            f"the loss is {mean:.4g} and had to stay below {limit:.4g}, with gradients of a norm up to "
            f"{norm:.4g},",
        )
    return None


def mark_failed(path: Path, diverged: Diverged, newest_checkpoint: Path | None) -> None:
    """Write into the folder of a run that it diverged."""
    record = {
        "step": diverged.step,
        "problem": diverged.problem,
        "last_good_checkpoint": newest_checkpoint.name if newest_checkpoint else None,
    }
    write_record(RunFolder(path).failure_marker, record)


def describe_failure(path: Path) -> str | None:
    """Why the run in a folder failed and what to do about it, in one line; None if it did not."""
    run = RunFolder(path)
    if not run.has_diverged:
        return None
    record = {"problem": "its marker cannot be read, the loss diverged", "step": "unknown"}
    record |= peek_record(run.failure_marker)
    start = record.get("last_good_checkpoint") or "the beginning"
    return (
        f"{path} failed: {record['problem']} at step {record['step']}; {ADVICE}, which is another run, or "
        f"remove {run.failure_marker} to repeat this one from {start}"
    )
