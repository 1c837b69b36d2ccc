"""What is evaluated and how: the ``evaluation:`` section of a study and the flags of the command eval."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from base.errors import UsageError, shown, unknown_name
from base.sections import Section, Unlisted
from eval.finetuning import FinetuneConfig
from eval.protocol import ProtocolConfig
from scores.suites import SUITES, SuiteSpec


def _check_suite(name: object) -> object:
    if name not in list(SUITES):  # which may be no text
        raise UsageError(f"{unknown_name('suite', name, SUITES)}; lm-eval's are under tasks (--tasks)")
    return name


Suite = Annotated[Literal[tuple(SUITES)], BeforeValidator(_check_suite)]  # type: ignore[invalid-literal]


def _listed(suites: dict[str, SuiteSpec]) -> str:
    return ", ".join(f"{name} ({spec.label})" if spec.label else name for name, spec in suites.items())


def _check_device(name: str) -> str:
    if not re.fullmatch(r"(cpu|cuda|mps|xpu)(:\d{1,3})?", name):
        raise ValueError(f"{shown(name)} is no device; give cpu, cuda, cuda:1, mps or xpu")
    return name


Device = Annotated[str, AfterValidator(_check_device)]


class EvalConfig(Section):
    """Which suites a run is scored on, from where, and how."""

    short_names: ClassVar = {
        ("suites",): "suite",
        ("protocol", "preset"): "protocol",
        ("finetune", "head"): "head",
        ("finetune", "freeze_backbone"): "freeze-backbone",
    }

    suites: tuple[Suite, ...] = Field(("blimp", "glue"), description=f"Benchmarks: {_listed(SUITES)}.")
    tasks: tuple[str, ...] = ()
    """Tasks, groups or tags of lm-eval that score text; on the command line without --suites, only these."""
    classify: tuple[str, ...] = ()
    """Classification tasks: names (ffn-ablations list tasks) or YAML files of your own; on the command line
    without --suites, only these."""
    include_path: tuple[Path, ...] = ()
    """Folders with further task files of lm-eval."""
    protocol: ProtocolConfig = ProtocolConfig()
    """How texts are scored."""
    blimp_dir: Path | None = None
    """Folder with full/, filtered/, supplement/ (JSON Lines, a file a task); null: the hub (blimp only)."""
    babylm25_dir: Path | None = None
    """Folder with the evaluation data of BabyLM 2025, for blimp-fast, blimp-filtered, blimp-supplement,
    comps and ewok."""
    text_file: Path | None = None
    """Text for perplexity (.txt, .jsonl, .parquet); null: the documents that a run's pretraining held out."""
    pair_files: tuple[Path, ...] = ()
    """Your own minimal pairs: a file a task, with sentence_good and sentence_bad (.jsonl, .csv, .tsv,
    .parquet); on the command line without --suites, only these."""
    glue_dir: Path | None = None
    """Folder with <task>.train and <task>.validation as JSON Lines; null: the hub."""
    classification_dir: Path | None = None
    """As --glue-dir, for tasks beside GLUE's."""
    pair_tasks: tuple[str, ...] | None = None
    """Only these tasks of the suites that score text (null: all)."""
    max_pairs: int | None = Field(None, ge=1)
    """Score only so many pairs, items or documents of each task, evenly spaced over its file (null: all)."""
    embedded_pairs_per_paradigm: Unlisted[int] = Field(60, ge=1)
    """Minimal pairs that the embedded grammar writes for each paradigm."""
    embedded_seed: Unlisted[int] = Field(2024, ge=0)
    """Seed of the embedded pairs and classification tasks; the same for every run."""
    batch_tokens: int | None = Field(None, ge=1)
    """Tokens per forward pass when scoring texts; changes speed and memory, not scores (null: by
    device)."""
    device: Device | None = None
    """cpu, cuda, cuda:1, ...; null: the GPU where there is one."""
    finetune: FinetuneConfig = FinetuneConfig()
    """Fine-tuning of classifiers, on GLUE and every other classification task."""

    def refuse_unnamed_task_files(self, typed: Sequence[Path], source: Path) -> None:
        """Refuse folders of task files that a study names and nobody typed: such files may run code.

        Args:
            typed: What was typed after ``--include-path``.
            source: The study's file, for the error message.

        Raises:
            UsageError: Names the folder, and the flag that says that it is trusted.
        """
        if unnamed := sorted(set(self.include_path) - set(typed)):
            names = " ".join(map(str, self.include_path))
            raise UsageError(
                f"{source} names task files in {unnamed[0]}, which may run code; if you trust them, add "
                f"--include-path {names}"
            )
