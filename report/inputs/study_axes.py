"""Where the runs of a study stand on its axes, and what each is for, as its file says (``study.yaml``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pandas as pd

from report.inputs.run_facts import RunFacts
from report.inputs.study_checks import FailedRun
from report.significance.axes import Axes, Family, Settings
from scores.rows import of_each
from scores.stages import MAIN, Places

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

    def family(self, run_id: str, name: str) -> Family:
        """Return the setting of a run that is compared."""
        levels = self.levels.get(run_id, {})
        return self._settings.setting(name, tuple((axis, levels[axis]) for axis in self.axes))

    @cached_property
    def _settings(self) -> Settings:
        return Settings(self.families, self.axes)

    def rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Give rows their level of the FFN and a column for each axis."""
        if not self.levels:
            return rows
        names = rows[["run_id", "variant"]].astype(str)
        variants = [self.variant(*each) for each in names.itertuples(index=False, name=None)]
        columns = {
            axis: of_each(names["run_id"], lambda run_id, axis=axis: self.levels[run_id][axis])
            for axis in self.axes
        }
        return rows.assign(variant=variants, **columns)

    def facts(self, facts: RunFacts) -> RunFacts:
        """Give a run that is compared its setting and its level."""
        return replace(self.apart(facts), family=self.family(facts.run_id, str(facts.family)))

    def apart(self, facts: RunFacts) -> RunFacts:
        """Give a run its level and its places, its family staying a name."""
        levels = self.levels.get(facts.run_id, {})
        places: Places = tuple((name, level) for name, level in levels.items() if name != VARIANT)
        return replace(facts, variant=self.variant(facts.run_id, str(facts.variant)), places=places)

    def failed(self, run: FailedRun) -> FailedRun:
        """Give a run that failed its setting and its level."""
        setting, level = (
            self.family(run.run_id, str(run.family)),
            self.variant(run.run_id, str(run.variant)),
        )
        return replace(run, setting=setting, level=level)
