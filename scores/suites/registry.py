"""Every suite of the evaluation, and what follows from their specs.

``SUITES`` is the one place where a suite is defined. Whatever else needs to know of a suite asks its spec, so
that a new suite is one module, with its finder, and one entry here (see ``docs/adding-a-suite.md``).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from scores.suites.blimp_paradigms import FILTERED_TASKS, PARADIGMS, SUPPLEMENT_TASKS
from scores.suites.spec import MEAN_OF_TASKS, PERCENTAGES, MeanSpec, MetricSpec, SuiteSpec, Unit

HARNESS_PREFIX = "lm-eval-"
"""Before the name of a task of lm-eval, in the benchmark that its rows belong to."""
HARNESS_FINDER = "eval.zero_shot.lm_eval_tasks:find_harness_tasks"
"""Lists the tasks of lm-eval that an ``EvalConfig`` names."""
UNGROUPED = "classification"
"""The benchmark of classification tasks that name none, which have no scale in common."""
CROSS_TASK = "cross-task"
"""The benchmark of classifiers that were fine-tuned on one task and scored on another."""
RAW_PREFIX = "raw_"
"""Before a metric of lm-eval that comes without a unit."""
HELD_OUT = "held-out-loss"
"""The benchmark of the loss on held-out text at the end of training, which every run has."""
HELD_OUT_LOSS = MetricSpec(name="held_out_loss", better="lower", unit="nats")
"""Nats per target token; families have different objectives, and so losses of different sizes."""

EWOK_DOMAINS = (
    *("agent-properties", "material-dynamics", "material-properties", "physical-dynamics"),
    *("physical-interactions", "physical-relations", "quantitative-properties", "social-interactions"),
    *("social-properties", "social-relations", "spatial-relations"),
)
COMPS_TASKS = ("base", "wugs", "wugs_dist_before", "wugs_dist_in_between")

TIES = MetricSpec(name="ties", better=None, unit="percent")
PAIR_METRICS = (MetricSpec(name="accuracy", better="higher", unit="percent", chance=50.0), TIES)
# Odds that change by a tenth are negligible. The shift of all pairs that changes accuracy by one point, its
# own margin, is 0.08 to 0.15 nats, or about 0.03 a token that differs (`blimp` and `embedded-pairs`, models
# of 0.1M parameters on TinyStories).
GRADED_PAIRS = (
    MetricSpec(name="log_odds", better="higher", unit="nats", chance=0.0, margin=0.1),
    MetricSpec(name="log_odds_per_token", better="higher", unit="nats", chance=0.0, margin=0.03),
)
"""Of items that hold what ``scores.graded`` makes these of, as those of minimal pairs do."""
TEXT_METRICS = (
    MetricSpec(name="perplexity", better="lower", unit="ratio"),
    # What 0.02 nats a token are at three bytes a token.
    MetricSpec(name="bits_per_byte", better="lower", unit="bits per byte", margin=0.01),
)
# What guessing scores in the others depends on the labels: ``baselines.json`` has it for each task.
CLASSIFICATION_METRICS = (
    *(
        MetricSpec(name=name, better="higher", unit="percent")
        for name in ("accuracy", "f1", "macro_f1", "micro_f1")
    ),
    *(
        MetricSpec(name=name, better="higher", unit="correlation", chance=0.0)
        for name in ("cohen_kappa", "matthews_correlation")
    ),
    MetricSpec(name="mean_accuracy_f1", better="higher", unit="percent"),
    MetricSpec(name="mean_f1_matthews", better="higher", unit="correlation"),  # half of it
)
HARNESS_METRICS = (
    *(
        MetricSpec(name=name, better="higher", unit="percent")
        for name in (
            *("accuracy", "accuracy_by_length", "accuracy_by_bytes", "accuracy_by_mutual_information"),
            *("exact_match", "f1"),
        )
    ),
    MetricSpec(name="matthews_correlation", better="higher", unit="correlation", chance=0.0),
    *(
        MetricSpec(name=name, better="lower", unit="ratio")
        for name in ("perplexity", "word_perplexity", "byte_perplexity")
    ),
    MetricSpec(name="bits_per_byte", better="lower", unit="bits per byte"),
)
"""Those that tasks of lm-eval are known to have."""

_PARADIGM_MEANS = (MeanSpec(of="paradigms"), MeanSpec(of="phenomena", over="group"))


def _pairs(name: str, finder: str, tasks: tuple[str, ...], **fields: Any) -> SuiteSpec:
    """Describe a suite of minimal pairs; ``finder`` is a function of ``eval.zero_shot.choices``."""
    common: dict[str, Any] = {"kind": "minimal pairs", "metrics": PAIR_METRICS, "graded": GRADED_PAIRS}
    return SuiteSpec(
        name=name, finder=f"eval.zero_shot.choices:{finder}", tasks=tasks, **{**common, **fields}
    )


def _wugs(name: str, task: str, label: str = "") -> SuiteSpec:
    correlation = MetricSpec(name="spearman_correlation", better="higher", unit="correlation", chance=0.0)
    return SuiteSpec(
        name=name,
        label=label,
        kind="choices",
        finder="eval.zero_shot.choices:find_tasks",
        metrics=(correlation,),
        primary=(correlation.name,),
        tasks=(task,),
    )


_SUITES = (
    _pairs("blimp", "find_blimp", PARADIGMS, label="67 paradigms", noun="paradigms", means=_PARADIGM_MEANS),
    _pairs(
        "babylm23",
        "find_blimp",
        (*FILTERED_TASKS, *SUPPLEMENT_TASKS),
        label="12 filtered tasks and 5 supplement tasks",
        means=(
            MEAN_OF_TASKS,
            MeanSpec(of="filtered BLiMP tasks", tasks=FILTERED_TASKS),
            MeanSpec(of="supplement tasks", tasks=SUPPLEMENT_TASKS),
            # The 2023 pipeline counts each pair of a task, the 2025 pipeline each paradigm.
            MeanSpec(of="filtered BLiMP paradigms", over="paradigm", tasks=FILTERED_TASKS),
        ),
    ),
    _pairs(
        "blimp-fast",
        "find_fast_blimp",
        PARADIGMS,
        label="200 pairs a paradigm",
        noun="paradigms",
        means=_PARADIGM_MEANS,
    ),
    _pairs(
        "blimp-filtered",
        "find_tasks",
        PARADIGMS,
        label="67 paradigms, filtered for BabyLM 2025",
        noun="paradigms",
        means=_PARADIGM_MEANS,
    ),
    _pairs("blimp-supplement", "find_tasks", SUPPLEMENT_TASKS, label="5 tasks"),
    _pairs(
        "ewok",
        "find_tasks",
        EWOK_DOMAINS,
        label="11 domains",
        graded=GRADED_PAIRS[:1],
        noun="domains",
        means=(MeanSpec(of="domains"),),
    ),
    _pairs("comps", "find_tasks", COMPS_TASKS, label="4 tasks", graded=GRADED_PAIRS[:1]),
    _pairs("embedded-pairs", "find_embedded", ()),
    SuiteSpec(
        name="entity-tracking",
        kind="choices",
        finder="eval.zero_shot.choices:find_tasks",
        metrics=(
            MetricSpec(name="accuracy", better="higher", unit="percent", chance=20.0),
            MetricSpec(name="accuracy_by_operations", better="higher", unit="percent", chance=20.0),
            TIES,
        ),
        graded=(MetricSpec(name="probability", better="higher", unit="percent", chance=20.0),),
        tasks=("regular", "ambiref", "move_contents"),
        means=(
            MEAN_OF_TASKS,
            MeanSpec(of="tasks, each over its numbers of operations", metric="accuracy_by_operations"),
        ),
    ),
    _wugs("wug", "wug_adj_nominalization"),
    _wugs("wug-past", "wug_past_tense", label="past tense"),
    SuiteSpec(
        name="perplexity",
        kind="text",
        finder="eval.zero_shot.perplexity:find_tasks",
        metrics=(
            *TEXT_METRICS,
            MetricSpec(name="pseudo_perplexity", better="lower", unit="ratio"),
            MetricSpec(name="pseudo_bits_per_byte", better="lower", unit="bits per byte", margin=0.01),
        ),
        primary=("bits_per_byte", "pseudo_bits_per_byte"),
    ),
    SuiteSpec(
        name="glue",
        label="11 tasks",
        kind="classification",
        finder="eval.classification.find_tasks:find_glue_tasks",
        metrics=CLASSIFICATION_METRICS,
        primary=(),
        tasks=(
            *("cola", "sst2", "mrpc", "qqp", "mnli", "mnli-mm", "qnli", "rte"),
            *("boolq", "multirc", "wsc"),
        ),
    ),
    SuiteSpec(
        name="embedded-glue",
        kind="classification",
        finder="eval.classification.find_tasks:find_embedded_tasks",
        metrics=CLASSIFICATION_METRICS,
        primary=(),
    ),
)
SUITES: dict[str, SuiteSpec] = {spec.name: spec for spec in _SUITES}
"""Every suite, in the order in which tables and figures show them; benchmarks that are none follow by name.
A new one is a module with its finder, and its place in this list."""


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
        for metrics in (*((*spec.metrics, *spec.graded) for spec in _SUITES), HARNESS_METRICS)
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
    """Whether a metric of a suite is an outcome of its own beside the one that stands for a task."""
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
