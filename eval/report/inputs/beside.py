"""What other commands left beside a study's runs: its pilot, and a look inside its models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from base.config_input import read_yaml
from base.errors import UsageError
from base.records import peek_record
from eval.report.inputs.run_facts import RunFacts
from pretrain.run.folders import StudyFolder, pilot_folder


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What was found; empty where there is none."""

    pilot: Mapping[str, Any] = field(default_factory=dict)
    """The record of the study's pilot."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The configuration of the study's first run, where it had a pilot."""
    inspection: Mapping[str, Any] = field(default_factory=dict)
    """The summary of a look inside."""


def read_beside(folder: Path, facts: Sequence[RunFacts]) -> Beside:
    """Read it.

    Args:
        folder: The study's; nothing is beside a table.
        facts: Of its runs.
    """
    if not folder.is_dir():
        return Beside()
    pilot = peek_record(StudyFolder(pilot_folder(folder)).pilot_record)
    return Beside(
        pilot=pilot,
        config=_first_config(folder, facts) if pilot else {},
        inspection=peek_record(StudyFolder(folder).inspection_summary),
    )


def _first_config(folder: Path, facts: Sequence[RunFacts]) -> dict[str, Any]:
    try:
        return read_yaml(StudyFolder(folder).run(facts[0].run_id).config_file)
    except (IndexError, UsageError):
        return {}
