"""The cells of a study: runs to be trained and scored, and pretrained models to be scored alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from base.families import PRETRAINED
from base.run.folders import RunFolder
from eval.backbones import StudyBackbone
from eval.config import EvalConfig
from pretrain.config import RunConfig
from pretrain.run.run_dir import run_dir
from scores.stages import MAIN, Stage
from scores.suites.registry import SUITES
from slurm.state.listing import tell_levels
from slurm.study.own_variants import OwnVariant


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a worker does at one seed, with everything that it needs."""

    evaluation: EvalConfig
    study_dir: Path
    run_dir: Path
    places: tuple[tuple[str, str], ...] = ()
    """Axes of the study beside the variant, and its level on each."""
    stage: Stage = MAIN
    """What it is for: what is compared (main), or how that is to be trained."""

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
    def shown_id(self) -> str:
        """Its ``run_id``, and what that does not tell."""
        told = tell_levels(self.run_id, {"variant": self.variant, **dict(self.places)})
        return f"{self.run_id}  {told}" if told else self.run_id

    @property
    def label(self) -> str:
        """The run's name without the hash, as shown to a reader."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RunCell(Cell):
    """Pretraining of one family with one FFN variant, and its evaluation."""

    config: RunConfig
    own: OwnVariant | None = None
    """Its variant, where that is in a file of the user's."""
    level: str | None = None
    """What the study calls the variant; None where that is its name."""

    @property
    def variant(self) -> str:
        return self.level or self.config.model.ffn

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def label(self) -> str:
        config = self.config
        name = f"{config.family}/{self.variant}/{config.output.run_name or f'seed{config.seed}'}"
        places = tell_levels(self.run_id, dict(self.places))
        return f"{name} ({places})" if places else name


@dataclass(frozen=True, kw_only=True)
class BackboneCell(Cell):
    """Evaluation of a model that is pretrained already."""

    backbone: StudyBackbone
    trust_remote_code: bool = False
    """Whether its user consented to run an FFN variant that it brings."""

    @property
    def variant(self) -> str:
        return self.backbone.variant

    @property
    def seed(self) -> int:
        return self.backbone.seed

    @property
    def label(self) -> str:
        return f"{PRETRAINED}/{self.variant}/seed{self.seed}"


def at_seed(cell: RunCell, seed: int) -> RunCell:
    """Return the cell of the same arm at another seed."""
    run_config = cell.config.model_copy(update={"seed": seed})
    return replace(cell, config=run_config, run_dir=run_dir(run_config))


def trained_cells(cells: Iterable[Cell]) -> list[RunCell]:
    """Return those whose models the study trains."""
    return [cell for cell in cells if isinstance(cell, RunCell)]


def own_variants(cells: Iterable[Cell]) -> list[OwnVariant]:
    """Return the variants of cells that are in files, each once."""
    return list(dict.fromkeys(cell.own for cell in trained_cells(cells) if cell.own))


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
    models: Sequence[str],
    seeds: Sequence[int],
    evaluation: EvalConfig,
    folder: Path,
    trust_remote_code: bool = False,
) -> tuple[BackboneCell, ...]:
    """Return a cell for each model and seed of fine-tuning, seeds varying slowest."""
    named = [StudyBackbone(model, seed) for seed in seeds for model in models]
    return tuple(
        BackboneCell(
            backbone=one,
            evaluation=evaluation,
            study_dir=folder,
            run_dir=folder / one.run_id,
            trust_remote_code=trust_remote_code,
        )
        for one in named
    )
