"""What a study was meant to run and to ask, as its file says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool

from base.config_input import read_yaml
from base.errors import UsageError
from base.run.folder_names import RunFolder, StudyFolder
from base.sections import check
from report.inputs.run_facts import RunFacts
from report.inputs.study_checks import FailedRun
from report.significance.axes import Benchmark, Family, Level, Settings
from report.significance.factor import FACTORS, Factor, check_factor
from report.statistics.looks import Plan, read_plan
from scores.metrics import Declared
from scores.published import PublishedSource
from scores.rows import LARGEST, of_each
from scores.stages import MAIN, Places, is_cut_off

VARIANT = "variant"
"""What the level of the FFN is called among those of the axes."""
ANEW = "run the study's command again, which writes it anew"


Names = tuple[Annotated[str, BeforeValidator(str)], ...]
"""Of what YAML may take for a number, such as a size ``1``."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class StudyAxes(_Section):
    """Axes of a study, where its runs stand on them, and which runs are compared; empty for a plain study."""

    axes: dict[str, tuple[str, ...]] = {}
    levels: dict[str, dict[str, str]] = {}
    """Run id to ``variant``, where the folder does not tell it, and the level on each axis."""
    stages: dict[str, tuple[str, ...]] = {}
    """What else runs are for (``tune``, ``shared``) to their ids."""
    families: Names = ()

    @cached_property
    def aside(self) -> frozenset[str]:
        """Ids of the runs that are in no comparison."""
        others = {run_id for name, run_ids in self.stages.items() if name != MAIN for run_id in run_ids}
        return frozenset(others - set(self.stages.get(MAIN, ())))

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
        family = self.family(run.run_id, str(run.family))
        return replace(run, family=family, variant=self.variant(run.run_id, str(run.variant)))


Margin = Annotated[float, Field(gt=0, lt=LARGEST)]


class StudyReport(_Section):
    """What a study asks of its report."""

    baseline: str | None = None
    primary: tuple[str, ...] = ()
    """Outcomes that claims are made about; none means all."""
    contrasts: tuple[str, ...] = ()
    paired: StrictBool = False
    looks: Any = None
    factor: Factor = FACTORS[0]
    """Whose levels the baseline and the contrasts are."""
    margin: Margin | None = None
    margins: dict[str, Margin] = {}
    published: PublishedSource | None = None
    note: str = ""
    """What the study's author tells of it."""

    @property
    def declared(self) -> Declared:
        """Its margins, as flags and columns declare them."""
        return Declared(margin=self.margin, margins=self.margins)


def report_before(file: Path, report: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a study's file is to hold as ``report_before`` when it is written anew.

    Args:
        file: The study's, which may not be there or be damaged.
        report: What the study asks of its report now.

    Returns:
        What was asked while cells were done, and how many were at the last change; None without a change.
    """
    content: dict[str, Any] = {}
    with suppress(UsageError):
        content = read_yaml(file) if file.is_file() else {}
    before, asked = content.get("report_before"), content.get("report") or {}
    runs = [RunFolder(file.parent / run_id) for run_id in content.get("cells") or ()]
    num_done = sum(run.has_marker or run.is_scored for run in runs)
    if not num_done or all(asked[name] == report[name] for name in asked.keys() & report.keys()):
        return before
    return {"asked": before["asked"] if before else asked, "done": f"{num_done} of {len(runs)} cells"}


def _changed(before: dict[str, Any], report: StudyReport) -> str:
    """Say what was changed after results, or else by hand; nothing where it was changed back."""
    asked, now = before.get("asked", {}), report.model_dump(mode="json", exclude={"note", "published"})
    words = [
        f"{name} {json.dumps(asked[name])} became {json.dumps(now[name])}"
        for name in asked.keys() & now.keys()
        if asked[name] != now[name]
    ]
    how = f"after {before['done']} were done" if "done" in before else "by hand in the study's folder"
    return f"What is asked was changed {how}: {'; '.join(sorted(words))}.".replace('"', "") if words else ""


@dataclass(frozen=True)
class Design:
    """What was meant to be run: every combination is a cell. ``written``: a study file said so.

    ``families`` are the settings, of a study with axes.
    """

    families: tuple[Family, ...]
    variants: tuple[Level, ...]
    seeds: tuple[int, ...]
    benchmarks: tuple[Benchmark, ...]
    written: bool
    typed: str = ""
    """What runs the study, behind ``study run``; empty where nothing tells."""
    report: StudyReport = field(default_factory=StudyReport)
    """What the study's file asks of its report."""
    changed: str = ""
    """What of it was changed after cells were done, or by hand, in sentences."""
    looks: Plan | None = None
    heads: tuple[str, ...] = ()
    """Of classification, where a study names them."""
    run_ids: frozenset[str] | None = None
    placed: StudyAxes = field(default_factory=StudyAxes)
    """Where the runs of ``run_ids`` stand on the axes of the study, and which of them are compared."""

    @property
    def compared(self) -> frozenset[str] | None:
        """The runs that are compared; None takes every run that is there."""
        return None if self.run_ids is None else self.run_ids - self.placed.aside


def design_from(rows: pd.DataFrame) -> Design:
    """Without a study file, expect every variant in every family at every seed that occurs anywhere."""
    names = {column: tuple(sorted(rows[column].unique())) for column in ("family", "variant", "benchmark")}
    seeds = tuple(int(seed) for seed in sorted(rows.seed.unique()))
    benchmarks = tuple(map(Benchmark, names["benchmark"]))
    return Design(names["family"], names["variant"], seeds, benchmarks, written=False)


class _StudyFile(StudyAxes):
    """The keys of a study's file that a report follows."""

    families: Annotated[Names, Field(min_length=1)]
    variants: Annotated[Names, Field(min_length=1)]
    seeds: Annotated[tuple[int, ...], Field(min_length=1)]
    benchmarks: tuple[str, ...] = ()
    heads: Names | None = None
    cells: Names | None = None
    typed: str = ""
    report: StudyReport = StudyReport()
    report_before: dict[str, Any] | None = None
    report_written: dict[str, Any] = {}


def read_design(path: Path) -> Design | None:
    """Read what a study's file says was to be run and asked; None where there is none.

    Raises:
        UsageError: For a file that does not parse, a value that cannot be used, and where the file is
            missing that tells tuning runs from those that are compared.
    """
    if not path.is_file():
        if StudyFolder(path.parent).tuning_file.exists():
            raise UsageError(f"{path} is missing, and it alone says which runs are compared; {ANEW}")
        return None
    try:
        content = read_yaml(path)
    except UsageError as error:
        raise UsageError(f"{error}; {ANEW}") from None
    if not content or is_cut_off(content):
        raise UsageError(f"{path} {'was cut off' if content else 'is empty'}; {ANEW}")
    file = check(_StudyFile, content, source=str(path))
    check_factor(file.report.factor, file.axes, f"report.factor in {path}")
    run_ids = file.cells if file.cells is not None else tuple(file.levels) if file.axes else None
    return Design(
        families=tuple(_settings(file)),
        variants=file.variants,
        seeds=file.seeds,
        benchmarks=tuple(map(Benchmark, file.benchmarks)),
        written=True,
        typed=file.typed,
        report=file.report,
        changed=_changed(file.report_before or {"asked": file.report_written}, file.report),
        looks=read_plan(file.report.looks, f"{path}: report.looks"),
        heads=file.heads or (),
        run_ids=None if run_ids is None else frozenset(run_ids),
        placed=file,
    )


def _settings(placed: StudyAxes) -> Iterator[Family]:
    """What differences are averaged over: every family, at every combination of the axes' levels."""
    settings = Settings(placed.families, placed.axes)
    for family in placed.families:
        for levels in product(*placed.axes.values()):
            yield settings.setting(family, tuple(zip(placed.axes, levels, strict=True)))
