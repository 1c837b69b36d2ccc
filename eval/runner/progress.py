"""What a user sees while runs are scored: a bar in a terminal, one line a task anywhere else."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType

from base.progress import ProgressBar, duration
from scores.run_scores import decimals

# Without a terminal, a unit that takes long says how it goes every so often.
LINE_EVERY_S = 60.0


class UnitProgress:
    """Shows units of work as they are measured, and how long the rest will take.

    Args:
        costs: For each unit, known by (run, unit), a guess of its seconds.
        num_workers: How many are measured at a time.
        enabled: Say nothing at all where false.
    """

    def __init__(
        self, costs: Mapping[tuple[str, str], float], num_workers: int = 1, enabled: bool = True
    ) -> None:
        self._num_workers = num_workers
        self._left = dict(costs)
        self._total = len(costs)
        self._started: dict[tuple[str, str], float] = {}
        self._said: dict[tuple[str, str], float] = {}
        # Seconds and cost of what is finished, by benchmark: scoring and fine-tuning have their own prices.
        self._spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        form = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
        self._bar = ProgressBar(self._total, "task", shown=enabled, to_stderr=True, form=form)

    def __enter__(self) -> UnitProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def detail(self, run: str, unit: str, message: str) -> None:
        """Say how a unit goes; the first message starts its clock."""
        now = time.perf_counter()
        self._started.setdefault((run, unit), now)
        last = self._said.setdefault((run, unit), now)
        if self._bar.is_drawn:
            self._bar.show_beside(f"{self.eta()}, {run} {unit} {message}".rstrip())
        elif message and now - last > LINE_EVERY_S:
            self._said[run, unit] = now
            self.say(f"{self._count()} {run} {unit}: {message}")

    def finish(self, run: str, unit: str, scores: Mapping[str, Mapping[str, float]]) -> None:
        """Say what came out of a unit: the metrics of its tasks; none where it failed."""
        cost = self._left.pop((run, unit))
        took_s = time.perf_counter() - self._started[run, unit]
        spent = self._spent[_benchmark(unit)]
        spent[0] += took_s
        spent[1] += cost
        for task, metrics in scores.items():
            values = ", ".join(f"{name} {score:.{decimals(name)}f}" for name, score in metrics.items())
            said = f"{self._count()} {run} {task}: {values} ({duration(took_s)})"
            self._bar.say(said, is_result=True)
        self._bar.advance()

    def eta(self) -> str:
        """Say how long the rest will take, by what was measured so far."""
        if not self._left:
            return "done"
        seconds, cost = map(sum, zip(*self._spent.values(), strict=True)) if self._spent else (0.0, 0.0)
        if not cost:
            return "time left not known yet"
        left_s = 0.0
        for (_, unit), remaining in self._left.items():
            own = self._spent.get(_benchmark(unit), [seconds, cost])
            left_s += remaining * own[0] / own[1] / self._num_workers
        return f"about {duration(left_s)} left"

    def say(self, message: str) -> None:
        """Print a line that stays."""
        self._bar.say(message)

    def _count(self) -> str:
        return f"[{self._total - len(self._left)}/{self._total}, {self.eta()}]"


def _benchmark(unit: str) -> str:
    return unit.split("/", 1)[0]
