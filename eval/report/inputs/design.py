"""What a study was meant to run and to ask: its file, as far as that can be believed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from eval.report.inputs.study_axes import StudyAxes, read_axes
from eval.results.decisions import Decisions
from eval.results.outcome import Declared
from eval.results.rows import LARGEST
from eval.results.stages import is_cut_off
from eval.significance.axes import Benchmark, Combination, Family, Level, Setting, Settings
from eval.significance.factor import FACTORS, Factor, check_factor, listed_heads
from eval.significance.statistics.looks import Plan, read_plan
from pretrain.run.folders import StudyFolder

_PLACED = re.compile(rb"^(axes|levels|stages):", re.MULTILINE)
"""What a study's file has where runs are more than their folders say."""


NOT_ASKED = ("note", "method", "correction")
"""Keys of a study's ``report`` that are no question; the latter two stand in older files."""


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


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a study's file says; ``design`` is None where there is none, or it cannot be used."""

    design: Design | None = None
    declared: Declared = field(default_factory=Declared)
    """What it says of its outcomes."""
    notes: tuple[str, ...] = ()
    """What is amiss with it, in sentences."""


def design_from(rows: pd.DataFrame) -> Design:
    """Without a study file, expect every variant in every family at every seed that occurs anywhere."""
    names = {column: tuple(sorted(rows[column].unique())) for column in ("family", "variant", "benchmark")}
    seeds = tuple(int(seed) for seed in sorted(rows.seed.unique()))
    benchmarks = tuple(map(Benchmark, names["benchmark"]))
    return Design(names["family"], names["variant"], seeds, benchmarks, written=False)


def read_design(path: Path) -> Asked:
    """Read what a study's file says was to be run and asked.

    A file that is damaged as a whole is named, and the study goes on without one, unless it alone says what
    runs are for. One that is not as it was written is named and followed.

    Raises:
        UsageError: For a value that cannot be used, in a file that was not damaged; for a file that is
            damaged or missing, and told tuning runs from those that are compared, or levels of a variant.
    """
    if not path.is_file():
        if StudyFolder(path.parent).tuning_file.exists():
            raise UsageError(_needed(path, "is missing"))
        return Asked()
    try:
        content = read_yaml(path)
        if not content:
            raise UsageError(f"{path}: is empty")
        if is_cut_off(content):
            raise UsageError(f"{path}: was cut off")
    except UsageError as error:
        return _without(path, error)
    design, declared = _from_content(path, content)
    return Asked(design=design, declared=declared)


def _without(path: Path, error: UsageError) -> Asked:
    """Go on without a damaged file, where folders tell what each run is."""
    reason = str(error).removeprefix(f"{path}: ")
    try:
        text = path.read_bytes()
    except OSError:
        text = b""
    if StudyFolder(path.parent).tuning_file.exists() or _PLACED.search(text):
        raise UsageError(_needed(path, f"is damaged ({reason})"))
    return Asked(
        notes=(
            f"{path.name} is left out ({reason}): this report is of the runs that are there, with the usual "
            "choices; run the study's command again, which writes it anew",
        )
    )


def _needed(path: Path, what: str) -> str:
    return (
        f"{path} {what}, and it alone says which runs of this study are compared, and as what; run the "
        "study's command again, which writes it anew"
    )


def _from_content(path: Path, content: Mapping[str, Any]) -> tuple[Design, Declared]:
    lists = {name: _listed(path, content, name) for name in ("families", "variants", "seeds")}
    report, cells = _section(path, content, "report"), content.get("cells")
    evaluation = _section(path, content, "evaluation")
    benchmarks = _texts(path, "benchmarks", content.get("benchmarks") or evaluation.get("suites"))
    if cells is not None and not isinstance(cells, list):
        raise UsageError(f"{path}: cells must be a list of runs, not {cells!r}")
    try:
        seeds = tuple(int(seed) for seed in lists["seeds"])
        margin = None if report.get("margin") is None else float(report["margin"])
        margins = {str(name): float(value) for name, value in dict(report.get("margins") or {}).items()}
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{path}: seeds and the report's margins must be numbers: {error}") from None
    for value in (margin, *margins.values()):
        if value is not None and not 0 < value < LARGEST:
            raise UsageError(f"{path}: margin {value:g} is not a positive number")
    placed = read_axes(path, content, tuple(map(str, lists["families"])))
    design = Design(
        families=tuple(_settings(placed)),
        variants=tuple(map(str, lists["variants"])),
        seeds=seeds,
        benchmarks=tuple(map(Benchmark, benchmarks)),
        written=True,
        baseline=_baseline(path, report),
        primary=_texts(path, "report.primary", report.get("primary")),
        contrasts=_texts(path, "report.contrasts", report.get("contrasts")),
        paired=_truth(path, "report.paired", report.get("paired", False)),
        looks=read_plan(report.get("looks"), f"{path}: report.looks"),
        is_until_decided=content.get("until") == "decided",
        factor=check_factor(report.get("factor", FACTORS[0]), placed.axes, f"report.factor in {path}"),
        heads=_listed_heads(content, mapping(evaluation.get("finetune"))),
        run_ids=_run_ids(cells, placed),
        placed=placed,
        asked={key: value for key, value in report.items() if key not in NOT_ASKED},
        note=_text(path, "report.note", report.get("note", "")),
    )
    return design, Declared(margin=margin, margins=margins)


def _run_ids(cells: list[Any] | None, placed: StudyAxes) -> frozenset[str] | None:
    """Name the runs of a study: its cells, or where it names none those that it places on its axes."""
    found = cells if cells is not None else placed.levels if placed.axes else None
    return None if found is None else frozenset(map(str, found))


def _settings(placed: StudyAxes) -> Iterator[Family]:
    """What differences are averaged over: every family, at every combination of the axes' levels."""
    settings = Settings(placed.families, placed.axes)
    for family in placed.families:
        for levels in product(*placed.axes.values()):
            yield settings.setting(family, tuple(zip(placed.axes, levels, strict=True)))


def _section(path: Path, content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = content.get(name)
    if section is not None and not isinstance(section, dict):
        raise UsageError(f"{path}: {name} must be a section of keys, not {section!r}")
    return section or {}


def _baseline(path: Path, report: Mapping[str, Any]) -> str | None:
    name = report.get("baseline")
    if name is not None and not isinstance(name, str):
        raise UsageError(f"{path}: report.baseline must be a name, not {name!r}")
    return name


def _text(path: Path, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{path}: {name} must be a text, not {value!r}")
    return value


def _truth(path: Path, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{path}: {name} must be true or false, not {value!r}")
    return value


def _listed_heads(content: Mapping[str, Any], finetune: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the heads of a study as rows do; none where its file is from before there was a choice."""
    if isinstance(content.get("heads"), list):  # written by this project, without options that are defaults
        return tuple(map(str, content["heads"]))
    return listed_heads(finetune) if "head" in finetune else ()


def _texts(path: Path, name: str, value: object) -> tuple[str, ...]:
    """A list as texts, one text for itself, and nothing for none."""
    if value is None or isinstance(value, str):
        return () if value is None else (value,)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UsageError(f"{path}: {name} must be a list of names, not {value!r}")
    return tuple(value)


def _listed(path: Path, content: Mapping[str, Any], name: str) -> list[Any]:
    value = content.get(name)
    if isinstance(value, dict):  # a study as its author writes it maps each family to a base config
        return list(value)
    if not isinstance(value, list) or not value:
        raise UsageError(f"{path}: {name} must be a list with at least one entry, not {value!r}")
    return value
