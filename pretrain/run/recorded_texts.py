"""Which texts a run was trained on, as its record has it."""

from __future__ import annotations

from base.records import peek_record
from pretrain.run.folders import RunFolder


def recorded_texts(run: RunFolder) -> str:
    """What identifies its tokens, without how they were cut into rows; empty where it was not recorded."""
    return str(peek_record(run.provenance_file).get("data_fingerprint", "")).partition("-")[0]
