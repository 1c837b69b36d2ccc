"""What every suite of the evaluation is, as data: its tasks, its metrics, its means, and who finds its tasks.

``SUITES`` is the one place where a suite is defined. Whatever else needs to know of a suite asks its spec, so
that a new suite is one module, with its finder, and one entry here (see ``docs/adding-a-suite.md``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pkgutil import resolve_name
from typing import Any, Literal

Kind = Literal["minimal pairs", "choices", "text", "classification"]
Unit = Literal["percent", "nats", "bits per byte", "ratio", "correlation"]

HARNESS_PREFIX = "lm-eval-"
"""Before the name of a task of lm-eval, in the benchmark that its rows belong to."""
HARNESS_FINDER = "eval.zero_shot.lm_eval_tasks:find_harness_tasks"
"""Lists the tasks of lm-eval that an ``EvalConfig`` names."""
UNGROUPED = "classification"
"""The benchmark of classification tasks that name none, which have no scale in common."""
RAW_PREFIX = "raw_"
"""Before a metric of lm-eval that comes without a unit."""


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """One metric of a suite, or of any task.

    Attributes:
        name: As in rows. A name with it at the start of a word, as ``pseudo_perplexity`` has ``perplexity``,
            has its unit, too.
        better: Which scores are better; None where a number only describes, as the share of ties does.
        unit: Rows hold a correlation times 100, so that it shares an axis with percentages.
        chance: What guessing scores, in the row's scale; None where that depends on the task or has no
            meaning.
    """

    name: str
    better: Literal["higher", "lower"] | None = "higher"
    unit: Unit = "percent"
    chance: float | None = None


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
        metrics: Every metric that its rows may have.
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


# The 67 paradigms of BLiMP by phenomenon (Warstadt et al. 2020, https://aclanthology.org/2020.tacl-1.25).
# The files have 13 labels for 12 phenomena: as in the paper and in BabyLM, the two paradigms that they label
# ``s-selection`` belong to argument structure. ``filler_gap_dependency`` is BabyLM's ``filler_gap``.
# fmt: off
BLIMP_PARADIGMS: dict[str, tuple[str, ...]] = {
    "anaphor_agreement": ("anaphor_gender_agreement", "anaphor_number_agreement"),
    "argument_structure": (
        "animate_subject_passive", "animate_subject_trans", "causative", "drop_argument", "inchoative",
        "intransitive", "passive_1", "passive_2", "transitive",
    ),
    "binding": (
        "principle_A_c_command", "principle_A_case_1", "principle_A_case_2", "principle_A_domain_1",
        "principle_A_domain_2", "principle_A_domain_3", "principle_A_reconstruction",
    ),
    "control_raising": (
        "existential_there_object_raising", "existential_there_subject_raising",
        "expletive_it_object_raising", "tough_vs_raising_1", "tough_vs_raising_2",
    ),
    "determiner_noun_agreement": (
        "determiner_noun_agreement_1", "determiner_noun_agreement_2", "determiner_noun_agreement_irregular_1",
        "determiner_noun_agreement_irregular_2", "determiner_noun_agreement_with_adj_2",
        "determiner_noun_agreement_with_adj_irregular_1", "determiner_noun_agreement_with_adj_irregular_2",
        "determiner_noun_agreement_with_adjective_1",
    ),
    "ellipsis": ("ellipsis_n_bar_1", "ellipsis_n_bar_2"),
    "filler_gap": (
        "wh_questions_object_gap", "wh_questions_subject_gap", "wh_questions_subject_gap_long_distance",
        "wh_vs_that_no_gap", "wh_vs_that_no_gap_long_distance", "wh_vs_that_with_gap",
        "wh_vs_that_with_gap_long_distance",
    ),
    "irregular_forms": ("irregular_past_participle_adjectives", "irregular_past_participle_verbs"),
    "island_effects": (
        "adjunct_island", "complex_NP_island", "coordinate_structure_constraint_complex_left_branch",
        "coordinate_structure_constraint_object_extraction", "left_branch_island_echo_question",
        "left_branch_island_simple_question", "sentential_subject_island", "wh_island",
    ),
    "npi_licensing": (
        "matrix_question_npi_licensor_present", "npi_present_1", "npi_present_2", "only_npi_licensor_present",
        "only_npi_scope", "sentential_negation_npi_licensor_present", "sentential_negation_npi_scope",
    ),
    "quantifiers": (
        "existential_there_quantifiers_1", "existential_there_quantifiers_2", "superlative_quantifiers_1",
        "superlative_quantifiers_2",
    ),
    "subject_verb_agreement": (
        "distractor_agreement_relational_noun", "distractor_agreement_relative_clause",
        "irregular_plural_subject_verb_agreement_1", "irregular_plural_subject_verb_agreement_2",
        "regular_plural_subject_verb_agreement_1", "regular_plural_subject_verb_agreement_2",
    ),
}
# fmt: on
PARADIGMS = tuple(sorted(uid for uids in BLIMP_PARADIGMS.values() for uid in uids))
FILTERED_TASKS = tuple(sorted(BLIMP_PARADIGMS))
# What the BabyLM 2023 evaluation adds to BLiMP.
SUPPLEMENT_TASKS = (
    "hypernym",
    "qa_congruence_easy",
    "qa_congruence_tricky",
    "subject_aux_inversion",
    "turn_taking",
)

TIES = MetricSpec(name="ties", better=None)
PAIR_METRICS = (MetricSpec(name="accuracy", chance=50.0), TIES)
TEXT_METRICS = (
    MetricSpec(name="perplexity", better="lower", unit="ratio"),
    MetricSpec(name="bits_per_byte", better="lower", unit="bits per byte"),
)
# What guessing scores in the others depends on the labels: ``baselines.json`` has it for each task.
CLASSIFICATION_METRICS = (
    *(MetricSpec(name=name) for name in ("accuracy", "f1", "macro_f1", "micro_f1")),
    *(
        MetricSpec(name=name, unit="correlation", chance=0.0)
        for name in ("cohen_kappa", "matthews_correlation")
    ),
    MetricSpec(name="mean_accuracy_f1"),
    MetricSpec(name="mean_f1_matthews", unit="correlation"),  # half of it
)
HARNESS_METRICS = (
    *(
        MetricSpec(name=name)
        for name in (
            *("accuracy", "accuracy_by_length", "accuracy_by_bytes", "accuracy_by_mutual_information"),
            *("exact_match", "f1"),
        )
    ),
    MetricSpec(name="matthews_correlation", unit="correlation", chance=0.0),
    *(
        MetricSpec(name=name, better="lower", unit="ratio")
        for name in ("perplexity", "word_perplexity", "byte_perplexity")
    ),
    MetricSpec(name="bits_per_byte", better="lower", unit="bits per byte"),
)
"""Those that tasks of lm-eval are known to have."""

_SUITES = (
    SuiteSpec(
        name="blimp",
        label="67 paradigms",
        kind="minimal pairs",
        finder="eval.zero_shot.blimp:find_tasks",
        metrics=PAIR_METRICS,
        tasks=PARADIGMS,
        noun="paradigms",
        means=(MeanSpec(of="paradigms"), MeanSpec(of="phenomena", over="group")),
    ),
    SuiteSpec(
        name="babylm23",
        label="12 filtered tasks and 5 supplement tasks",
        kind="minimal pairs",
        finder="eval.zero_shot.blimp:find_tasks",
        metrics=PAIR_METRICS,
        tasks=(*FILTERED_TASKS, *SUPPLEMENT_TASKS),
        means=(
            MEAN_OF_TASKS,
            MeanSpec(of="filtered BLiMP tasks", tasks=FILTERED_TASKS),
            MeanSpec(of="supplement tasks", tasks=SUPPLEMENT_TASKS),
            # The 2023 pipeline counts each pair of a task, the 2025 pipeline each paradigm.
            MeanSpec(of="filtered BLiMP paradigms", over="paradigm", tasks=FILTERED_TASKS),
        ),
    ),
    SuiteSpec(
        name="blimp-fast",
        label="200 pairs a paradigm",
        kind="minimal pairs",
        finder="eval.zero_shot.blimp:find_fast_tasks",
        metrics=PAIR_METRICS,
        tasks=PARADIGMS,
        noun="paradigms",
        means=(MeanSpec(of="paradigms"), MeanSpec(of="phenomena", over="group")),
    ),
    SuiteSpec(
        name="embedded-pairs",
        kind="minimal pairs",
        finder="eval.zero_shot.embedded_pairs:find_tasks",
        metrics=PAIR_METRICS,
    ),
    SuiteSpec(
        name="entity-tracking",
        kind="choices",
        finder="eval.zero_shot.entity_tracking:find_tasks",
        metrics=(
            MetricSpec(name="accuracy", chance=20.0),
            MetricSpec(name="accuracy_by_operations", chance=20.0),
            TIES,
        ),
        tasks=("regular", "ambiref", "move_contents"),
        means=(
            MEAN_OF_TASKS,
            MeanSpec(of="tasks, each over its numbers of operations", metric="accuracy_by_operations"),
        ),
    ),
    SuiteSpec(
        name="wug",
        kind="choices",
        finder="eval.zero_shot.wug:find_tasks",
        metrics=(MetricSpec(name="spearman_correlation", unit="correlation", chance=0.0),),
        primary=("spearman_correlation",),
        tasks=("wug_adj_nominalization",),
    ),
    SuiteSpec(
        name="perplexity",
        kind="text",
        finder="eval.zero_shot.perplexity:find_tasks",
        metrics=(
            *TEXT_METRICS,
            MetricSpec(name="pseudo_perplexity", better="lower", unit="ratio"),
            MetricSpec(name="pseudo_bits_per_byte", better="lower", unit="bits per byte"),
        ),
        primary=("bits_per_byte", "pseudo_bits_per_byte"),
    ),
    SuiteSpec(
        name="glue",
        label="11 tasks",
        kind="classification",
        finder="eval.classification.tasks.chosen:find_glue_tasks",
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
        finder="eval.classification.tasks.chosen:find_embedded_tasks",
        metrics=CLASSIFICATION_METRICS,
        primary=(),
    ),
)
SUITES: dict[str, SuiteSpec] = {spec.name: spec for spec in _SUITES}
"""Every suite, in the order in which tables and figures show them; benchmarks that are none follow by name.
A new one is a module with its finder, and its place in this list."""


def chance_of_pairs(benchmark: str) -> float | None:
    """Return the percentage that guessing scores on minimal pairs; None for any other benchmark."""
    spec = SUITES.get(benchmark)
    return spec.chance if spec is not None and spec.kind == "minimal pairs" else None


def asks_for_classes(benchmark: str) -> bool:
    """Whether a benchmark is a suite of classification tasks, for which models are fine-tuned."""
    spec = SUITES.get(benchmark)
    return spec is not None and spec.kind == "classification"


_UNITS: dict[str, Unit] = {
    "matthews": "correlation",  # in a user's table, alone or as `matthews_corrcoef`
    **{
        metric.name: metric.unit
        for metrics in (*(spec.metrics for spec in _SUITES), HARNESS_METRICS)
        for metric in metrics
    },
}


@lru_cache(maxsize=1024)
def unit_of(metric: str) -> Unit | None:
    """Return a metric's unit: percent where nothing is known of its name, None where it comes without one."""
    if metric.startswith(RAW_PREFIX):
        return None
    # A known name begins at a word; what follows may say more, as in `perplexity (validation)`.
    known = [name for name in _UNITS if re.search(rf"(?<![^\W_]){name}", metric)]
    return _UNITS[max(known, key=len)] if known else "percent"


def is_percentage(metric: str) -> bool:
    """Whether a metric's scores are percentages, which alone may be averaged; correlations count as such."""
    return unit_of(metric) in ("percent", "correlation")
