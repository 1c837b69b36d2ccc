"""``metrics.jsonl`` and what is shown while a run goes on."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from base.files import write_text
from base.printing import ProgressBar, duration
from base.records import parse_json

SECONDS_BETWEEN_LINES = 5.0
"""In a log file, more lines than this tell nobody anything."""


class MetricsFile:
    """The JSON lines of a run, one object per logged step or evaluation.

    Args:
        path: The file.
        last_step: Lines of later steps are dropped: a resumed run writes them again.
    """

    def __init__(self, path: Path, last_step: int) -> None:
        self.path = path
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            write_text(path, "".join(f"{line}\n" for line in lines if _step(line) <= last_step))

    def append(self, values: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


class StepProgress(ProgressBar):
    """Where a training stands: loss, speed and the time that remains, in the process that reports.

    Args:
        max_steps: Steps of the run.
        step: Steps already done.
        shown: Whether this process reports.
        name: What stands in front of the bar.
    """

    def __init__(self, max_steps: int, step: int, shown: bool, name: str | None = None) -> None:
        super().__init__(max_steps, "step", done=step, name=name, shown=shown)
        self.max_steps = max_steps
        self.first_step = step
        self.started = time.perf_counter()
        self.last_line = -math.inf

    def show(self, values: dict[str, Any]) -> None:
        """Show a logged step: beside the bar, or as a line every ``SECONDS_BETWEEN_LINES``."""
        text = (
            f"loss {values['loss']:.4f}, perplexity {perplexity(values['loss']):.1f}, "
            f"lr {values['learning_rate']:.2e}, {values['tokens_per_s']:,.0f} tokens/s"
        )
        if self.is_drawn:
            self.show_beside(text)
            return
        now, step = time.perf_counter(), values["step"]
        if now - self.last_line >= SECONDS_BETWEEN_LINES or step == self.max_steps:
            self.last_line = now
            remaining_s = (now - self.started) / max(1, step - self.first_step) * (self.max_steps - step)
            self.say(f"step {step}/{self.max_steps}: {text}, {duration(remaining_s)} left", is_result=True)


class Timer:
    """Seconds since the start, and tokens per second of training since the rate was last read."""

    def __init__(self) -> None:
        self.started = self.interval_start = time.perf_counter()
        self.tokens = 0

    def elapsed(self) -> float:
        """Seconds since the start, everything included."""
        return time.perf_counter() - self.started

    def tokens_per_s(self) -> float:
        """Tokens counted since the last call over the seconds since then, without pauses."""
        now = time.perf_counter()
        rate = self.tokens / max(1e-9, now - self.interval_start)
        self.interval_start, self.tokens = now, 0
        return rate

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave an evaluation or a checkpoint out of the rate."""
        start = time.perf_counter()
        yield
        self.leave_out(time.perf_counter() - start)

    def leave_out(self, seconds: float) -> None:
        """Leave seconds of this interval out of the rate."""
        self.interval_start += seconds


def perplexity(loss: float) -> float:
    """Exponential of a mean loss in nats; infinite where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf


def _step(line: str) -> float:
    """Step of a line; infinite for a line cut off by a kill."""
    try:
        return parse_json(line)["step"]
    except (ValueError, KeyError, TypeError):
        return math.inf
