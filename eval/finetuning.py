"""How classifiers are fine-tuned: what a preset says, and what is chosen instead.

``FinetuneConfig`` is what a user gives; every hyperparameter in it may be left open.
``FinetuneConfig.resolve(task)`` fills the gaps from the preset, and the ``Finetuning`` that it returns is
what a protocol records.

The presets follow their originals in data order, schedule, stopping and choice of epoch. They differ in this:

- ``babylm23`` (github.com/babylm/evaluation-pipeline-2023, finetune_model.sh and finetune_classification.py):
  MNLI is fine-tuned once for both of its validation files and chosen on the matched one; there each file has
  a fine-tuning of its own. Examples are in another random order.
- ``babylm25`` (github.com/babylm/evaluation-pipeline-2025, eval_finetuning.sh and its package finetune): the
  head is transformers' own, which reads GPT-Neo's last token, in place of a two-layer one that reads the
  first token of every model.
- ``fr-kan`` (Al Imran and Ishmam 2024, arXiv:2408.08803, as the notebooks of abdalimran/
  FR-KAN-Text-Classification at 6705dfc run): 5 epochs of AdamW at a constant 2e-5 with weight decay 0.01 in
  batches of 64, no clipping, 512 tokens, dropout 0.1 before the head, position 0, the last epoch, seed 42.
  For heads on a frozen backbone, there ``"fourier-kan bias=1 frozen"``, whose own dropout stays on; their
  splits are the tasks ``*-pooled``. A model of fewer positions reads as many tokens as it has.
- ``fr-kan-held-out``: what the paper's text says of it, and for the rest this project's defaults: linear
  decay, clipping at 1, no weight decay, the best of the 5 epochs by a part held out of the training set.
- ``swipe`` (Wang et al. 2023, arXiv:2304.01638): 10 epochs of Adam, linear from 5e-5 to zero, cross-entropy,
  five initialisations, no early stop. The paper has a development set and does not say whether its scores
  are of the last epoch or of one chosen there: here the best epoch on a held-out part is kept. Nor does it
  say the batch size, which is the default's. A segment may have up to 512 tokens.
- ``source-study`` (github.com/AISE-TUDelft/tiny-transformers, code/common/evaluate.sh and eval_baselines.py):
  ``babylm23`` with batches of 80 and an evaluation every 5% of the steps. Its average takes
  ``mean_accuracy_f1`` of MRPC and QQP and ``mean_f1_matthews`` of MultiRC, which rows hold besides the usual
  metrics.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from base.config_input import SEED_END, read_yaml
from base.sections import Section, Unlisted
from scores.head_descriptions import DEFAULT_HEAD, HEADS, HeadChoice, parse_head
from scores.suites import CLASSIFICATION_METRICS, SUITES

METRIC_NAMES: tuple[str, ...] = tuple(metric.name for metric in CLASSIFICATION_METRICS)
Metric = Literal[METRIC_NAMES]  # type: ignore[invalid-literal]
BINARY_METRICS = ("f1", "mean_accuracy_f1", "mean_f1_matthews")
MULTI_LABEL_METRICS = ("accuracy", "macro_f1", "micro_f1")


def unfit_metric(name: str, num_labels: int | None, multi_label: bool) -> str | None:
    """Say why a metric does not fit a task, and which ones do; None where it fits.

    Args:
        name: In ``METRIC_NAMES``.
        num_labels: Labels of the task; None where they are not known yet.
        multi_label: Whether any number of them may be right.
    """
    if multi_label and name not in MULTI_LABEL_METRICS:
        return f"{name} is for one label an example; with several choose {', '.join(MULTI_LABEL_METRICS)}"
    if name in BINARY_METRICS and num_labels is not None and num_labels > 2:
        fit = [metric for metric in METRIC_NAMES if metric not in BINARY_METRICS]
        return f"{name} is for two labels and there are {num_labels}; choose {', '.join(fit)}"
    return None


GLUE_TASK_NAMES: tuple[str, ...] = SUITES["glue"].tasks
GlueTaskName = Literal[GLUE_TASK_NAMES]  # type: ignore[invalid-literal]
PresetName = Literal["default", "babylm23", "babylm25", "source-study", "fr-kan", "fr-kan-held-out", "swipe"]
Schedule = Literal["linear", "cosine", "constant"]
ChosenOn = Literal["held-out", "validation", "nothing"]
Pooling = Literal["auto", "first", "last", "mean", "position-0"]


def _check_head(text: object) -> object:
    return str(parse_head(text)) if isinstance(text, str) else text


HeadText = Annotated[str, BeforeValidator(_check_head)]
"""A head as it is typed, ``NAME OPTION=VALUE ... frozen``, checked."""


Seeds = Annotated[tuple[Annotated[int, Field(ge=0, lt=SEED_END)], ...], Field(min_length=1)]


class Finetuning(Section):
    """How one task is fine-tuned, every value settled. The defaults are those of the preset ``default``."""

    head: str = DEFAULT_HEAD
    pooling: Pooling = "auto"
    learning_rate: float = 5e-5
    head_learning_rate: float | None = None
    head_learning_rates: tuple[float, ...] = ()
    """Candidates, of which the best by the held-out part is reported."""
    head_dropout: float = 0.0
    """Of the vectors that a head reads, while it is trained."""
    frozen_dropout: bool = False
    """Whether a frozen backbone drops out while its head is trained."""
    lr_scheduler_type: Schedule = "linear"
    warmup_ratio: float = 0.0
    """Share of all steps."""
    min_lr_rate: float = 0.0
    """Where a cosine ends, as a share of the learning rate."""
    weight_decay: float = 0.0
    max_grad_norm: float | None = 1.0
    per_device_train_batch_size: int = 64
    dataloader_drop_last: bool = False
    num_train_epochs: int = 10
    max_length: int = 128
    eval_steps: int | float | None = None
    """Steps between evaluations; below 1 a share of all steps; null: once an epoch."""
    patience: int | None = 3
    """Evaluations without a better score before training stops; null: never."""
    threshold: float = 0.0
    """By how much a score must exceed the best one to count for patience, as a fraction of 1."""
    metric_for_best_model: Metric = "accuracy"
    loss_breaks_ties: bool = True
    """Whether the lower loss wins among equal scores, which small sets have many of; else the first."""
    select_on: ChosenOn = "held-out"
    held_out_fraction: float = 0.1
    extra_metrics: tuple[Metric, ...] = ()
    """Reported besides the task's own."""
    seeds: tuple[int, ...] = (12,)
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    max_train_examples: int | None = None
    max_validation_examples: int | None = None

    def record(self) -> dict[str, Any]:
        """Return what a protocol says: settings younger than the first scores only where they are used."""
        fields = type(self).model_fields
        unused = {name for name in _YOUNGER if getattr(self, name) == fields[name].default}
        return self.model_dump(mode="json", exclude=unused)


_YOUNGER = ("head_dropout", "frozen_dropout", "head_learning_rates")
"""Settings of a ``Finetuning`` that at their defaults leave the protocols of older scores as they were."""


class Preset(Section):
    """What a preset says."""

    settings: Finetuning = Finetuning()
    """Values for every task."""
    by_task: dict[str, dict[str, int | float | str | tuple[Metric, ...]]] = Field(default_factory=dict)
    """Those that single tasks have instead."""
    averaged: dict[str, Metric] = Field(default_factory=dict)
    """Tasks that stand in its average by another metric than the first of their file."""
    tasks: tuple[GlueTaskName, ...] = GLUE_TASK_NAMES
    """The tasks that it consists of."""


PRESETS = TypeAdapter(dict[str, Preset]).validate_python(
    read_yaml(Path(__file__).with_name("finetuning_presets.yaml"))
)


class FinetuneConfig(Section):
    """Fine-tuning. What is left open is as the preset says."""

    preset: PresetName = "default"
    """default: BabyLM 2023's values, but the best epoch is chosen on a part held out of the training set and
    the validation file is only reported on; fr-kan-held-out: the same with that paper's 5 epochs at 2e-5, 512
    tokens and dropout before the head; swipe: the same with that paper's five seeds and no early stop;
    fr-kan: as its code, whose last epoch is reported; babylm23, babylm25, source-study: as those did,
    choosing on the validation file that is reported, which flatters every model."""
    tasks: tuple[GlueTaskName, ...] | None = None
    """Which of the eleven tasks (null: all of the preset's); those of the embedded corpus always run."""
    head: tuple[HeadText, ...] = Field(
        (DEFAULT_HEAD,),
        min_length=1,
        description=f"Heads, each of which is trained: {', '.join(HEADS)}. default is transformers' own. One "
        'with options, or on a frozen backbone, stands in quotes: --head linear "fourier-kan grid_size=10 '
        'frozen". The command list heads lists them.',
    )
    freeze_backbone: bool = False
    """Train every head on frozen vectors; they are computed once, so that a head takes seconds."""
    pooling: Pooling | None = None
    """What a head other than the default reads of a text or a segment: its first or last token, or the mean;
    auto is the token that transformers' classifiers read, RoBERTa's first and GPT-Neo's last; position-0 the
    first of what AutoModel returns, of BART the decoder's and of XLNet a padding's (null: the preset's)."""
    learning_rate: float | None = Field(None, gt=0)
    """Peak learning rate of AdamW (null: the preset's, 5e-5; babylm25 3e-5)."""
    head_learning_rate: float | None = Field(None, gt=0)
    """That of the head, where it is not the backbone's (null: the preset's)."""
    head_learning_rates: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """Several of them: each is tried, the best on the held-out part is reported, and the output and the items
    (column chosen) say which that was, for every run, task and seed."""
    head_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout of the vectors that a head other than the default reads, on a frozen backbone too (null: the
    preset's, 0; fr-kan 0.1)."""
    frozen_dropout: bool | None = None
    """A frozen backbone drops out while its head is trained, and so is computed for every batch (null: the
    preset's; fr-kan does, as its notebooks)."""
    lr_scheduler_type: Schedule | None = None
    """How it falls: linear or cosine, or constant (null: the preset's)."""
    weight_decay: float | None = Field(None, ge=0)
    """Weight decay of AdamW (null: the preset's)."""
    per_device_train_batch_size: int | None = Field(None, ge=1)
    """Examples per training step (null: the preset's)."""
    num_train_epochs: int | None = Field(None, ge=1)
    """Passes over the training set, unless stopped early (null: the preset's, 10)."""
    max_length: int | None = Field(None, ge=8)
    """Tokens per input, special tokens included; longer inputs are truncated (null: the preset's)."""
    patience: Unlisted[int | None] = Field(None, ge=1)
    """Evaluations without a better score before training stops (null: the preset's)."""
    metric_for_best_model: (
        Literal["accuracy", "f1", "macro_f1", "micro_f1", "cohen_kappa", "matthews_correlation"] | None
    ) = None
    """What the best epoch is chosen by (null: the preset's; default: the task's first metric)."""
    select_on: ChosenOn | None = None
    """Where the best epoch is chosen: on a part held out of the training set, or on the validation file that
    is reported; on nothing: the last one is reported (null: the preset's)."""
    held_out_fraction: Unlisted[float] = Field(0.1, gt=0, lt=1)
    """Share of the training set held out for choosing the epoch."""
    max_train_examples: int | None = Field(None, ge=16)
    """Use only so many training examples of each task, drawn with the seed (null: all)."""
    max_validation_examples: Unlisted[int | None] = Field(None, ge=1)
    """Report on only so many validation examples of each task, the same for every seed (null: all)."""
    seeds: Literal["run"] | Seeds | None = None
    """Seeds of the new head, the held-out part, the order of examples and dropout, the same for every run;
    with several, a score is the mean over them. The word run takes each run's own seed, so that heads are
    compared over several first weights (null: the preset's, 12; babylm25 42)."""
    dtype: Unlisted[Literal["auto", "float32", "bfloat16"]] = "auto"
    """Of the matrix products; auto: bfloat16 on a GPU that has it, else float32."""

    @model_validator(mode="after")
    def _rates_are_chosen_on_held_out_data(self) -> FinetuneConfig:
        if not self.head_learning_rates:
            return self
        if (self.select_on or PRESETS[self.preset].settings.select_on) != "held-out":
            raise ValueError(
                "head_learning_rates are chosen on a part held out of the training set, and there is none; "
                "set select_on to held-out"
            )
        if self.head_learning_rate is not None:
            raise ValueError("head_learning_rate and head_learning_rates are given; leave out one of them")
        return self

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks asked for, each once."""
        return tuple(dict.fromkeys(PRESETS[self.preset].tasks if self.tasks is None else self.tasks))

    @property
    def heads(self) -> tuple[HeadChoice, ...]:
        """The heads asked for, each once."""
        choices = (parse_head(text) for text in self.head)
        return tuple(
            dict.fromkeys(replace(c, is_frozen=True) if self.freeze_backbone else c for c in choices)
        )

    def of_run(self, seed: int) -> FinetuneConfig:
        """Settle the seeds of one run; ``seed`` is its own."""
        return self.model_copy(update={"seeds": (seed,)}) if self.seeds == "run" else self

    def resolve(self, task: str, head: HeadChoice | None = None) -> Finetuning:
        """Settle how a task is fine-tuned: what is given here, else what the preset says of it.

        Args:
            task: Its name.
            head: One of ``heads``; None takes the first.
        """
        preset = PRESETS[self.preset]
        values = {
            name: value
            for name in Finetuning.model_fields
            if name != "head" and (value := getattr(self, name, None)) is not None
        }
        choice = head or self.heads[0]
        values["head"] = str(choice)
        if choice.name == DEFAULT_HEAD:  # transformers' own has its own dropout
            values |= {"head_dropout": 0.0, "frozen_dropout": False}
        if values.get("seeds") == "run":  # for which run is not known: only the number of seeds counts
            del values["seeds"]
        return preset.settings.model_copy(update=preset.by_task.get(task, {}) | values)


def candidates(settings: Finetuning) -> list[Finetuning]:
    """Return the settings with each of the learning rates of the head; themselves where none is to choose."""
    return [
        settings.model_copy(update={"head_learning_rates": (), "head_learning_rate": rate})
        for rate in settings.head_learning_rates
    ] or [settings]
