"""What is said of one suite: its tasks, its metrics, its means, and who finds its tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Literal

Kind = Literal["minimal pairs", "choices", "text", "classification"]
Better = Literal["higher", "lower"]
Unit = Literal["percent", "nats", "bits per byte", "ratio", "correlation"]
PERCENTAGES: tuple[Unit | None, ...] = ("percent", "correlation")
"""Units whose scores share the scale of percentages."""
USUAL_MARGINS: dict[Unit, float] = {"percent": 1.0, "correlation": 1.0, "nats": 0.02, "bits per byte": 0.002}
"""The largest difference called negligible where nobody names one.

0.02 nats a token are 2% of a perplexity; public leaderboards of bits per byte count steps of thousandths.
What is negligible in a ratio depends on the ratio.
"""


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """One metric of a suite, or of any task.

    Attributes:
        name: As in rows. A name with it at the start of a word, as ``pseudo_perplexity`` has ``perplexity``,
            has its unit, too.
        better: Which scores are better; None where a number only describes, as the share of ties does.
        unit: None where it comes without one. Rows hold a correlation times 100, so that it shares an axis
            with percentages.
        chance: What guessing scores, in the row's scale; None where that depends on the task or has no
            meaning.
        margin: The largest difference that is negligible, in the row's scale; None takes the unit's.
    """

    name: str
    better: Better | None
    unit: Unit | None
    chance: float | None = None
    margin: float | None = None


@dataclass(frozen=True, kw_only=True)
class MeanSpec:
    """A mean that a suite is summed up by, called ``mean of <how many> <of>``.

    Attributes:
        of: What it is over, in the plural.
        over: Tasks, groups of tasks (each the mean of its own), or paradigms, of which a task may hold
            several and which only its items tell.
        metric: The metric that is averaged; None is each task's primary one.
        tasks: Only these; None is all that were scored.
    """

    of: str
    over: Literal["task", "group", "paradigm"] = "task"
    metric: str | None = None
    tasks: tuple[str, ...] | None = None


MEAN_OF_TASKS = MeanSpec(of="tasks")


@dataclass(frozen=True, kw_only=True)
class SuiteSpec:
    """One suite.

    Attributes:
        name: As typed after ``--suites``, and as ``benchmark`` in rows.
        label: What ``--help`` says of it beside its name; may be empty.
        kind: What a model is asked: to prefer one of two sentences, to choose a continuation, to predict a
            text, or, fine-tuned, to name a class.
        finder: Lists the suite's tasks, ``module:function``, called with the suite's name, the
            ``EvalConfig`` and the run's folder, or None where no run is at hand. A name, since what it is
            made of may be heavy to import.
        metrics: Every metric that its rows may have, but the graded ones.
        graded: Metrics of degree beside those that count right answers, made of its stored items; each is
            compared as an outcome of its own.
        primary: The metric that stands for a task: the first of these that the task was scored in. Empty
            where the task's file says it.
        tasks: The tasks that it should have: without some of them its mean is another one. Empty where they
            are not fixed.
        noun: What its tasks are called, in the plural.
        means: What it is summed up by, the headline first.
    """

    name: str
    label: str = ""
    kind: Kind
    finder: str
    metrics: tuple[MetricSpec, ...]
    graded: tuple[MetricSpec, ...] = ()
    primary: tuple[str, ...] = ("accuracy",)
    tasks: tuple[str, ...] = ()
    noun: str = "tasks"
    means: tuple[MeanSpec, ...] = (MEAN_OF_TASKS,)

    @property
    def chance(self) -> float | None:
        """What guessing scores in the primary metric; None where that depends on the task."""
        return next((metric.chance for metric in self.metrics if metric.name in self.primary[:1]), None)

    def find(self, config: Any, run_dir: Any = None) -> list[Any]:
        """List its tasks, by its finder.

        Args:
            config: The ``EvalConfig``: where data are.
            run_dir: The folder of the run to be scored, if one is at hand.

        Raises:
            UsageError: If its data are needed and absent.
        """
        return resolve_name(self.finder)(self.name, config, run_dir)

    def headline(self, metrics: Iterable[str]) -> str:
        """Name the primary one of a task's metrics, for a suite whose spec says it."""
        scored = set(metrics)
        return next(name for name in self.primary if name in scored)
