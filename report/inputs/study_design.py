"""What a study was meant to run and to ask, as its file says."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.run.folder_names import StudyFolder
from base.sections import check
from report.inputs.study_axes import StudyAxes
from report.significance.axes import Benchmark, Combination, Family, Level, Setting, Settings
from report.significance.factor import FACTORS, Factor, check_factor, listed_heads
from report.statistics.looks import Plan, read_plan
from scores.metrics import Declared
from scores.rows import LARGEST, check_axis
from scores.stages import Decisions, is_cut_off, read_decisions

NOT_ASKED = ("note", "method", "correction")
"""Keys of a study's ``report`` that are no question; the latter two stand in older files."""
ANEW = "run the study's command again, which writes it anew"


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
    baseline: str | None = None
    primary: tuple[str, ...] = ()
    """Outcomes that claims are made about; none means all."""
    contrasts: tuple[str, ...] = ()
    paired: bool = False
    looks: Plan | None = None
    factor: Factor = "ffn"
    """Whose levels the baseline and the contrasts are."""
    heads: tuple[str, ...] = ()
    """Of classification, where a study names them."""
    run_ids: frozenset[str] | None = None
    decisions: Decisions | None = None
    """Of looks, where seeds are added only to what is undecided."""
    is_until_decided: bool = False
    """Whether seeds are added to what is undecided, of which ``decisions`` is the record."""
    placed: StudyAxes = field(default_factory=StudyAxes)
    """Where the runs of ``run_ids`` stand on the axes of the study, and which of them are compared."""
    declared: Declared = field(default_factory=Declared)
    """What the study's file says of its outcomes."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The report section of the study's file, as it stands now, but for the note."""
    note: str = ""
    """What the study's author tells of it."""

    def seeds_of(self, family: Family, level: Level) -> tuple[int, ...]:
        """Return the seeds that an arm was meant to have by now."""
        several = (name.variant for name in (family, level) if isinstance(name, Setting | Combination))
        variant = next(filter(None, several), str(level))
        return self.seeds[: self.decisions.num_seeds(variant) if self.decisions else None]

    @property
    def compared(self) -> frozenset[str] | None:
        """The runs that are compared; None takes every run that is there."""
        return None if self.run_ids is None else self.placed.main(self.run_ids)


def design_from(rows: pd.DataFrame) -> Design:
    """Without a study file, expect every variant in every family at every seed that occurs anywhere."""
    names = {column: tuple(sorted(rows[column].unique())) for column in ("family", "variant", "benchmark")}
    seeds = tuple(int(seed) for seed in sorted(rows.seed.unique()))
    benchmarks = tuple(map(Benchmark, names["benchmark"]))
    return Design(names["family"], names["variant"], seeds, benchmarks, written=False)


def _listed(value: object) -> object:
    """A text for itself; a study as its author writes it maps each family to a base config."""
    return [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else value


Names = Annotated[tuple[Annotated[str, BeforeValidator(str)], ...], BeforeValidator(_listed)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Margin = Annotated[float, Field(gt=0, lt=LARGEST)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class _Report(_Section):
    """What a study asks of its report."""

    baseline: str | None = None
    primary: Texts = ()
    contrasts: Texts = ()
    paired: StrictBool = False
    looks: Any = None
    factor: str = FACTORS[0]
    margin: Margin | None = None
    margins: dict[str, Margin] = {}
    note: str = ""


class _StudyFile(_Section):
    """The keys of a study's file that a report follows."""

    families: Annotated[Names, Field(min_length=1)]
    variants: Annotated[Names, Field(min_length=1)]
    seeds: Annotated[tuple[int, ...], Field(min_length=1)]
    benchmarks: Texts = ()
    evaluation: dict[str, Any] = {}
    heads: Names | None = None
    until: str | None = None
    axes: dict[str, tuple[str, ...]] = {}
    levels: dict[str, dict[str, str]] = {}
    stages: dict[str, tuple[str, ...]] = {}
    cells: Names | None = None
    report: _Report = _Report()


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
    file = check(_StudyFile, _without_nothing(content), source=str(path))
    report, evaluation = mapping(content.get("report")), file.evaluation
    placed = StudyAxes(file.axes, file.levels, file.stages, file.families)
    run_ids = file.cells if file.cells is not None else tuple(file.levels) if file.axes else None
    _check_places(path, placed, run_ids or ())
    benchmarks = file.benchmarks or tuple(evaluation.get("suites") or ())
    return Design(
        families=tuple(_settings(placed)),
        variants=file.variants,
        seeds=file.seeds,
        benchmarks=tuple(map(Benchmark, benchmarks)),
        written=True,
        baseline=file.report.baseline,
        primary=file.report.primary,
        contrasts=file.report.contrasts,
        paired=file.report.paired,
        looks=read_plan(file.report.looks, f"{path}: report.looks"),
        is_until_decided=file.until == "decided",
        decisions=read_decisions(path.parent),
        factor=check_factor(file.report.factor, placed.axes, f"report.factor in {path}"),
        heads=_heads(file),
        run_ids=None if run_ids is None else frozenset(run_ids),
        placed=placed,
        declared=Declared(margin=file.report.margin, margins=file.report.margins),
        asked={key: value for key, value in report.items() if key not in NOT_ASKED},
        note=file.report.note,
    )


def _without_nothing(content: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out keys without a value: their sections say the defaults."""
    return {
        key: _without_nothing(value) if key == "report" and isinstance(value, dict) else value
        for key, value in content.items()
        if value is not None
    }


def _settings(placed: StudyAxes) -> Iterator[Family]:
    """What differences are averaged over: every family, at every combination of the axes' levels."""
    settings = Settings(placed.families, placed.axes)
    for family in placed.families:
        for levels in product(*placed.axes.values()):
            yield settings.setting(family, tuple(zip(placed.axes, levels, strict=True)))


def _check_places(path: Path, placed: StudyAxes, run_ids: Iterable[str]) -> None:
    """Refuse an axis that is none, and a run that is compared and stands nowhere on an axis."""
    axes: Mapping[str, Collection[str]] = {check_axis(name, str(path)): x for name, x in placed.axes.items()}
    for run_id in sorted(placed.main(run_ids)):
        for axis, levels in axes.items():
            level = placed.levels.get(run_id, {}).get(axis)
            if level not in levels:
                raise UsageError(
                    f"{path}: levels.{run_id} has {axis} {level}; it must be one of {', '.join(levels)}"
                )


def _heads(file: _StudyFile) -> tuple[str, ...]:
    """Name the heads of a study as rows do; none where its file is from before there was a choice."""
    if file.heads is not None:  # written by this project, without options that are defaults
        return file.heads
    finetune = mapping(file.evaluation.get("finetune"))
    return listed_heads(finetune) if "head" in finetune else ()
