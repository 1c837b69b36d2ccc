"""What other commands left beside a study's runs: a look inside its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from base.records import peek_record
from pretrain.run.folders import StudyFolder


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What was found; empty where there is none."""

    inspection: Mapping[str, Any] = field(default_factory=dict)
    """The summary of a look inside."""


def read_beside(folder: Path) -> Beside:
    """Read what lies in a study's folder; nothing is beside a table."""
    if not folder.is_dir():
        return Beside()
    return Beside(inspection=peek_record(StudyFolder(folder).inspection_summary))
