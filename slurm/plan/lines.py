"""A study's plan as data: lines of like runs, their stages, and what all of it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Work = Literal["training", "evaluation"]


@dataclass(frozen=True)
class Hours:
    """How long one run takes, in hours, and how that is known.

    Attributes:
        hours: Of one run.
        source: In words: a device and what was measured on it.
        is_measured: Whether runs of this very shape were timed, whole or for some steps.
    """

    hours: float
    source: str
    is_measured: bool


@dataclass(frozen=True)
class PlanLine:
    """Runs that cost the same.

    Attributes:
        places: Axes of the study beside the variant, and the level on each.
        runs: How many of them there are.
        tokens: Tokens that a run reads, each as often as it is read; None where that is not known.
        flops: Floating-point operations of a run, backward passes included; None where not known.
        hours: How long a run takes; None where nothing tells.
        note: What a reader must know of the numbers.
        parameters: Of the model that is trained; None of an evaluation.
    """

    work: Work
    family: str
    variant: str
    places: tuple[tuple[str, str], ...]
    runs: int
    tokens: int | None
    flops: float | None
    hours: Hours | None
    note: str = ""
    parameters: int | None = None

    @property
    def place(self) -> str:
        """Its levels, as ``0.5M, 4M``."""
        return ", ".join(level for _, level in self.places)


@dataclass(frozen=True)
class PlanStage:
    """What is done together.

    Attributes:
        is_certain: Whether it is run in any case; otherwise it is the most that may be added.
    """

    name: str
    lines: tuple[PlanLine, ...]
    is_certain: bool = True


@dataclass(frozen=True)
class Machines:
    """What the runs share.

    Attributes:
        parallel: Runs at the same time; None for all of them.
        gpus_per_run: GPUs that a run has, a part of one where several share it; 0 on a CPU.
        jobs_have_machines: Whether each run occupies a machine of its own; here all share one.
        price_per_hour: Of a GPU, or of a machine without; None where none was given.
    """

    parallel: int | None = 1
    gpus_per_run: float = 0.0
    jobs_have_machines: bool = False
    price_per_hour: float | None = None


@dataclass(frozen=True)
class Totals:
    """Sums over lines.

    Attributes:
        runs: Runs that are trained, or scored where none is trained.
        hours: Of all runs, one after the other, as far as they are known.
        wall_hours: From the first to the last, at what is done at the same time; stages wait for each other.
        price: In the unit of the price per hour; None where none was given.
        unknown: Runs of which nothing tells how long their training or their evaluation takes.
    """

    runs: int = 0
    tokens: int = 0
    flops: float = 0.0
    hours: float = 0.0
    gpu_hours: float = 0.0
    wall_hours: float = 0.0
    price: float | None = None
    unknown: int = 0


@dataclass(frozen=True)
class StudyPlan:
    """All that a study is to run: stages in the order in which they are run."""

    stages: tuple[PlanStage, ...]
    machines: Machines = Machines()
    notes: tuple[str, ...] = ()

    def of_work(self, work: Work) -> Totals:
        """Return what the certain stages' training comes to, or their evaluation."""
        parts = [
            totals([line for line in stage.lines if line.work == work], self.machines)
            for stage in self.stages
            if stage.is_certain
        ]
        return summed(parts)

    def of_stage(self, stage: PlanStage) -> Totals:
        """Return what one stage comes to."""
        return totals(stage.lines, self.machines)

    def in_all(self, most: bool = False) -> Totals:
        """Return what is run in any case, or the most that may be run."""
        return summed([self.of_stage(stage) for stage in self.stages if stage.is_certain or most])


def totals(lines: Sequence[PlanLine], machines: Machines) -> Totals:
    """Add up lines that are run together."""
    runs = _runs(lines)
    known = [(line.runs, line.hours.hours) for line in lines if line.hours]
    hours = sum(number * each for number, each in known)
    wall = _wall_hours(lines, hours, runs, machines.parallel)
    gpu_hours = hours * machines.gpus_per_run
    return Totals(
        runs=runs,
        tokens=sum(line.runs * (line.tokens or 0) for line in lines),
        flops=sum(line.runs * (line.flops or 0) for line in lines),
        hours=hours,
        gpu_hours=gpu_hours,
        wall_hours=wall,
        price=_price(machines, hours, gpu_hours, wall),
        unknown=_runs([line for line in lines if line.hours is None]),
    )


def summed(parts: Sequence[Totals]) -> Totals:
    """Add up what is run one after the other."""
    prices = [part.price for part in parts if part.price is not None]
    return Totals(
        runs=sum(part.runs for part in parts),
        tokens=sum(part.tokens for part in parts),
        flops=sum(part.flops for part in parts),
        hours=sum(part.hours for part in parts),
        gpu_hours=sum(part.gpu_hours for part in parts),
        wall_hours=sum(part.wall_hours for part in parts),
        price=sum(prices) if prices else None,
        unknown=sum(part.unknown for part in parts),
    )


def _runs(lines: Sequence[PlanLine]) -> int:
    """Count each run once, though it is trained and evaluated."""
    trained = sum(line.runs for line in lines if line.work == "training")
    evaluated = sum(line.runs for line in lines if line.work == "evaluation")
    return max(trained, evaluated)


def _wall_hours(lines: Sequence[PlanLine], hours: float, runs: int, parallel: int | None) -> float:
    """Hours until the last run has ended: shared evenly, but no less than the longest takes."""
    longest = 0.0
    for work in ("training", "evaluation"):
        longest += max((line.hours.hours for line in lines if line.work == work and line.hours), default=0.0)
    at_once = min(runs, parallel or runs) or 1
    return max(longest, hours / at_once)


def _price(machines: Machines, hours: float, gpu_hours: float, wall_hours: float) -> float | None:
    if machines.price_per_hour is None:
        return None
    if machines.gpus_per_run:
        return machines.price_per_hour * gpu_hours
    return machines.price_per_hour * (hours if machines.jobs_have_machines else wall_hours)
