"""Where a run comes from: its code and that of its variant, versions, machine, command, data, and when."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import torch

from base.files import write_atomically
from base.records import read_record, write_record
from base.run.folder_names import RunFolder
from base.run.manifest import recorded_source
from base.system import cpu_fact
from base.system import peak_memory_mb as peak_of_process
from ffn_variants.names import variant_file
from ffn_variants.registry import get_variant
from ffn_variants.source_fingerprint import (
    cure,
    describe_change,
    earlier_sources,
    is_same_source,
    source_fingerprint,
)
from pretrain.run.code_version import git_state

PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "datasets", "numpy", "ffn-ablations")
"""Whose versions a run records."""


def start(path: Path, facts: dict[str, Any], resumed_from_step: int) -> None:
    """Record the beginning of a session; a resumed run has several.

    Args:
        path: The run folder.
        facts: What is recorded of the run as a whole: parameters, data fingerprint, device.
        resumed_from_step: Steps already done when the session began.
    """
    session = {
        "started": _now(),
        "ended": None,
        "resumed_from_step": resumed_from_step,
        "command": shlex.join([Path(sys.executable).name, *sys.argv]),
        "host": socket.gethostname(),
        "git": git_state(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "cpu": _cpu(),
    }
    record = {**facts, "sessions": [*read(path).get("sessions", []), session]}
    write_record(RunFolder(path).provenance_file, record)


def note(path: Path, session_facts: dict[str, Any], run_facts: dict[str, Any] | None = None) -> None:
    """Add to the record of the present session, and to that of the run."""
    record = read(path)
    for session in record.get("sessions", [])[-1:]:
        session.update(session_facts)
    write_record(RunFolder(path).provenance_file, record | (run_facts or {}))


def finish(path: Path, results: dict[str, Any]) -> None:
    """Record the end of the session, and what the run came to."""
    note(path, {"ended": _now()}, {"results": results})


def read(path: Path) -> dict[str, Any]:
    """What is recorded of the run in a folder; empty before its first session."""
    return read_record(RunFolder(path).provenance_file, dict) or {}


def source_facts(ffn: str) -> dict[str, Any]:
    """What a run's record says of its variant; a report has it from there, which runs no code."""
    spec = get_variant(ffn)
    return {
        "variant_source": source_fingerprint(ffn),
        "variant_earlier_sources": earlier_sources(ffn),
        "variant_formula": spec.formula,
        "variant_reference": spec.reference,
    }


def source_change(path: Path, ffn: str) -> str | None:
    """Say through which other source a run was trained, as the end of a sentence; None for the same."""
    recorded = recorded_source(RunFolder(path)).fingerprint
    if is_same_source(ffn, recorded):
        return None
    return (
        f"was trained through {describe_change(ffn, recorded)}; remove the folder to train it anew, "
        f"{cure(recorded)}"
    )


def keep_variant_file(path: Path, ffn: str) -> None:
    """Have the file of a user's own variant in the folder of a run, as it is; nothing for other variants."""
    copy, file = RunFolder(path).variant_file, variant_file(ffn)
    if file is not None and not (copy.is_file() and copy.read_bytes() == file.content):
        write_atomically(copy, lambda temporary: temporary.write_bytes(file.content))


def device_name(device: torch.device) -> str:
    """The device as people name it."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)} ({device})"
    return f"{device.type}, {torch.get_num_threads()} threads of {os.cpu_count()} cores"


def peak_memory_mb(device: torch.device) -> float | None:
    """Largest memory use so far, in MiB: of the GPU where there is one, else of this process, if known."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    peak = peak_of_process()
    return None if peak is None else round(peak, 1)


def _cpu() -> dict[str, Any]:
    """What decides the last digits of what a CPU computes."""
    blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    return {
        "model": cpu_fact("model name"),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "blas": blas and blas[1],
        "threads": torch.get_num_threads(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
