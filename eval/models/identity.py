"""Who a run is, and which weights it has; loads no model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from base.errors import UsageError
from base.families import get_family
from base.files import write_text
from eval.files import fingerprint
from eval.models.backbones import read_backbone
from pretrain.run.folders import RunFolder
from pretrain.run.run_dir import read_run, run_id

# Everything in a model folder that can change a score; the model card cannot.
_MODEL_SUFFIXES = (".safetensors", ".bin", ".json", ".txt", ".model")


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
        return RunIdentity(other.run_id, other.model_type, other.variant, other.seed, None, other.seed)
    config = read_run(run_dir)
    family, variant = config.family, config.model.ffn
    return RunIdentity(run_id(config), family, variant, config.seed, get_family(family).objective)


def model_folder(run_dir: Path) -> Path:
    """Return the folder of a run's trained model.

    Raises:
        UsageError: If there is none yet.
    """
    if (other := read_backbone(run_dir)) is not None:
        return Path(other.folder)
    folder = RunFolder(run_dir)
    if not folder.has_model:
        raise UsageError(
            f"{run_dir} has no model/config.json: its pretraining did not finish; start the same run again"
        )
    return folder.model_dir


def weights_hash(run_dir: Path) -> str:
    """Return 16 hexadecimal digits that change with a run's weights, model config or tokenizer."""
    return fingerprint(model_files(model_folder(run_dir)))


def remember_weights(run_dir: Path) -> None:
    """Note beside the scores which files have which hash, so that a check need not read them all again."""
    states = _file_states(run_dir)  # before they are read: a file that changes meanwhile is then not believed
    note = json.dumps({"weights": weights_hash(run_dir), "files": states})
    path = RunFolder(run_dir).known_weights_file
    if not path.is_file() or path.read_text(encoding="utf-8") != note:
        write_text(path, note)


def known_weights_hash(run_dir: Path) -> str:
    """Return ``weights_hash`` without reading files of which neither size nor time of change are others.

    Raises:
        UsageError: If there is no model.
    """
    try:
        known = json.loads(RunFolder(run_dir).known_weights_file.read_text(encoding="utf-8"))
        if known["files"] == _file_states(run_dir):
            return known["weights"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # evaluated before there was such a note
    return weights_hash(run_dir)


def model_files(folder: Path) -> list[Path]:
    """Return the files of a model's folder that its scores depend on."""
    return [path for path in sorted(folder.iterdir()) if path.suffix in _MODEL_SUFFIXES]


def _file_states(run_dir: Path) -> dict[str, list[int]]:
    states = ((path.name, path.stat()) for path in model_files(model_folder(run_dir)))
    return {name: [state.st_size, state.st_mtime_ns] for name, state in states}
