"""Pretrained models that are no run of this project, as what heads are trained on.

Each gets a folder in the layout of a study's runs, one for each seed of fine-tuning:
``<runs>/<model_type>/<name>/seed<N>-<hash>/backbone.yaml`` says where the model lies, and ``eval/`` holds the
scores. Seeds of a run's pretraining and of a backbone's fine-tuning are different things: what a report says
of the latter holds for this one pretrained model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import write_text
from base.model_folders import clean_name, refuse_code
from pretrain.run.folders import RunFolder

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class Backbone:
    """One pretrained model and one seed of fine-tuning.

    Attributes:
        model: As the user named it: a folder, or a name on the hub.
        folder: Where its files are.
        model_type: As its config.json says.
        seed: Of fine-tuning.
    """

    model: str
    folder: str
    model_type: str
    seed: int

    @property
    def run_id(self) -> str:
        """``<model_type>/<name>/seed<N>-<hash>``."""
        digest = hashlib.sha256(self.folder.encode()).hexdigest()[:8]
        return f"{self.model_type}/{self.variant}/seed{self.seed}-{digest}"

    @property
    def variant(self) -> str:
        """What stands for it in rows, where a run has the variant of its FFN."""
        return clean_name(Path(self.model).name)


def is_backbone(path: Path) -> bool:
    """Whether a path names a saved model that is no run, or what could be a name on the hub."""
    if path.is_dir():
        return (path / "config.json").is_file()
    return not path.exists() and _HUB_NAME.fullmatch(path.as_posix()) is not None


def backbone_runs(model: Path, seeds: Sequence[int], runs_dir: Path) -> list[Path]:
    """Make, or find, the folders that hold the scores of a pretrained model.

    Args:
        model: A folder that ``save_pretrained`` wrote, or a name on the hub.
        seeds: Of fine-tuning, a folder each.
        runs_dir: Where they lie.

    Raises:
        UsageError: If there is no such model.
    """
    folder = model.resolve() if model.is_dir() else _from_hub(model.as_posix())
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        model_type = clean_name(str(content["model_type"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{folder}/config.json names no model_type; save the model there again") from None
    refuse_code(folder)
    found = []
    for seed in seeds:
        backbone = Backbone(model.as_posix(), str(folder), model_type, seed)
        path = runs_dir / backbone.run_id
        write_text(RunFolder(path).backbone_file, yaml.safe_dump(asdict(backbone), sort_keys=False))
        found.append(path)
    return found


def read_backbone(run_dir: Path) -> Backbone | None:
    """Read which model a folder's scores are of; None for a run.

    Raises:
        UsageError: If the file is damaged.
    """
    folder = RunFolder(run_dir)
    if not folder.is_backbone:
        return None
    path = folder.backbone_file
    try:
        return Backbone(**read_yaml(path))
    except (UsageError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{path} is damaged: {reason}; remove it and name the model again") from None


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.txt", "*.model", "*.safetensors"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UsageError(
            f"{name} is no folder, and cannot be loaded from the hub: {reason}; name a run, a study, or a "
            "folder with a saved model"
        ) from None
