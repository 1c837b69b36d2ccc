"""Who a run is, which weights it has, and whether code of its may run; loads no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from base.errors import UsageError
from base.families import get_family
from base.files import damage
from base.run.folder_names import RunFolder
from base.run.manifest import MODEL_SUFFIXES, archived_weights, read_completion, trained_model
from eval.backbones import read_backbone
from eval.data_files import fingerprint
from pretrain.run.run_folder import read_run, run_id


@dataclass(frozen=True)
class RunIdentity:
    """What the rows of a run say about it.

    Attributes:
        run_id: ``<family>/<variant>/`` and ``seed<N>-<hash>``, or the name that its user chose.
        objective: ``causal``, ``masked`` or ``span_corruption``; None for a backbone, which scores no texts.
        finetune_seed: The one seed of fine-tuning that a backbone's folder is for; None for a run.
    """

    run_id: str
    family: str
    variant: str
    seed: int
    objective: str | None
    finetune_seed: int | None = None


def identify_run(run_dir: Path) -> RunIdentity:
    """Read who a run is from its config, wherever its folder was moved to.

    Raises:
        UsageError: If the folder is no run.
    """
    if (other := read_backbone(run_dir)) is not None:
        return RunIdentity(other.run_id, other.family, other.variant, other.seed, None, other.seed)
    config = read_run(run_dir)
    family, variant = config.family, config.model.ffn
    return RunIdentity(run_id(config), family, variant, config.seed, get_family(family).objective)


def model_folder(run_dir: Path) -> Path:
    """Return the folder of a run's trained model.

    Raises:
        UsageError: If there is none yet, or that of others was removed.
    """
    if (other := read_backbone(run_dir)) is not None:
        if not Path(other.folder).is_dir():
            raise UsageError(
                f"{other.folder}, which {run_dir} has scores of, is gone; put the model back there, or name "
                "it again from where it is"
            )
        return Path(other.folder)
    return trained_model(RunFolder(run_dir))


def admit_run(run_dir: Path, trust_remote_code: bool) -> None:
    """Load the FFN variant that a run's model brings as code, if it is as its training left it, or refuse it.

    Raises:
        UsageError: Without consent; or if there is no run or no model, or its files are others.
    """
    from ffn_variants.models.stored_variants import admit_variants  # takes seconds, as transformers does

    identify_run(run_dir)
    weights_hash(run_dir)
    admit_variants(model_folder(run_dir), trust_remote_code)


def weights_hash(run_dir: Path) -> str:
    """Return 16 hexadecimal digits that change with a run's weights, model config or tokenizer.

    Of an archived run they are those of the model that was left out.

    Raises:
        UsageError: If there is no model, or it is not as its training left it.
    """
    if archived := archived_weights(RunFolder(run_dir)):
        return archived
    files = model_files(model_folder(run_dir))
    _refuse_damage(RunFolder(run_dir), files)
    return fingerprint(files)


def _refuse_damage(run: RunFolder, files: Sequence[Path]) -> None:
    """Hold a model's files against the checksums of its training, where there are any."""
    completion = None if run.is_backbone else read_completion(run)
    if completion is None or not completion.files:
        return
    recorded = completion.model_files
    for name, wrong in damage(run.path, recorded).items():
        study = run.study.path  # where it lies now, which need not be where the run was begun
        raise UsageError(
            f"{run.path / name} {wrong}; the scores stay, and the same run makes its model again, from its "
            f"last checkpoint: ffn-ablations train {run.config_file} --runs-dir {study.parent} "
            f"--study {study.name}"
        )
    if added := [path for path in files if f"{run.model_dir.name}/{path.name}" not in recorded]:
        raise UsageError(f"{added[0]} was not there when the model was written; remove it, the scores stay")


def model_files(folder: Path) -> list[Path]:
    """Return the files of a model's folder that its scores depend on."""
    return [path for path in sorted(folder.iterdir()) if path.suffix in MODEL_SUFFIXES]
