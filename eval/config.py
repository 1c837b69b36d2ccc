"""What is evaluated and how: the ``evaluation:`` section of a study and the flags of ``python -m eval``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro
from pydantic import BeforeValidator, Field

from eval.protocol import ProtocolConfig
from ffn_variants.cli import Section
from ffn_variants.errors import unknown_name

Suite = Literal[
    "blimp", "babylm23", "blimp-fast", "entity-tracking", "wug", "perplexity", "embedded-pairs", "glue",
    "embedded-glue",
]  # fmt: skip
GlueTaskName = Literal[
    "cola", "sst2", "mrpc", "qqp", "mnli", "mnli-mm", "qnli", "rte", "boolq", "multirc", "wsc"
]
SUITES: tuple[str, ...] = get_args(Suite)
HARNESS_PREFIX = "lm-eval-"
"""Before the name of a task of lm-eval, in the benchmark that its rows belong to."""
GLUE_TASK_NAMES: tuple[str, ...] = get_args(GlueTaskName)


def _check_suite(name: object) -> object:
    if name not in SUITES:
        raise unknown_name("suite", name, SUITES)
    return name


def _check_glue_task(name: object) -> object:
    if name not in GLUE_TASK_NAMES:
        raise unknown_name("GLUE task", name, GLUE_TASK_NAMES)
    return name


class GlueConfig(Section):
    """Fine-tuning. The defaults are those of the BabyLM 2023 pipeline where it has one."""

    tasks: tuple[Annotated[GlueTaskName, BeforeValidator(_check_glue_task)], ...] = GLUE_TASK_NAMES  # type: ignore[assignment]
    """Which of the eleven tasks; the two of the embedded corpus are always run together."""
    learning_rate: float = Field(5e-5, gt=0)
    """Peak learning rate of AdamW, decaying linearly to zero."""
    weight_decay: float = Field(0.0, ge=0)
    """Weight decay of AdamW."""
    per_device_train_batch_size: int = Field(64, ge=1)
    """Examples per training step."""
    num_train_epochs: int = Field(10, ge=1)
    """Passes over the training set, unless stopped early."""
    patience: int = Field(3, ge=1)
    """Epochs without a better selection score before training stops."""
    max_length: int = Field(128, ge=8)
    """Tokens per input, special tokens included; longer inputs are truncated."""
    select_on: Literal["held-out", "validation"] = "held-out"
    """Where the best epoch is chosen: on a part held out of the training set, or, as the BabyLM pipelines do
    and flattering every model, on the validation file that is reported."""
    held_out_fraction: float = Field(0.1, gt=0, lt=1)
    """Share of the training set held out for choosing the epoch."""
    max_train_examples: int | None = Field(None, ge=16)
    """Use only so many training examples of each task, drawn with the seed (null: all)."""
    max_validation_examples: int | None = Field(None, ge=1)
    """Report on only so many validation examples of each task, drawn with the seed (null: all)."""
    seed: int = Field(12, ge=0)
    """Seed of the new head, the held-out part, the order of examples and dropout; the same for every run."""


class EvalConfig(Section):
    """Which suites a run is scored on, from where, and how."""

    suites: Annotated[
        tuple[Annotated[Suite, BeforeValidator(_check_suite)], ...], tyro.conf.arg(aliases=["--suite"])
    ] = ("blimp", "glue")
    """Benchmarks: blimp (67 paradigms), babylm23 (12 filtered tasks and 5 supplement tasks), blimp-fast (200
    pairs a paradigm), entity-tracking, wug, perplexity, embedded-pairs, glue (11 tasks), embedded-glue."""
    tasks: tuple[str, ...] = ()
    """Tasks, groups or tags of lm-eval that score text; on the command line without --suites, only these."""
    include_path: tuple[Path, ...] = ()
    """Folders with further task files of lm-eval."""
    protocol: ProtocolConfig = ProtocolConfig()
    """How texts are scored."""
    blimp_dir: Path | None = None
    """Folder with full/, filtered/, supplement/ (JSON Lines, a file a task); null: the hub (blimp only)."""
    babylm25_dir: Path | None = None
    """Folder with the evaluation data of BabyLM 2025, for blimp-fast, entity-tracking and wug."""
    text_file: Path | None = None
    """Text for perplexity (.txt, .jsonl, .parquet); null: the documents that a run's pretraining held out."""
    glue_dir: Path | None = None
    """Folder with <task>.train and <task>.validation as JSON Lines; null: the hub."""
    pair_tasks: tuple[str, ...] | None = None
    """Only these tasks of the suites that score text (null: all)."""
    max_pairs: int | None = Field(None, ge=1)
    """Score only so many pairs, items or documents of each task, evenly spaced over its file (null: all)."""
    embedded_pairs_per_paradigm: int = Field(60, ge=1)
    """Minimal pairs that the embedded grammar writes for each paradigm."""
    embedded_seed: int = Field(2024, ge=0)
    """Seed of the embedded pairs and classification tasks; the same for every run."""
    batch_tokens: int | None = Field(None, ge=1)
    """Tokens per forward pass when scoring texts; changes speed and memory, not scores (null: by device)."""
    device: str | None = None
    """cpu, cuda, cuda:1, ...; null: the GPU where there is one."""
    glue: GlueConfig = GlueConfig()
    """Fine-tuning on GLUE."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """What its scores are called in rows: the suites, and a benchmark for every name in ``tasks``."""
        return (*dict.fromkeys(self.suites), *(HARNESS_PREFIX + name for name in dict.fromkeys(self.tasks)))
