"""What of a damaged run can be made again: its configuration at once, its model by training its end again."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from base.checksums import damage, file_states
from base.errors import UsageError
from base.records import set_aside, write_record
from pretrain.config import RunConfig
from pretrain.run.archived import lasting_states
from pretrain.run.folders import RunFolder
from pretrain.run.manifest import Completion, read_completion
from pretrain.run.run_dir import read_run, write_config
from pretrain.run.variant_source import keep_variant_file

_MADE_AGAIN = "the command that trains this run makes it again"


def is_finished_and_whole(path: Path) -> bool:
    """Whether a run is finished, and nothing of it is to be made again; what cannot be is named.

    Args:
        path: The run folder.
    """
    run = RunFolder(path)
    completion = read_completion(run)
    if completion is None:
        return False
    found = damage(path, lasting_states(run, completion))
    for name, wrong in found.items():
        cure = "it cannot be made again, and no report will use it" if name in _lasting(run) else _MADE_AGAIN
        print(f"note: {path / name} {wrong}; {cure}", file=sys.stderr, flush=True)
    has_all = run.has_model or run.is_archived
    return has_all and not (found.keys() - _lasting(run)) and _has_config(path)


def repair(path: Path, config: RunConfig) -> None:
    """Prepare a damaged run for training; only its sole writer may.

    A configuration that does not fit the run is written anew. A damaged model is set aside, and the run
    counts as unfinished: its last steps, from the newest checkpoint on, lead to the same weights again.

    Args:
        path: The run folder.
        config: What the run was begun with.
    """
    run = RunFolder(path)
    completion = read_completion(run)
    found = damage(path, lasting_states(run, completion)) if completion else {}
    if (run.is_run or completion) and (run.config_file.name in found or not _has_config(path)):
        _write_config_anew(run, config, completion)
    if completion is None:
        return
    if run.variant_file.name in found:
        if run.variant_file.exists():
            set_aside(run.variant_file, f"{run.variant_file.name} {found[run.variant_file.name]}")
        keep_variant_file(path, config.model.ffn)
        _record_anew(run, run.variant_file)
    if wrong := _of_model(run, found):
        set_aside(run.model_dir, f"{Path(wrong[0]).name} {found[wrong[0]]}")
    if wrong or not (run.has_model or run.is_archived):
        run.completion_marker.unlink()
        print(f"{path}: its model is made again, from its last checkpoint", flush=True)


def _write_config_anew(run: RunFolder, config: RunConfig, completion: Completion | None) -> None:
    if run.is_run:
        set_aside(run.config_file, "it is not the configuration that this run was begun with")
    write_config(run.path, config)
    if completion and completion.files:
        _record_anew(run, run.config_file)


def _record_anew(run: RunFolder, file: Path) -> None:
    """Take a file that was made again for what the run has."""
    completion = read_completion(run)
    assert completion is not None
    files = {**completion.files, **file_states(run.path, [file])}
    write_record(run.completion_marker, replace(completion, files=files))


def _has_config(path: Path) -> bool:
    with contextlib.suppress(UsageError):
        read_run(path)
        return True
    return False


def _of_model(run: RunFolder, found: Mapping[str, str]) -> list[str]:
    return [name for name in found if name.startswith(f"{run.model_dir.name}/")]


def _lasting(run: RunFolder) -> set[str]:
    """Name what only the training could have written."""
    return {run.provenance_file.name, run.metrics_file.name}
