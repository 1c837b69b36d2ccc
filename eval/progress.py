"""What a user sees while a run is scored: a bar in a terminal, one line a task anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType

from tqdm import tqdm


class Progress:
    """Shows the tasks of one run as they are scored.

    Args:
        title: Names the run.
        num_tasks: How many tasks are to be scored; tasks that share a fine-tuned model count as one.
        enabled: Say nothing at all where false.
    """

    def __init__(self, title: str, num_tasks: int, enabled: bool = True) -> None:
        self._enabled = enabled
        self._title, self._num_tasks, self._num_started = title, num_tasks, 0
        self._task = ""
        in_terminal = enabled and sys.stderr.isatty() and num_tasks > 0
        self._bar = (
            tqdm(total=num_tasks, desc=title, unit="task", dynamic_ncols=True) if in_terminal else None
        )

    def __enter__(self) -> Progress:
        if self._enabled and not self._num_tasks:
            self.say(f"{self._title}: everything asked for is scored already")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def start(self, task: str) -> None:
        """Say which task is being scored."""
        self._num_started += 1
        self._task, self._started_s = task, time.perf_counter()
        self.detail("")

    def detail(self, message: str) -> None:
        """Say how the current task goes; only the bar shows this."""
        if self._bar is not None:
            self._bar.set_postfix_str(f"{self._task} {message}".rstrip())

    def finish(self, task: str, metrics: Mapping[str, float]) -> None:
        """Say what came out of a task."""
        scores = ", ".join(f"{name} {score:.1f}" for name, score in metrics.items())
        took_s = time.perf_counter() - self._started_s
        self.say(f"[{self._num_started}/{self._num_tasks}] {self._title} {task}: {scores} ({took_s:.0f} s)")

    def end(self) -> None:
        """Count the current task as scored."""
        if self._bar is not None:
            self._bar.update()

    def say(self, message: str) -> None:
        """Print a line that stays."""
        if not self._enabled:
            return
        if self._bar is not None:
            self._bar.write(message, file=sys.stderr)
        else:
            print(message, file=sys.stderr, flush=True)
