"""The folder of a run: its name, the one process that writes there, and the configuration in it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from base.config_input import read_yaml
from base.errors import OccupiedError, UsageError, near_file
from base.files import damage, remove_leftovers, sole_holder, write_text
from base.printing import first_few
from base.run.folder_names import RunFolder
from base.run.manifest import config_hashes, read_completion
from base.sections import Typed
from pretrain.config import ResolvedConfig
from pretrain.config_sources import Sources
from pretrain.resolution import resolve_sources

RESULT_NEUTRAL: dict[str, Any] = {
    "output": True,
    # What it decides is in intermediate_size: the same width is the same run however it was chosen.
    # Where a variant's file lies; what it computes is in ffn_source.
    "model": {"ffn_budget", "ffn_file"},
    "train": {
        *(
            "per_device_eval_batch_size",
            "logging_steps",
            "eval_steps",
            "eval_every",
            "eval_suite",
            "eval_dir",
        ),
        *("save_steps", "save_minutes", "save_total_limit", "max_loss_ratio", "tracker"),
        # The rows of a step stay the same, cut into more forward passes or fewer.
        *("per_device_train_batch_size", "find_batch_size"),
        *("torch_compile", "torch_compile_fallback", "compile_model", "cuda_graph", "deterministic"),
    },
}
"""Fields that cannot change the trained model; they are left out of the hash and of the comparison."""


def config_hash(config: ResolvedConfig) -> str:
    """Eight hexadecimal digits over every field that can change the result and is not at its default.

    So a field that a later version adds leaves the hashes of all runs as they are; the default of a field
    must never change.
    """
    sections = _decisive(config, exclude_defaults=True)
    text = json.dumps({name: values for name, values in sections.items() if values != {}}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def run_dir(config: ResolvedConfig) -> Path:
    """Folder of a run: ``<runs_dir>/<study>/<family>/<variant>/`` and ``seed<N>-<hash>`` or ``run_name``."""
    return Path(config.output.runs_dir) / config.output.study / run_id(config)


def run_id(config: ResolvedConfig) -> str:
    """What a run is called in its study: ``<family>/<variant>/`` and ``seed<N>-<hash>`` or ``run_name``."""
    name = config.output.run_name or f"seed{config.seed}-{config_hash(config)}"
    return f"{config.family}/{config.model.ffn}/{name}"


@contextlib.contextmanager
def sole_writer(path: Path, work: str = "trains in") -> Iterator[None]:
    """Keep a second process out of a run folder, and remove what a killed one left of its files.

    The system releases the lock when its holder ends, however that is.

    Args:
        path: The folder; made if need be.
        work: What is done to it, as another process is told.

    Raises:
        OccupiedError: If another process writes into this folder.
    """
    run = RunFolder(path)
    occupied = OccupiedError(
        f"{path}: another process {work} this folder; wait for it or stop it; if there is none, remove "
        f"{run.lock_file}"
    )
    with sole_holder(run.lock_file, occupied):
        for folder in (path, run.eval_dir, run.items_dir):
            remove_leftovers(folder)
        yield


def read_run(path: Path) -> ResolvedConfig:
    """The configuration of the run in a folder.

    Raises:
        UsageError: If the folder holds no run, or a configuration that is not the one it was begun with.
    """
    folder = RunFolder(Path(path))
    if not folder.is_run:
        what = (
            f"is no run folder (it has no {folder.config_file.name})" if path.exists() else "no such folder"
        )
        runs = [str(file.parent) for file in sorted(folder.path.glob(f"*/{folder.config_file.name}"))]
        hint = f"did you mean {first_few(runs, 3)}? " if runs else near_file(path)
        raise UsageError(f"{path}: {what}; {hint}give runs/<study>/<family>/<variant>/<run>")
    name = str(folder.config_file)
    config = resolve_sources(Sources(read_yaml(folder.config_file), Typed({}, {}), (), name), is_begun=True)
    present = config_hash(config)
    for place, recorded in config_hashes(folder).items():
        if recorded != present:
            raise UsageError(
                f"{name} is not the configuration that the run was begun with ({present}, {place} {recorded})"
                ", so it was edited or damaged, or the folder renamed or mixed up with another; put that"
                " back, give the command again that began the run, or remove the folder"
            )
    return config


def check_same_config(path: Path, config: ResolvedConfig) -> None:
    """Refuse to go on in a folder that holds a run with another configuration.

    Raises:
        UsageError: Naming the first field that differs, with both values.
    """
    hashes = set(config_hashes(RunFolder(path)).values())
    if hashes == {config_hash(config)} or not (hashes or RunFolder(path).is_run):
        return  # whatever its configuration says now
    if difference := _first_difference(_decisive(read_run(path)), _decisive(config)):
        raise UsageError(
            f"{path} holds a run with another config ({difference}); pass another --run-name or remove it"
        )


def write_config(path: Path, config: ResolvedConfig) -> None:
    """Save the resolved configuration; a valid input of the training command."""
    write_text(RunFolder(path).config_file, to_yaml(config))


def to_yaml(config: BaseModel) -> str:
    """A configuration as YAML, in the order of its fields."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _decisive(config: ResolvedConfig, exclude_defaults: bool = False) -> dict[str, Any]:
    return config.model_dump(mode="json", exclude=RESULT_NEUTRAL, exclude_defaults=exclude_defaults)


def _first_difference(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> str | None:
    for name in now:
        old, new = before.get(name), now[name]
        if isinstance(old, dict) and isinstance(new, dict) and name != "ffn_options":
            if difference := _first_difference(old, new, f"{prefix}{name}."):
                return difference
        elif old != new:
            return f"{prefix}{name} {old}, now {new}"
    return None


def is_finished(path: Path, tells: bool = True) -> bool:
    """Whether a run is finished, its model and its configuration being whole; tells what is damaged."""
    run = RunFolder(path)
    damages = _damages(run)
    if damages and tells:
        (name, words), *others = damages.items()
        more = f" (and {len(others)} more files of the run)" * bool(others)
        cure = "the command that trains this run makes it again"
        print(f"note: {path / name} {words}{more}; {cure}", file=sys.stderr, flush=True)
    return read_completion(run) is not None and not damages and _has_config(path)


def prepare_folder(path: Path, config: ResolvedConfig) -> None:
    """Prepare a folder for training; only its sole writer may.

    A configuration that is not there, or is damaged, is written. With a damaged model a finished run counts
    as unfinished: its last steps, from the newest checkpoint on, lead to the same weights again.

    Args:
        path: The run folder.
        config: The run.
    """
    run = RunFolder(path)
    if not _has_config(path):
        write_config(path, config)
    if _damages(run):
        run.completion_marker.unlink()
        print(f"{path}: its model is made again, from its last checkpoint", flush=True)


def _damages(run: RunFolder) -> dict[str, str]:
    """By name what is wrong with the model of a run that is finished."""
    completion = read_completion(run)
    if completion is None or run.is_archived:
        return {}
    absence = {} if run.has_model else {run.model_dir.name: "is gone"}
    return damage(run.path, completion.model_files) or absence


def _has_config(path: Path) -> bool:
    with contextlib.suppress(UsageError):
        read_run(path)
        return True
    return False
