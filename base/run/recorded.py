"""What a run's record says of what it was trained through and on; reads files alone."""

from __future__ import annotations

from dataclasses import dataclass

from base.records import peek_record
from base.run.folders import RunFolder


@dataclass(frozen=True)
class RecordedSource:
    """Fingerprints (see ``ffn_variants.source``): that of the source, and those of earlier ones like it."""

    fingerprint: str = ""
    """Empty where nothing tells it, as for runs of before."""
    earlier: tuple[str, ...] = ()


def recorded_source(run: RunFolder) -> RecordedSource:
    """Read it from the run's record, or its completion marker, or its model, whichever is there."""
    record = peek_record(run.provenance_file)
    others = (
        peek_record(path).get(key)
        for path, key in (
            (run.completion_marker, "variant_source"),
            (run.model_dir / "config.json", "ffn_source"),
        )
    )
    if not isinstance(found := record.get("variant_source"), str) or not found:
        return RecordedSource(next((other for other in others if isinstance(other, str)), ""))
    earlier = record.get("variant_earlier_sources")
    return RecordedSource(found, tuple(map(str, earlier)) if isinstance(earlier, list) else ())


def recorded_texts(run: RunFolder) -> str:
    """What identifies its tokens, without how they were cut into rows; empty where it was not recorded."""
    return str(peek_record(run.provenance_file).get("data_fingerprint", "")).partition("-")[0]
