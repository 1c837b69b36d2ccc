"""How fast models train, and how long their evaluation takes: where finished runs tell."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.records import peek_record
from eval.config import EvalConfig
from eval.results.stages import TUNE
from pretrain.config import RunConfig
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.run_dir import read_run
from slurm.plan.lines import Hours
from slurm.plan.shapes import Shape, shape_of


@dataclass(frozen=True)
class Speed:
    """How fast a model trains.

    Attributes:
        tokens_per_s: Everything included that a run does meanwhile, as evaluations on held-out text.
        source: In words: a device, and what was measured there.
        is_measured: Whether it is of this very shape.
    """

    tokens_per_s: float
    source: str
    is_measured: bool = True

    def hours(self, tokens: float) -> Hours:
        """Return how long so many tokens take."""
        return Hours(tokens / self.tokens_per_s / 3600, self.source, self.is_measured)


class SpeedSource(Protocol):
    """Knows how fast models train somewhere."""

    def speed(self, config: RunConfig) -> Speed | None:
        """Return the speed of training; None where nothing tells."""
        ...


@dataclass(frozen=True)
class FinishedRun:
    """What a run that is trained says: its speed, and how long its evaluation took where that is known."""

    device: str
    tokens_per_s: float
    evaluation_s: float | None


class FinishedRuns:
    """Runs that are trained, in every study below the folder of runs.

    Args:
        runs_dir: The folder.
        evaluation: What the evaluation is asked for; another's takes another time.
        wanted: Runs that are to be planned; only families and variants of theirs are read.
    """

    def __init__(self, runs_dir: Path, evaluation: EvalConfig, wanted: Iterable[RunConfig]) -> None:
        self._found: dict[Shape, list[FinishedRun]] = {}
        asked = evaluation.model_dump(mode="json")
        names = sorted({(config.family, config.model.ffn) for config in wanted})
        for study in sorted(runs_dir.glob("*/")):
            content = _said_of(study)
            is_same = content.get("evaluation") == asked
            unevaluated = mapping(content.get("stages")).get(TUNE) or ()
            for family, variant in names:
                for run in StudyFolder(study).run_folders(family, variant):
                    self._read(run, is_same and run.run_id not in unevaluated)

    def speed(self, config: RunConfig) -> Speed | None:
        """Average the speed over finished runs of this shape, on the device that most of them ran on."""
        runs = self._found.get(shape_of(config), [])
        if not runs:
            return None
        device, runs = _most_common(runs)
        mean = sum(run.tokens_per_s for run in runs) / len(runs)
        return Speed(mean, f"{device}; runs measured: {len(runs)}")

    def evaluation(self, config: RunConfig) -> Hours | None:
        """Average how long the same evaluation of such runs took."""
        device, runs = _most_common(self._found.get(shape_of(config), []))
        seconds = [run.evaluation_s for run in runs if run.evaluation_s is not None]
        if not seconds:
            return None
        mean = sum(seconds) / len(seconds)
        return Hours(mean / 3600, f"{device}; evaluations measured: {len(seconds)}", True)

    def _read(self, run: RunFolder, is_same: bool) -> None:
        if not run.is_complete:
            return
        record = peek_record(run.provenance_file)
        results = mapping(record.get("results"))
        speed = results.get("mean_tokens_per_s")
        if not isinstance(speed, int | float) or speed <= 0:
            return
        try:
            shape = shape_of(read_run(run.path))
        except UsageError:  # of another version, or a variant that is not known here
            return
        seconds = _evaluation_s(run, results.get("time_s")) if is_same else None
        found = FinishedRun(str(record.get("device", "a device")), float(speed), seconds)
        self._found.setdefault(shape, []).append(found)


def _most_common(runs: Sequence[FinishedRun]) -> tuple[str, list[FinishedRun]]:
    groups: dict[str, list[FinishedRun]] = {}
    for run in runs:
        groups.setdefault(run.device, []).append(run)
    return max(groups.items(), key=lambda item: len(item[1]), default=("", []))


def _said_of(study: Path) -> dict[str, object]:
    """Read what a study was asked; nothing where its folder does not say."""
    file = StudyFolder(study).study_file
    try:
        return read_yaml(file) if file.is_file() else {}
    except UsageError:
        return {}


def _evaluation_s(run: RunFolder, trained_in_s: object) -> float | None:
    """Seconds from the end of a run's training to the end of its evaluation, by its cell's state."""
    state = peek_record(run.study.cell_file(run.run_id))
    times = [state.get(name) for name in ("started_s", "trained_s", "finished_s")]
    started_s, trained_s, finished_s = (
        float(value) if isinstance(value, int | float) else 0.0 for value in times
    )
    if state.get("name") != "done" or not 0 < started_s <= finished_s <= time.time():
        return None
    if trained_s >= started_s:
        return finished_s - trained_s
    # Of an older version: what the cell took beside its training, where it was all done in one attempt.
    if state.get("attempts") == 1 and isinstance(trained_in_s, int | float):
        return max(0.0, finished_s - started_s - trained_in_s)
    return None
