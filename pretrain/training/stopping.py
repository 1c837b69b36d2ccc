"""Being told to stop: SIGTERM, SIGUSR1 and SIGUSR2 end a run after the step it is at, with a checkpoint.

A scheduler sends one of them some time before it kills. Nothing is done inside the handler but to remember
the signal, so that no step is left half done.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from base.system import STOP_SIGNALS

EXIT_STOPPED = os.EX_TEMPFAIL
"""Exit code 75 of a run that was told to stop and can be continued: a temporary failure to sysexits.h."""


class Stopped(SystemExit):
    """A run ended because it was told to; the process ends with ``EXIT_STOPPED`` unless this is caught.

    Args:
        message: What happened and how to go on, in one line.
        signum: The signal that asked for it.
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
    """Whether the process was told to stop.

    Attributes:
        signum: The first such signal; None so far.
        answered: Whether the run ended because of it.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self.answered = False

    def stopped(self, message: str) -> Stopped:
        """The exception to end the run with."""
        assert self.signum is not None
        self.answered = True
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
    try:
        with _handled_by(request._remember):
            yield request
    finally:
        if request.signum is not None and not request.answered:
            signal.raise_signal(request.signum)


@contextlib.contextmanager
def stopped_between_runs() -> Iterator[None]:
    """End the process with ``EXIT_STOPPED`` also where a signal finds no run that would answer it."""

    def stop(signum: int, _frame: Any) -> None:
        message = f"stopped by {signal.Signals(signum).name} between two runs; the same command continues"
        print(message, flush=True)
        raise Stopped(message, signum)

    with _handled_by(stop):
        yield


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, Any], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.signal(signum, handler) for signum in STOP_SIGNALS}
    try:
        yield
    finally:
        for signum, old in before.items():
            # None stands for a handler that was not set from Python and cannot be put back from it.
            signal.signal(signum, signal.SIG_DFL if old is None else old)
