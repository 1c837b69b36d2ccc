"""What is evaluated and how: the ``evaluation:`` section of a study and the flags of ``python -m eval``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro
from pydantic import BeforeValidator, Field

from eval.glue_config import GLUE_TASK_NAMES as GLUE_TASK_NAMES
from eval.glue_config import GlueConfig as GlueConfig
from ffn_variants.cli import Section
from ffn_variants.errors import unknown_name

Suite = Literal["blimp", "blimp-filtered", "blimp-supplement", "embedded-pairs", "glue", "embedded-glue"]
SUITES: tuple[str, ...] = get_args(Suite)
PAIR_SUITES = ("blimp", "blimp-filtered", "blimp-supplement", "embedded-pairs")


def _check_suite(name: object) -> object:
    if name not in SUITES:
        raise unknown_name("suite", name, SUITES)
    return name


class EvalConfig(Section):
    """Which suites a run is scored on, from where, and how."""

    suites: Annotated[
        tuple[Annotated[Suite, BeforeValidator(_check_suite)], ...], tyro.conf.arg(aliases=["--suite"])
    ] = ("blimp", "glue")
    """Benchmarks: blimp (67 paradigms), blimp-filtered (12 tasks of BabyLM 2023), blimp-supplement (5 tasks),
    embedded-pairs, glue (11 tasks), embedded-glue."""
    blimp_dir: Path | None = None
    """Folder with full/, filtered/, supplement/ (JSON Lines, a file a task); null: the hub (blimp only)."""
    glue_dir: Path | None = None
    """Folder with <task>.train and <task>.validation as JSON Lines; null: the hub."""
    pair_tasks: tuple[str, ...] | None = None
    """Only these minimal-pair tasks of the suites (null: all)."""
    max_pairs: int | None = Field(None, ge=1)
    """Score only so many pairs of each task, evenly spaced over its file (null: all)."""
    embedded_pairs_per_paradigm: int = Field(60, ge=1)
    """Minimal pairs that the embedded grammar writes for each paradigm."""
    embedded_seed: int = Field(2024, ge=0)
    """Seed of the embedded pairs and classification tasks; the same for every run."""
    batch_tokens: int | None = Field(None, ge=1)
    """Tokens per forward pass when scoring pairs; changes speed and memory, not scores (null: by device)."""
    device: str | None = None
    """cpu, cuda, cuda:1, ...; null: the GPU where there is one."""
    glue: GlueConfig = GlueConfig()
    """Fine-tuning on GLUE."""
