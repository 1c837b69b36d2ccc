"""What a run's folder says of itself: how it went, that it is finished, with which model, trained on what.

``COMPLETED`` is written last, with the results and the checksums of the model's files.
Sizes of these files are compared whenever a run is used, checksums once in a process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from base.errors import UsageError
from base.files import FileState, file_states, fingerprint, mapping
from base.records import parse_json, peek_record, read_record, write_record
from base.run.folder_names import RUN_NAME, RunFolder

MODEL_SUFFIXES = (".safetensors", ".bin", ".json", ".txt", ".model", ".py")
"""Of everything in a model's folder that can change a score, own variants' code too; the card cannot."""
_MODEL = "model/"
LARGEST = 1e15
"""Steps and losses of a log that are beyond are damage."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The content of ``COMPLETED``."""

    results: dict[str, Any]
    """Final figures of the loop."""
    config_hash: str = ""
    """Of the configuration that it was begun with."""
    files: dict[str, FileState] = field(default_factory=dict)
    """Those of the model, by the name below the run's folder."""

    @property
    def model_files(self) -> dict[str, FileState]:
        """Those that the scores of the model depend on."""
        return {
            name: state
            for name, state in self.files.items()
            if name.startswith(_MODEL) and name.endswith(MODEL_SUFFIXES)
        }

    @property
    def weights(self) -> str:
        """The hash that scores of the model name (``eval.identity``); empty where not known."""
        states = sorted(self.model_files.items())
        return (
            fingerprint((name.removeprefix(_MODEL), state.sha256) for name, state in states) if states else ""
        )


def config_hashes(run: RunFolder) -> dict[str, str]:
    """Return the hash of a run's configuration by its name, record and marker, where they have one."""
    match = RUN_NAME.fullmatch(run.path.name)
    hashes = {"its name": match["hash"]} if match else {}
    for file in (run.provenance_file, run.completion_marker):
        if value := peek_record(file).get("config_hash"):
            hashes[file.name] = value
    return hashes


def mixed_up(run: RunFolder) -> str | None:
    """Say that a folder holds files of several runs, as after a folder was renamed or copied into another."""
    hashes = config_hashes(run)
    if len(set(hashes.values())) < 2:
        return None
    places = ", ".join(f"{name} {value}" for name, value in hashes.items())
    return f"{run.path} holds files of several runs ({places}); was a folder renamed, or copied into another?"


def read_completion(run: RunFolder) -> Completion | None:
    """Read what a finished training left; None for one that is not finished, or whose marker is damaged."""
    return read_record(run.completion_marker, Completion)


def write_completion(run: RunFolder, results: Mapping[str, Any], config_hash: str) -> None:
    """Mark a training as finished, with the state of every file of its model; its card is free."""
    model = [path for path in sorted(run.model_dir.iterdir()) if path.suffix != ".md"]
    completion = Completion(
        results=dict(results), config_hash=config_hash, files=file_states(run.path, model)
    )
    write_record(run.completion_marker, completion)


def archived_weights(run: RunFolder) -> str:
    """Return the hash that scores of a model name that was left out; empty for a run that has its model."""
    return str(peek_record(run.archive_marker).get("weights", "")) if run.is_archived else ""


def refuse_archived(run: RunFolder) -> None:
    """Refuse what needs the model of a run that has none any more.

    Raises:
        UsageError: Saying how to come by it.
    """
    if run.is_archived:
        raise UsageError(
            f"{run.path} was archived without its model; remove the folder, and the command that trains this "
            "run makes it"
        )


def trained_model(run: RunFolder) -> Path:
    """Return the folder of a run's trained model.

    Raises:
        UsageError: If there is none yet, or it was left out when the run was archived.
    """
    refuse_archived(run)
    if not run.has_model:
        why = "it was removed" if run.has_marker else "its training did not finish"
        raise UsageError(f"{run.path} has no model/config.json: {why}; train it again, by the same command")
    return run.model_dir


@dataclass(frozen=True)
class RecordedSource:
    """Fingerprints (``ffn_variants.source_fingerprint``): of the source, and of earlier ones like it."""

    fingerprint: str = ""
    """Empty where nothing tells it, as for runs of before."""
    earlier: tuple[str, ...] = ()


def recorded_source(run: RunFolder) -> RecordedSource:
    """Read it from the run's record, or its model, whichever is there."""
    record = peek_record(run.provenance_file)
    if source := record.get("variant_source"):
        return RecordedSource(source, tuple(record.get("variant_earlier_sources") or ()))
    return RecordedSource(peek_record(run.model_dir / "config.json").get("ffn_source") or "")


def recorded_texts(run: RunFolder) -> str:
    """What identifies its tokens, without how they were cut into rows; empty where it was not recorded."""
    return str(peek_record(run.provenance_file).get("data_fingerprint", "")).partition("-")[0]


def read_log(run: RunFolder, last_bytes: int | None = None) -> Iterator[dict[str, float]]:
    """Yield the numbers of each line of a run's ``metrics.jsonl``; a line that is cut off is passed over.

    Args:
        run: The run.
        last_bytes: How much of the file's end is read; None for all of it.
    """
    try:
        with run.metrics_file.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if last_bytes is None else max(0, size - last_bytes))
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        with suppress(ValueError):
            yield {key: value for key, value in mapping(parse_json(line)).items() if _is_number(value)}


def by_step(lines: Iterable[Mapping[str, float]], metric: str) -> list[Mapping[str, float]]:
    """Return the lines that have a metric, by step; a resumed run may repeat one, the last counts."""
    latest = {line["step"]: line for line in lines if {"step", metric} <= line.keys()}
    return [latest[step] for step in sorted(latest)]


def _is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value from a file is one to show: finite, and not beyond all measure."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
