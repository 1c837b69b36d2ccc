"""Through which source of its variant a run was trained, and what is said where that is another now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from base.errors import UsageError
from base.files import write_atomically
from base.run.folders import RunFolder
from base.run.manifest import recorded_source
from ffn_variants.files import variant_file
from ffn_variants.registry import get_variant
from ffn_variants.source import (
    cure,
    describe_change,
    earlier_sources,
    is_same_source,
    source_fingerprint,
)


def source_facts(ffn: str) -> dict[str, Any]:
    """What a run's record says of its variant; a report has it from there, which runs no code."""
    spec = get_variant(ffn)
    return {
        "variant_source": source_fingerprint(ffn),
        "variant_earlier_sources": earlier_sources(ffn),
        "variant_formula": spec.formula,
        "variant_reference": spec.reference,
    }


def check_same_source(path: Path, ffn: str) -> None:
    """Refuse to take a run for what its variant computes now, where it was trained through another source.

    Raises:
        UsageError: Naming both sources and every cure.
    """
    if change := source_change(path, ffn):
        raise UsageError(f"{path} {change}")


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
