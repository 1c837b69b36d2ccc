"""The cells of a study: runs to be trained and scored, and pretrained models to be scored alone."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import model_validator

import ffn_variants
from base.config_input import shipped
from base.errors import UsageError, WorldError, prefixed
from base.files import CODE_ROOT, mapping
from base.run.folder_names import RUN_NAME, RunFolder
from base.sections import Section
from eval.backbones import Backbone
from eval.config import EvalConfig
from eval.finetuning import Pooling
from ffn_variants.names import absolute_place, check_consent, names_file, variant_file
from pretrain.config import ResolvedConfig
from pretrain.run.run_folder import run_dir
from scores.stages import MAIN, Stage
from scores.suites import SUITES
from slurm.cell_state import describe_levels
from slurm.study.ffn_levels import split_file


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a worker does at one seed, with everything that it needs."""

    variant: str
    """The study's name for it among the others: an FFN variant with its options, or a backbone."""
    seed: int
    """Of its pretraining, or of the fine-tuning of a model that was pretrained elsewhere."""
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
    def levels(self) -> dict[str, str]:
        """The study's name for its variant (``variant``), and its level on each axis by the axis's name."""
        return {"variant": self.variant, **dict(self.places)}

    @property
    def shown_id(self) -> str:
        """Its ``run_id``, and the levels that the name of its folder does not show."""
        levels = describe_levels(self.run_id, self.levels)
        return f"{self.run_id}  {levels}" if levels else self.run_id

    @property
    def label(self) -> str:
        """The run's name without the hash, as shown to a reader."""
        family, _, name = self.run_id.split("/")
        name = f"seed{self.seed}" if RUN_NAME.fullmatch(name) else name
        places = describe_levels(self.run_id, dict(self.places))
        return f"{family}/{self.variant}/{name}{f' ({places})' if places else ''}"


@dataclass(frozen=True, kw_only=True)
class RunCell(Cell):
    """Pretraining of one family with one FFN variant, and its evaluation."""

    config: ResolvedConfig
    variant_file: OwnVariant | None = None
    """Its variant, where that is in a file of the user's."""


@dataclass(frozen=True, kw_only=True)
class BackboneCell(Cell):
    """Evaluation of a model that is pretrained already."""

    backbone: Backbone
    trust_remote_code: bool = False
    """Whether its user consented to run an FFN variant that it brings."""


def at_seed(cell: RunCell, seed: int) -> RunCell:
    """Return the cell of the same arm at another seed."""
    run_config = cell.config.model_copy(update={"seed": seed})
    return replace(cell, seed=seed, config=run_config, run_dir=run_dir(run_config))


def trained_cells(cells: Iterable[Cell]) -> list[RunCell]:
    """Pick the cells whose models the study trains."""
    return [cell for cell in cells if isinstance(cell, RunCell)]


def own_variants(cells: Iterable[Cell]) -> list[OwnVariant]:
    """Return the variants of cells that are in files, each once."""
    return list(dict.fromkeys(cell.variant_file for cell in trained_cells(cells) if cell.variant_file))


def backbone_cells(cells: Iterable[Cell]) -> list[BackboneCell]:
    """Pick the cells whose models are pretrained already."""
    return [cell for cell in cells if isinstance(cell, BackboneCell)]


class BackboneConfig(Section):
    """A pretrained model as a study names it, alone or with what it has in place of the evaluation."""

    model: str
    classify: tuple[str, ...] | None = None
    """Tasks of ``evaluation.classify`` that it is scored on, where those are not all."""
    pooling: Pooling | None = None
    """What heads read of it, where not as of the others; it is then called ``<name>-<pooling>``."""

    @model_validator(mode="before")
    @classmethod
    def _read_name(cls, value: object) -> object:
        return {"model": value} if isinstance(value, str) else value

    def at_seed(self, seed: int) -> Backbone:
        """Return the backbone at a seed of fine-tuning."""
        return Backbone(model=self.model, seed=seed, in_study=True, pooling=self.pooling or "")

    def evaluation(self, whole: EvalConfig) -> EvalConfig:
        """Return how it is scored in a study that scores its others in another way."""
        pooling = {"pooling": self.pooling} if self.pooling else {}
        finetune = whole.finetune.model_copy(update=pooling)
        tasks = whole.classify if self.classify is None else self.classify
        return whole.model_copy(update={"finetune": finetune, "classify": tasks})


def check_backbones(models: Sequence[BackboneConfig], evaluation: EvalConfig) -> None:
    """Refuse what cannot be asked of models that are pretrained already; does not look where they are.

    Raises:
        ValueError: For two of one name, texts to be scored, nothing to be scored, a task that the study does
            not score, or seeds that it names itself.
    """
    names = [model.at_seed(0).variant for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two backbones are called {twice}, as their names end in it; name one of them")
    texts = [name for name in evaluation.suites if SUITES[name].kind != "classification"]
    if [*texts, *evaluation.tasks] or not (evaluation.suites or evaluation.classify):
        raise ValueError(
            f"backbones score no texts ({', '.join([*texts, *evaluation.tasks]) or 'nothing'} is named), "
            "only classifiers; write suites: [glue], or suites: [] and classify: [...]"
        )
    for model in models:
        if others := sorted(set(model.classify or ()) - set(evaluation.classify)):
            raise ValueError(
                f"backbone {model.model} is to be scored on {', '.join(others)}; name that in "
                "evaluation.classify too"
            )
    if isinstance(evaluation.finetune.seeds, tuple):
        raise ValueError("the study's seeds are those of fine-tuning backbones; leave finetune.seeds out")


def expand_backbones(
    models: Sequence[BackboneConfig],
    seeds: Sequence[int],
    evaluation: EvalConfig,
    folder: Path,
    trust_remote_code: bool = False,
) -> tuple[BackboneCell, ...]:
    """Return a cell for each model and seed of fine-tuning, seeds varying slowest."""
    backbones = [(model, model.at_seed(seed)) for seed in seeds for model in models]
    return tuple(
        BackboneCell(
            variant=backbone.variant,
            seed=backbone.seed,
            backbone=backbone,
            evaluation=model.evaluation(evaluation),
            study_dir=folder,
            run_dir=folder / backbone.run_id,
            trust_remote_code=trust_remote_code,
        )
        for model, backbone in backbones
    )


FOLDER = "own_variants"
"""In a copy of the code: ``<variant>.py`` for each."""


@dataclass(frozen=True)
class OwnVariant:
    """A variant from a file, as a job is to run it.

    Attributes:
        name: The variant's.
        attribute: Of its spec in the file.
        sha256: Of the file, as it was when its user submitted it.
    """

    name: str
    attribute: str
    sha256: str

    @property
    def copy(self) -> str:
        """Where it lies in a copy of the code."""
        return f"{FOLDER}/{self.name}.py"

    def load(self) -> None:
        """Load it in a job, from the copy of the code that the job runs.

        Raises:
            WorldError: If that copy is not what was submitted; nothing of it is run then.
        """
        path = CODE_ROOT / self.copy
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != self.sha256:
            raise WorldError(
                f"{path} is not the file of the variant {self.name!r} that was submitted, and was not run; "
                "the same command makes the copy anew"
            )
        ffn_variants.load_variant(f"{path}:{self.attribute}")


def variant_place(name: str) -> str | None:
    """Return ``path.py:NAME`` of a variant that was loaded from a file; None for any other."""
    file = variant_file(name)
    return f"{file.path}:{file.attribute}" if file else None


def own_variant(name: str) -> OwnVariant | None:
    """Describe a variant of this process for jobs; None for one that came from no file."""
    if (file := variant_file(name)) is None:
        return None
    return OwnVariant(name, file.attribute, hashlib.sha256(file.content).hexdigest())


def contents(variants: Iterable[OwnVariant]) -> dict[str, bytes]:
    """Return the files of variants by their place in a copy of the code."""
    return {one.copy: file.content for one in variants if (file := variant_file(one.name))}


def absolute_variant(text: Any, folder: Path, source: str) -> Any:
    """Make the place in ``path/to/mine.py:SPEC alpha=2`` absolute; other variants stay as they are.

    Args:
        text: What stands under ``variants``.
        folder: Where relative paths start.
        source: Where the text is from, for errors.

    Raises:
        UsageError: For a text that looks like a file and names no Python file, or a mapping.
    """
    if isinstance(text, dict) and len(text) == 1:
        name, options = next(iter(text.items()))
        words = [str(name), *(f"{key}={value}" for key, value in mapping(options).items())]
        words[-1] += "" if isinstance(options, dict) else f"={options}"
        raise UsageError(f'{source}: {text} is a mapping; write "{" ".join(words)}"')
    place, options = split_file(text) if isinstance(text, str) else ("", "")
    if not names_file(place):
        return text
    with prefixed(f"{source}: "):
        return f"{absolute_place(place if place.startswith('~') else str(folder / place))}{options}"


def load_file_variants(
    path: Path, variants: Iterable[Any], trust_remote_code: bool, typed: Collection[Any] = ()
) -> list[Any]:
    """Run the files that a study names; returns its variants with the names that their specs have.

    Args:
        path: The study's file.
        variants: With absolute places.
        trust_remote_code: Whether to run files of other places than the study's own folder too.
        typed: Those of the variants that are from a command line, which is consent to run them.

    Raises:
        UsageError: Without consent, naming the first file; or as ``load_variant``.
    """
    names = []
    for text in variants:
        place, options = split_file(text) if isinstance(text, str) else ("", "")
        if names_file(place):
            consents = trust_remote_code or text in typed or lies_beside(path, place)
            consents = consents or not Path(place.rpartition(":")[0]).exists()  # loading it says so
            check_consent(consents, f"{path}: its variants name {place}")
            text = f"{ffn_variants.load_variant(place).name}{options}"
        names.append(text)
    return names


def lies_beside(path: Path, place: str) -> bool:
    """Whether a variant's file is in the folder of a user's own study; a link to elsewhere is not."""
    file = Path(place.rpartition(":")[0]).resolve()
    return path.resolve().parent == file.parent and path not in shipped("study").values()
