"""The cells of a study: runs to be trained and scored, and pretrained models to be scored alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from base.families import PRETRAINED
from eval.config import EvalConfig
from eval.models.backbones import StudyBackbone
from eval.suites.registry import SUITES
from pretrain.config import RunConfig
from pretrain.run.folders import RunFolder


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a worker does at one seed, with everything that it needs."""

    evaluation: EvalConfig
    study_dir: Path
    run_dir: Path

    @property
    def run_id(self) -> str:
        """``family/variant/`` and ``seed<N>-<hash>`` or a name, the key of this run in every table."""
        return RunFolder(self.run_dir).run_id

    @property
    def variant(self) -> str:
        """What stands for it among the others of the study."""
        raise NotImplementedError

    @property
    def seed(self) -> int:
        """Of its pretraining, or of the fine-tuning of a model that was pretrained elsewhere."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """The run's name without the hash, as shown to a reader."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RunCell(Cell):
    """Pretraining of one family with one FFN variant, and its evaluation."""

    config: RunConfig

    @property
    def variant(self) -> str:
        return self.config.model.ffn

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def label(self) -> str:
        config = self.config
        return f"{config.family}/{config.model.ffn}/{config.output.run_name or f'seed{config.seed}'}"


@dataclass(frozen=True, kw_only=True)
class BackboneCell(Cell):
    """Evaluation of a model that is pretrained already."""

    backbone: StudyBackbone

    @property
    def variant(self) -> str:
        return self.backbone.variant

    @property
    def seed(self) -> int:
        return self.backbone.seed

    @property
    def label(self) -> str:
        return f"{PRETRAINED}/{self.variant}/seed{self.seed}"


def trained_cells(cells: Iterable[Cell]) -> list[RunCell]:
    """Return those whose models the study trains."""
    return [cell for cell in cells if isinstance(cell, RunCell)]


def backbone_cells(cells: Iterable[Cell]) -> list[BackboneCell]:
    """Return those whose models are pretrained already."""
    return [cell for cell in cells if isinstance(cell, BackboneCell)]


def check_backbones(models: Sequence[str], evaluation: EvalConfig) -> None:
    """Refuse what cannot be asked of models that are pretrained already; does not look where they are.

    Raises:
        ValueError: For two of one name, texts to be scored, nothing to be scored, or seeds that the study
            names itself.
    """
    names = [StudyBackbone(model, 0).variant for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two backbones are called {twice}, as their names end in it; name one of them")
    texts = [name for name in evaluation.suites if SUITES[name].kind != "classification"]
    if texts := [*texts, *evaluation.tasks]:
        raise ValueError(
            f"backbones score no texts, and evaluation names {', '.join(texts)}; write suites: [glue], or "
            "suites: [] and classify: [...]"
        )
    if not (evaluation.suites or evaluation.classify):
        raise ValueError(
            "backbones are only scored, and evaluation names nothing; write suites: [glue] or classify: [...]"
        )
    if isinstance(evaluation.finetune.seeds, tuple):
        raise ValueError("the study's seeds are those of fine-tuning backbones; leave finetune.seeds out")


def expand_backbones(
    models: Sequence[str], seeds: Sequence[int], evaluation: EvalConfig, folder: Path
) -> tuple[BackboneCell, ...]:
    """Return a cell for each model and seed of fine-tuning, seeds varying slowest."""
    named = [StudyBackbone(model, seed) for seed in seeds for model in models]
    return tuple(
        BackboneCell(backbone=one, evaluation=evaluation, study_dir=folder, run_dir=folder / one.run_id)
        for one in named
    )
