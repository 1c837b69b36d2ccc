"""Measuring units of work, here or in several processes of one thread each.

Several processes of one thread are faster than one with several: the matrices of a 10M-parameter model are
too small to share. A worker is told a run and the key of a unit, and sends back its results; it writes
nothing, so that killing any process at any moment loses only the units that were under way.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from base.errors import UsageError, as_usage_error
from eval.config import EvalConfig
from eval.models.identity import admit_run, identify_run
from eval.models.memory import share_devices
from eval.runner.measure import measure
from eval.runner.work_units import Work, work_units
from eval.zero_shot.task import TaskResult

MAX_ATTEMPTS = 2


@dataclass(frozen=True)
class Order:
    """One unit of work of one run."""

    run_dir: Path
    key: str


Results = dict[str, TaskResult]
TellUnit = Callable[[Order, str], None]


class WorkerError(RuntimeError):
    """A defect that showed in a worker; its message is the traceback from there."""


def measure_here(units: Mapping[Order, Work], tell: TellUnit) -> Iterator[tuple[Order, Results | Exception]]:
    """Measure units one after the other in this process; an error is an outcome too."""
    for order, work in units.items():
        tell(order, "")
        try:
            outcome: Results | Exception = measure(work, partial(tell, order))
        except Exception as error:
            outcome = as_usage_error(error)
        yield order, outcome


def measure_in_workers(
    orders: Sequence[Order],
    config: EvalConfig,
    num_workers: int,
    tell: TellUnit,
    trust_remote_code: bool = False,
) -> Iterator[tuple[Order, Results | Exception]]:
    """Measure units in several processes, in whichever order they end.

    A unit whose process was killed is tried once more in a new one.

    Args:
        orders: The units.
        config: What is evaluated, and how.
        num_workers: Processes at a time, at most one a unit.
        tell: Told which unit is under way and how it goes.
        trust_remote_code: Whether to run FFN variants that the runs bring.

    Yields:
        Each unit with its results, or with the error that ended it.
    """
    waiting = deque((order, 1) for order in orders)
    with ExitStack() as stop:
        number = min(num_workers, len(orders))
        workers = [stop.enter_context(_Worker(config, trust_remote_code, number)) for _ in range(number)]
        while True:
            for worker in workers:
                if worker.order is None and waiting:
                    order, attempt = waiting.popleft()
                    worker.start(order, attempt)
                    tell(order, "")
            busy = [worker for worker in workers if worker.order is not None]
            if not busy:
                return
            ready = wait([worker.connection for worker in busy])
            for worker in busy:
                if worker.connection not in ready:
                    continue
                order, attempt = worker.order, worker.attempt
                assert order is not None
                answer = worker.receive()
                if isinstance(answer, str):
                    tell(order, answer)
                elif answer is not None:
                    yield order, answer
                elif attempt < MAX_ATTEMPTS:
                    waiting.append((order, attempt + 1))
                else:
                    yield order, _killed(attempt, worker.last_exit)


def _killed(times: int, exit_code: int | None) -> UsageError:
    return UsageError(
        f"its process was killed {times} times (exit code {exit_code}), often for lack of memory; "
        "try again with --workers 1"
    )


class _Worker:
    """A process and what it is at; replaced by a new one where it was killed."""

    def __init__(self, config: EvalConfig, trust_remote_code: bool, num_workers: int) -> None:
        self._given = (config, trust_remote_code, num_workers)
        self.order: Order | None = None
        self.attempt = 0
        self.last_exit: int | None = None

    def __enter__(self) -> _Worker:
        # A forked process would inherit locks that threads of this one hold, and could not use CUDA.
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_work, args=(theirs, *self._given), daemon=True)
        self._process.start()
        theirs.close()
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self._process.terminate()
        self._process.join()

    def start(self, order: Order, attempt: int) -> None:
        self.order, self.attempt = order, attempt
        self.connection.send(order)

    def receive(self) -> str | Results | Exception | None:
        """Return a message, or what a unit ended with; None where the process has died."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            self.__exit__()
            self.last_exit, self.order = self._process.exitcode, None
            self.__enter__()
            return None
        if not isinstance(answer, str):
            self.order = None
        return answer


def _work(connection: Connection, config: EvalConfig, trust_remote_code: bool, num_workers: int) -> None:
    """Measure what is asked for until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    share_devices(num_workers)  # a GPU has room for so many

    # A run's units come one after another, so it is looked at once for all of them.
    @lru_cache(maxsize=2)
    def units_of(run_dir: Path) -> dict[str, Work]:
        admit_run(run_dir, trust_remote_code)
        return {work.key: work for work in work_units(run_dir, identify_run(run_dir), config)}

    while True:
        try:
            order = connection.recv()
        except EOFError:
            return
        try:
            outcome: Results | Exception = measure(units_of(order.run_dir)[order.key], connection.send)
        except BrokenPipeError:
            return  # the process that asked has died
        except Exception as error:
            told = as_usage_error(error)
            outcome = told if isinstance(told, UsageError) else WorkerError(traceback.format_exc())
        connection.send(outcome)
