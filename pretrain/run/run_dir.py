"""The run folder's name and the configuration in it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import damage, write_text
from base.records import peek_record
from base.run.folders import RUN_NAME, RunFolder
from base.run.manifest import Completion, mixed_up, read_completion
from base.sections import Typed
from pretrain.config import RunConfig
from pretrain.config_sources import Sources
from pretrain.resolution import resolve, resolve_sources

RESULT_NEUTRAL: dict[str, Any] = {
    "output": True,
    # What it decides is in intermediate_size: the same width is the same run however it was chosen.
    # Where a variant's file lies; what it computes is in ffn_source.
    "model": {"ffn_budget", "ffn_file"},
    "train": {
        "per_device_eval_batch_size",
        "logging_steps",
        "eval_steps",
        "eval_every",
        "eval_suite",
        "eval_dir",
        "save_steps",
        "save_minutes",
        "save_total_limit",
        "max_loss_ratio",
        # The rows of a step stay the same, cut into more forward passes or fewer.
        "per_device_train_batch_size",
        "find_batch_size",
        "torch_compile",
        "torch_compile_fallback",
        "compile_model",
        "deterministic",
        "tracker",
    },
}
"""Fields that cannot change the trained model; they are left out of the hash and of the comparison."""


def config_hash(config: RunConfig) -> str:
    """Eight hexadecimal digits over every field that can change the result and is not at its default.

    So a field that a later version adds leaves the hashes of all runs as they are; the default of a field
    must never change.
    """
    sections = _decisive(config, exclude_defaults=True)
    text = json.dumps({name: values for name, values in sections.items() if values != {}}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def run_dir(config: RunConfig) -> Path:
    """Folder of a run: ``<runs_dir>/<study>/<family>/<variant>/`` and ``seed<N>-<hash>`` or ``run_name``."""
    return Path(config.output.runs_dir) / config.output.study / run_id(config)


def run_id(config: RunConfig) -> str:
    """What a run is called in its study: ``<family>/<variant>/`` and ``seed<N>-<hash>`` or ``run_name``."""
    name = config.output.run_name or f"seed{config.seed}-{config_hash(config)}"
    return f"{config.family}/{config.model.ffn}/{name}"


def read_run(path: Path) -> RunConfig:
    """The configuration of the run in a folder.

    Raises:
        UsageError: If the folder holds no run, or a configuration that is not the one it was begun with.
    """
    folder = RunFolder(Path(path))
    if not folder.is_run:
        raise UsageError(
            f"{path}: is no run folder (it has no {folder.config_file.name}); "
            "give runs/<study>/<family>/<variant>/<run>"
        )
    if mixed := mixed_up(folder):
        raise UsageError(f"{mixed} Put it back, or remove this folder and train the run anew")
    values = read_yaml(folder.config_file)
    config = resolve_sources(Sources(values, Typed({}, {}), (), str(folder.config_file)), is_begun=True)
    if wrong := _contradiction(folder, config, values):
        raise UsageError(
            f"{folder.config_file} {wrong}, so it was edited or damaged; restore it, or give the command "
            "again that began the run, which writes it anew"
        )
    return config


def was_begun_with(path: Path, config: RunConfig) -> bool:
    """Whether a run's name or its record says that this was its configuration, whatever its file says now."""
    folder = RunFolder(path)
    named = RUN_NAME.fullmatch(path.name)
    begun = named["hash"] if named else peek_record(folder.provenance_file).get("config_hash")
    return config_hash(config) == begun


def _contradiction(folder: RunFolder, config: RunConfig, values: Mapping[str, Any]) -> str | None:
    """What a run's configuration, read from those values, does not agree with, as the end of a sentence."""
    if lost := sorted(set(RunConfig.model_fields) - values.keys()):
        return f"has no {lost[0]}"
    own = config_hash(config)
    begun = peek_record(folder.provenance_file).get("config_hash")
    if begun not in (None, own):
        return f"is not the configuration that the run was begun with (hash {own}, in its record {begun})"
    named = RUN_NAME.fullmatch(folder.path.name)
    if named and (int(named["seed"]), named["hash"]) != (config.seed, own):
        return f"does not fit the name of its folder (it is seed{config.seed}-{own})"
    if folder.has_model:
        saved = peek_record(folder.model_dir / "config.json")
        model = saved.get("model_type"), saved.get("ffn")
        if saved and model != (f"ffn_{config.family}", config.model.ffn):
            return f"says {config.family}, {config.model.ffn}, and the saved model is {model[0]}, {model[1]}"
    return None


def check_same_config(path: Path, config: RunConfig) -> None:
    """Refuse to go on in a folder that holds a run with another configuration.

    Raises:
        UsageError: Naming the first field that differs, with both values.
    """
    if mixed := mixed_up(RunFolder(path)):
        raise UsageError(f"{mixed} Put it back, or remove this folder and give the same command again")
    if not RunFolder(path).is_run or was_begun_with(path, config):
        return
    difference = _first_difference(_decisive(read_run(path)), _decisive(config))
    if difference:
        raise UsageError(
            f"{path} holds a run with another config ({difference}); pass another --run-name or remove it"
        )


def write_config(path: Path, config: RunConfig) -> None:
    """Save the resolved configuration; a valid input of the training command."""
    write_text(RunFolder(path).config_file, to_yaml(config))


def to_yaml(config: BaseModel) -> str:
    """A configuration as YAML, in the order of its fields."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _decisive(config: RunConfig, exclude_defaults: bool = False) -> dict[str, Any]:
    return resolve(config).model_dump(mode="json", exclude=RESULT_NEUTRAL, exclude_defaults=exclude_defaults)


def _first_difference(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> str | None:
    for name in now:
        old, new = before.get(name), now[name]
        if isinstance(old, dict) and isinstance(new, dict) and name != "ffn_options":
            if found := _first_difference(old, new, f"{prefix}{name}."):
                return found
        elif old != new:
            return f"{prefix}{name} {old}, now {new}"
    return None


def is_finished(path: Path) -> bool:
    """Whether a run is finished, its model and its configuration being whole; what is damaged is named.

    Args:
        path: The run folder.
    """
    run = RunFolder(path)
    completion = read_completion(run)
    if completion is None:
        return False
    for name, why in (wrong := _wrong_model(run, completion)).items():
        print(
            f"note: {path / name} {why}; the command that trains this run makes it again",
            file=sys.stderr,
            flush=True,
        )
    return not wrong and _has_config(path)


def make_again(path: Path, config: RunConfig) -> None:
    """Prepare a finished run of which something is damaged for training; only its sole writer may.

    Its configuration is written anew. With a damaged model it counts as unfinished: its last steps, from the
    newest checkpoint on, lead to the same weights again.

    Args:
        path: The run folder.
        config: What the run was begun with.
    """
    run = RunFolder(path)
    completion = read_completion(run)
    if (run.is_run or completion) and not _has_config(path):
        write_config(path, config)
    if completion and _wrong_model(run, completion):
        run.completion_marker.unlink()
        print(f"{path}: its model is made again, from its last checkpoint", flush=True)


def _wrong_model(run: RunFolder, completion: Completion) -> dict[str, str]:
    if run.is_archived:
        return {}
    is_gone = {} if run.has_model else {run.model_dir.name: "is gone"}
    return damage(run.path, completion.model_files) or is_gone


def _has_config(path: Path) -> bool:
    with contextlib.suppress(UsageError):
        read_run(path)
        return True
    return False
