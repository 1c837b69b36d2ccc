"""Studies whose cells leave what a run leaves, instead of running."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm import launch
from slurm.commands import study_run
from tests.unit.slurm.next_stage.runner import Runner


@pytest.fixture
def submit(write_study: Callable[..., Path], tmp_path: Path, monkeypatch) -> Callable[..., int]:
    """Run a study, whose changes are given by name; its cells by ``runner``."""
    monkeypatch.setattr(launch, "_prepare", lambda *_: None)
    monkeypatch.setattr(launch, "take_snapshot", lambda *_: tmp_path)

    def call(*flags: str, runner: Runner, **changes: Any) -> int:
        monkeypatch.setattr(launch, "LocalRunner", runner)
        return study_run([str(write_study(**changes)), *flags])

    return call
