"""Where the runs of a study stand on its axes, and what each is for, as its file says (``study.yaml``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from base.errors import UsageError
from eval.report.inputs.run_facts import RunFacts
from eval.report.inputs.study_checks import FailedRun
from eval.results.columns import of_each
from eval.results.rows import check_axis
from eval.results.stages import MAIN, Places
from eval.significance.axes import Axes, Family, Settings

VARIANT = "variant"


@dataclass(frozen=True)
class StudyAxes:
    """Axes of a study, where its runs stand on them, and which runs are compared; empty for a plain study."""

    axes: Axes = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Run id to ``variant``, where the folder does not tell it, and the level on each axis."""
    stages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What else runs are for (``tune``, ``shared``) to their ids."""
    families: tuple[str, ...] = ()

    @cached_property
    def aside(self) -> frozenset[str]:
        """Ids of the runs that are in no comparison."""
        others = {run_id for name, run_ids in self.stages.items() if name != MAIN for run_id in run_ids}
        return frozenset(others - set(self.stages.get(MAIN, ())))

    def main(self, run_ids: Iterable[str]) -> frozenset[str]:
        """Keep the runs that are compared."""
        return frozenset(run_ids) - self.aside

    def variant(self, run_id: str, otherwise: str) -> str:
        """Return the level of the FFN of a run, whose name its files know."""
        return self.levels.get(run_id, {}).get(VARIANT, otherwise)

    def places(self, run_id: str) -> Places:
        """Return all that is known of where a run stands."""
        return tuple((name, level) for name, level in self.levels.get(run_id, {}).items() if name != VARIANT)

    def family(self, run_id: str, name: str) -> Family:
        """Return the setting of a run that is compared."""
        own = self.levels.get(run_id, {})
        return self._settings.setting(name, tuple((axis, own[axis]) for axis in self.axes))

    @cached_property
    def _settings(self) -> Settings:
        return Settings(self.families, self.axes)

    def rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Give rows their level of the FFN and a column for each axis."""
        if not self.levels:
            return rows
        known = rows[["run_id", "variant"]].astype(str)
        variants = [self.variant(*names) for names in known.itertuples(index=False, name=None)]
        placed = {
            axis: of_each(known["run_id"], lambda run_id, axis=axis: self.levels[run_id][axis])
            for axis in self.axes
        }
        return rows.assign(variant=variants, **placed)

    def facts(self, facts: RunFacts) -> RunFacts:
        """Give a run that is compared its setting and its level."""
        own = facts.run_id
        return replace(self.apart(facts), family=self.family(own, str(facts.family)))

    def apart(self, facts: RunFacts) -> RunFacts:
        """Give a run its level and its places, its family staying a name."""
        own = facts.run_id
        return replace(facts, variant=self.variant(own, str(facts.variant)), places=self.places(own))

    def failed(self, run: FailedRun) -> FailedRun:
        """Give a run that failed its setting and its level."""
        own = run.run_id
        return replace(
            run, setting=self.family(own, str(run.family)), level=self.variant(own, str(run.variant))
        )


def read_axes(path: Path, content: Mapping[str, Any], families: tuple[str, ...]) -> StudyAxes:
    """Read ``axes``, ``levels`` and ``stages`` of a study's file.

    Args:
        path: The file, named in errors.
        content: All that it holds; ``cells`` is a list of run ids or absent.
        families: Those of the study.

    Raises:
        UsageError: For what is none of these, or a run that is compared and stands nowhere on an axis.
    """
    axes = {name: _texts(path, f"axes.{name}", own) for name, own in _mapping(path, content, "axes").items()}
    for name in axes:
        check_axis(name, str(path))
    levels = {
        run_id: _level(path, f"levels.{run_id}", own)
        for run_id, own in _mapping(path, content, "levels").items()
    }
    stages = {
        name: _texts(path, f"stages.{name}", own) for name, own in _mapping(path, content, "stages").items()
    }
    found = StudyAxes(axes, levels, stages, families)
    _refuse_unplaced(path, found, found.main(content.get("cells") or levels))
    return found


def _refuse_unplaced(path: Path, found: StudyAxes, run_ids: Collection[str]) -> None:
    for run_id in sorted(run_ids):
        for axis, known in found.axes.items():
            level = found.levels.get(run_id, {}).get(axis)
            if level not in known:
                said = "nothing" if level is None else repr(level)
                raise UsageError(
                    f"{path}: levels.{run_id} says {said} of {axis}; it must be one of {', '.join(known)}"
                )


def _mapping(path: Path, content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = content.get(name)
    if section is not None and not isinstance(section, dict):
        raise UsageError(f"{path}: {name} must be a section of keys, not {section!r}")
    return {str(key): value for key, value in (section or {}).items()}


def _texts(path: Path, name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise UsageError(f"{path}: {name} must be a list of texts, not {value!r}")
    if len(set(value)) < len(value):
        raise UsageError(f"{path}: {name} names one of {', '.join(value)} twice; each stands there once")
    return tuple(value)


def _level(path: Path, name: str, value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(
        isinstance(key, str) and isinstance(text, str) and text for key, text in value.items()
    ):
        raise UsageError(f"{path}: {name} must map axes to levels as texts, not {value!r}")
    return value
