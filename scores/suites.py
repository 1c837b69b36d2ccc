"""The suites of the evaluation and their metrics, as data, and what follows from that.

``suites.yaml`` beside this file is the one place where a suite is defined. Whatever else needs to know of a
suite looks into its spec, so a new suite is one module, with its finder, and one row there
(``docs/adding-a-suite.md``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

from pydantic import TypeAdapter

from base.config_input import read_yaml

Kind = Literal["minimal pairs", "text", "classification"]
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
        tasks: Only these; None is all that were scored.
    """

    of: str
    over: Literal["task", "group", "paradigm"] = "task"
    tasks: tuple[str, ...] | None = None


MEAN_OF_TASKS = MeanSpec(of="tasks")


@dataclass(frozen=True, kw_only=True)
class SuiteSpec:
    """One suite.

    Attributes:
        name: As typed after ``--suites``, and as ``benchmark`` in rows.
        label: What ``--help`` says of it beside its name; may be empty.
        kind: What a model is asked: to prefer one of two texts, to predict a text, or, fine-tuned, to name
            a class.
        finder: Lists the suite's tasks, ``module:function``, called with the suite's name, the
            ``EvalConfig`` and the run's folder, or None where no run is at hand. A name, since what it is
            made of may be heavy to import.
        metrics: Every metric that its rows may have, but the graded ones.
        graded: Metrics of degree beside those that count right answers, made of its stored items; each is
            compared as a metric of its own.
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


_FILE = read_yaml(Path(__file__).with_suffix(".yaml"))
BLIMP_PARADIGMS: dict[str, list[str]] = _FILE["phenomena"]
"""The 67 paradigms of BLiMP by phenomenon."""
_LISTS: dict[str, list[Any]] = {
    **_FILE["lists"],
    "phenomena": sorted(BLIMP_PARADIGMS),
    "paradigms": sorted(uid for uids in BLIMP_PARADIGMS.values() for uid in uids),
}
_SUITE = TypeAdapter(SuiteSpec)
_METRICS = TypeAdapter(tuple[MetricSpec, ...])


def _in_full(value: Any) -> Any:
    """Put lists in place of their names: ``[phenomena, supplement]`` becomes 17 tasks."""
    if isinstance(value, dict):
        return {key: _in_full(inner) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    # The name of a list stands for all of its entries, and anything else for itself.
    parts = (_LISTS.get(each, [each]) if isinstance(each, str) else [_in_full(each)] for each in value)
    return [each for part in parts for each in part]


def read_suite(row: dict[str, Any]) -> SuiteSpec:
    """Make a suite of a row of ``suites.yaml``.

    Raises:
        pydantic.ValidationError: For a field that is missing, such as a metric's direction or unit, or wrong.
    """
    return _SUITE.validate_python(_in_full(row))


SUITES: dict[str, SuiteSpec] = {row["name"]: read_suite(row) for row in _FILE["suites"]}
"""Every suite, in the order in which tables and figures show them; other benchmarks follow by name."""
CLASSIFICATION_METRICS = _METRICS.validate_python(_LISTS["classification"])
HARNESS_METRICS = _METRICS.validate_python(_LISTS["lm-eval"])
"""Those that tasks of lm-eval are known to have."""

_PHENOMENA = {"s_selection": "argument_structure", "filler_gap_dependency": "filler_gap"}


@lru_cache(maxsize=4096)
def phenomenon_name(label: str) -> str:
    """Return a label of BLiMP's files under this project's one name for it, any other as it is."""
    return _PHENOMENA.get("_".join(re.split(r"[-_\s]+", label.strip().lower())), label)


HARNESS_PREFIX = "lm-eval-"
"""Before the name of a task of lm-eval, in the benchmark that its rows belong to."""
HARNESS_FINDER = "eval.zero_shot.lm_eval_tasks:find_harness_tasks"
"""Lists the tasks of lm-eval that an ``EvalConfig`` names."""
UNGROUPED = "classification"
"""The benchmark of classification tasks that name none, which have no scale in common."""
RAW_PREFIX = "raw_"
"""Before a metric of lm-eval that comes without a unit."""
HELD_OUT = "held-out-loss"
"""The benchmark of the loss on held-out text at the end of training, which every run has."""
HELD_OUT_LOSS = MetricSpec(name="held_out_loss", better="lower", unit="nats")
"""Nats per target token; families have different objectives, and so losses of different sizes."""


def asks_for_classes(benchmark: str) -> bool:
    """Whether a benchmark is a suite of classification tasks, for which models are fine-tuned."""
    spec = SUITES.get(benchmark)
    return spec is not None and spec.kind == "classification"


# A name that any table may use is one line here.
_KNOWN: dict[str, MetricSpec] = {
    # Or as `matthews_corrcoef`.
    "matthews": MetricSpec(name="matthews_correlation", better="higher", unit="correlation"),
    "bpb": MetricSpec(name="bits_per_byte", better="lower", unit="bits per byte"),
    "eval_loss": HELD_OUT_LOSS,  # as transformers' Trainer calls it
    HELD_OUT_LOSS.name: HELD_OUT_LOSS,
    **{
        metric.name: MetricSpec(name=metric.name, better=metric.better, unit=metric.unit)
        for metrics in (*((*spec.metrics, *spec.graded) for spec in SUITES.values()), HARNESS_METRICS)
        for metric in metrics
    },
}


def suite_metric(benchmark: str, metric: str) -> MetricSpec | None:
    """Return what a suite's spec says of one of its metrics, graded ones included."""
    if benchmark == HELD_OUT:
        return HELD_OUT_LOSS
    spec = SUITES.get(benchmark)
    if spec is None:
        return None
    return next((each for each in (*spec.metrics, *spec.graded) if each.name == metric), None)


def is_graded(benchmark: str, metric: str) -> bool:
    """Whether a metric of a suite is a metric of its own beside the one that stands for a task."""
    spec = SUITES.get(benchmark)
    return spec is not None and metric in {graded.name for graded in spec.graded}


# A table of a million rows has a handful of names.
@lru_cache(maxsize=4096)
def known_metric(name: str) -> MetricSpec | None:
    """Return what is known of a metric by its name, wherever it stands; not what guessing scores in it."""
    plain = re.sub(r"[-\s]", "_", name.lower())
    # A known name begins at a word; what follows may say more, as in `perplexity (validation)`.
    matches = [each for each in _KNOWN if re.search(rf"(?<![^\W_]){each}", plain)]
    return _KNOWN[max(matches, key=len)] if matches else None


def unit_of(metric: str) -> Unit | None:
    """Return a metric's unit: percent where nothing is known of its name, None where it comes without one."""
    if metric.startswith(RAW_PREFIX):
        return None
    spec = known_metric(metric)
    return spec.unit if spec else "percent"


def is_percentage(metric: str | MetricSpec) -> bool:
    """Whether a metric's scores are percentages; correlations count as such."""
    unit = unit_of(metric) if isinstance(metric, str) else metric.unit
    return unit in PERCENTAGES
