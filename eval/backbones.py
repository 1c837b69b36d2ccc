"""Pretrained models that are no run of this project, as what heads are trained on.

Each gets a folder in the layout of a study's runs, one for each seed of fine-tuning:
``<runs>/<model_type>/<name>/seed<N>-<hash>/backbone.yaml`` says where the model lies, and ``eval/`` holds the
scores. Seeds of a run's pretraining and of a backbone's fine-tuning are different things: what a report says
of the latter holds for this one pretrained model.

A study that names backbones has them in its own folder, ``<runs>/<study>/pretrained/<name>/seed<N>-<hash>/``,
where the hash is of what was named: so a name on the hub need not be looked up to make the study's plan.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import yaml

from base.config_input import read_yaml
from base.errors import UsageError, shown
from base.families import PRETRAINED
from base.files import write_text
from base.model_folders import clean_name, refuse_code
from base.records import parse_json
from base.run.folder_names import RUN_NAME, RunFolder

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_REVISION = re.compile(r"@[\w./-]+$")


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """One pretrained model and one seed of fine-tuning; nothing is read of it until it is found.

    Attributes:
        model: As the user named it: a folder with a saved model, the folder of a run, or a name on the hub,
            which may end in ``@`` and a revision.
        folder: Where its files are; empty until it is found.
        model_type: As its config.json says; empty until it is found.
        seed: Of fine-tuning.
        in_study: Whether a study named it.
        pooling: What that study lets heads read of this one, in place of what they read of the others.
    """

    model: str
    folder: str = ""
    model_type: str = ""
    seed: int
    in_study: bool = False
    pooling: str = ""

    @property
    def family(self) -> str:
        """What stands in rows for its family."""
        return PRETRAINED if self.in_study else self.model_type

    @property
    def variant(self) -> str:
        """What stands for it in rows, where a run has the variant of its FFN.

        Its own name; in a study of a run ``<family>-<variant>-seed<N>``, and with a pooling that behind it.
        """
        if not self.in_study:
            return clean_name(Path(self.model).name)
        path = Path(_REVISION.sub("", self.model))
        run = path.parent if path.name == RunFolder(path.parent).model_dir.name else path
        name = clean_name(path.name)
        if (match := RUN_NAME.fullmatch(run.name)) and len(run.parts) > 2:
            name = clean_name("-".join((*run.parts[-3:-1], f"seed{match['seed']}")))
        return "-".join(filter(None, (name, self.pooling)))

    @property
    def run_id(self) -> str:
        """``<model_type>/<name>/seed<N>-<hash>``, or in a study ``pretrained/<name>/seed<N>-<hash>``."""
        identity = self.model + self.pooling if self.in_study else self.folder
        digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
        return f"{self.family}/{self.variant}/seed{self.seed}-{digest}"

    def locate(self) -> str:
        """Say where it is, without a look at the network.

        Raises:
            UsageError: If it is neither a folder with a model nor what could be a name on the hub.
        """
        path = Path(self.model)
        if path.is_dir():
            _saved_model(path)
            return "folder"
        no_name = UsageError(
            f"backbone {shown(self.model)}: there is no such folder, and it can be no name on the hub; name "
            "one or the other"
        )
        if path.exists() or not _HUB_NAME.fullmatch(_REVISION.sub("", self.model)):
            raise no_name
        try:
            return "hub, in the cache here" if _in_cache(self.model) else "hub, to be downloaded"
        except ValueError:  # not as the hub spells names, such as ../x
            raise no_name from None

    def prepare(self, run_dir: Path) -> None:
        """Find the model, from the hub if need be, and note in its folder of scores where it is.

        Raises:
            UsageError: If there is no such model.
        """
        folder, model_type = _find(Path(self.model))
        _write(run_dir, replace(self, folder=str(folder), model_type=model_type))


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
    folder, model_type = _find(model)
    runs = []
    for seed in seeds:
        backbone = Backbone(model=model.as_posix(), folder=str(folder), model_type=model_type, seed=seed)
        runs.append(runs_dir / backbone.run_id)
        _write(runs[-1], backbone)
    return runs


def _find(model: Path) -> tuple[Path, str]:
    """Return the folder of a model, and what its config says that it is."""
    from base.hub import download_model

    folder = _saved_model(model).resolve() if model.is_dir() else download_model(model.as_posix())
    try:
        content = parse_json((folder / "config.json").read_bytes())
        model_type = clean_name(str(content["model_type"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{folder}/config.json names no model_type; save the model there again") from None
    refuse_code(folder)
    return folder, model_type


def _saved_model(folder: Path) -> Path:
    """Return the folder itself, or in that of a run the trained model."""
    run = RunFolder(folder)
    model_dir = run.model_dir if run.is_run else folder
    if not (model_dir / "config.json").is_file():
        raise UsageError(f"{model_dir} holds no saved model (no config.json); name a folder that has one")
    return model_dir


def _write(run_dir: Path, backbone: Backbone) -> None:
    optional = ("in_study", "pooling")
    content = {name: value for name, value in asdict(backbone).items() if name not in optional or value}
    write_text(RunFolder(run_dir).backbone_file, yaml.safe_dump(content, sort_keys=False))


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


def _in_cache(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    repository, _, revision = name.partition("@")
    return isinstance(try_to_load_from_cache(repository, "config.json", revision=revision or None), str)
