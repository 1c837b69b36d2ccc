"""A study: one YAML file that names families, variants and seeds, expanded into cells.

A cell is one run: pretraining of one family with one variant at one seed, and its evaluation; or, where the
study names ``backbones``, the evaluation of one of them at one seed of fine-tuning. Its identity is its run
folder, whose name carries the hash of everything that can change the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

import ffn_variants
from base.baseline import BASELINE
from base.command_line import Section
from base.config_input import deep_merge, read_config
from base.errors import UsageError, shown, unknown_name
from base.families import PRETRAINED, get_family
from base.files import write_text
from base.mistakes import explain
from base.names import check_name
from base.sealed_text import sealed_text
from eval.classification.heads.choice import check_head, parse_head
from eval.classification.tasks.schema import benchmarks_asked_for, classified_benchmarks
from eval.config import EvalConfig
from eval.models.backbones import StudyBackbone
from eval.report.history import remember_question
from eval.results.decisions import Decisions, read_decisions
from eval.significance.axes import Benchmark
from eval.significance.comparison import CorrectionName, Method
from eval.significance.contrasts import parse_contrast
from eval.significance.factor import NOUNS, Factor, find_level, levels, listed_heads
from eval.significance.statistics.bootstrap import MIN_RUNS
from eval.significance.statistics.looks import MOST_LOOKS, Plan, read_plan
from eval.suites.registry import HELD_OUT, SUITES
from pretrain.config import RunConfig
from pretrain.resolution import load_config, resolve
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.run_dir import run_dir
from slurm.cells import Cell, RunCell, check_backbones, expand_backbones
from slurm.seeds import AdaptiveSeeds, read_seeds

SAID_BY_STUDY = {
    "family": "its `families` name them",
    "seed": "its `seeds` name them",
    "seeds": "name them in its own `seeds`",
    "model.ffn": "its `variants` name them",
    "output.study": "its `name` is that of the folder",
}
"""What no run of a study may say for itself, and where the study says it."""


class ReportConfig(Section):
    """What the report compares."""

    factor: Factor = "ffn"
    """What is compared: ``ffn`` variants, classification heads (``head``), or ``both`` as ``kan/linear``."""
    baseline: str = BASELINE
    """The variant, head or combination that every other one is compared with."""
    margin: Annotated[float, Field(gt=0, lt=100)] = 1.0
    """Differences below this many percentage points are negligible; fixed before the results are seen."""
    margins: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    """The same for single outcomes, each in its own unit: ``{held-out-loss: 0.02, blimp: 1.0}``."""
    primary: tuple[str, ...] = ()
    """Outcomes that the report makes claims about, such as ``[held-out-loss, blimp]``, corrected together;
    others are explored. Without any, claims are about all: each one more makes all of them harder to show."""
    contrasts: tuple[str, ...] = ()
    """Further comparisons of groups of variants, such as ``relu+silu - prelu+swish``."""
    paired: bool = False
    """Compare runs of one family and seed with each other instead of treating seeds as independent; heads
    always are."""
    method: Method = "welch"
    """What verdicts rest on: ``welch``, or the studentized ``bootstrap``, which needs 5 runs in every arm."""
    correction: CorrectionName = "holm"
    """Of all claims together: ``holm``, or ``max-t``, which uses what they share and so finds more."""
    looks: Annotated[Plan | None, BeforeValidator(lambda value: read_plan(value, ""))] = None
    """Numbers of runs in every arm at which the report is read, such as ``[3, 6, 10]``, or ``any``: the tests
    then hold their level over all of these looks together."""


class StudyConfig(Section):
    """One study, as written in ``configs/studies/*.yaml``."""

    name: Annotated[str, AfterValidator(check_name)]
    """Names the folder below ``runs/``."""
    families: dict[str, str] = Field(default_factory=dict)
    """Family name to its base config; a relative path starts at the study file's folder."""
    variants: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    """In place of both: pretrained models to be scored, on the hub (``name@revision``), folders or runs;
    nothing is trained but classifiers, and seeds are of fine-tuning."""
    seeds: Annotated[tuple[int, ...] | AdaptiveSeeds, BeforeValidator(read_seeds)]
    """``[1, 2, 3]``, ``1-3``, or ``{first: 3, most: 12, until: decided}``: more for what is undecided."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Values that replace those of every base config, in the same nested form."""
    evaluation: EvalConfig = EvalConfig()
    report: ReportConfig = ReportConfig()

    @model_validator(mode="after")
    def _names_exist(self) -> StudyConfig:
        self._check_what_is_scored()
        for family in self.families:
            get_family(family)
        for variant in self.variants:
            ffn_variants.get_variant(variant)  # looked up here: the registry loads torch
        for label, values in (("variants", self.variants), ("seeds", self.all_seeds)):
            if len(set(values)) != len(values):
                raise ValueError(f"{label} are named twice: {', '.join(map(str, values))}; name each once")
        report, noun = self.report, NOUNS[self.report.factor]
        if report.correction == "max-t" and (report.looks or isinstance(self.seeds, AdaptiveSeeds)):
            raise ValueError("report.correction max-t is for a study that is read once; write holm for looks")
        compared = levels(report.factor, self.models, self.heads)
        find_level(report.factor, report.baseline, compared, f"baseline {noun} in report.baseline")
        for contrast in report.contrasts:
            parse_contrast(contrast, compared, report.baseline, report.factor)
        outcomes = self._outcomes()
        for section, names in (("margins", report.margins), ("primary", report.primary)):
            for name in names:
                if name not in outcomes:
                    raise unknown_name(f"outcome in report.{section}", name, outcomes)
        return self

    def _check_what_is_scored(self) -> None:
        """Refuse anything but families with variants, or backbones with what can be asked of them."""
        if not self.backbones:
            for name in ("families", "variants"):
                if not getattr(self, name):
                    raise ValueError(
                        f"{name} are not named; name families and variants to be trained, or backbones"
                    )
            return
        if self.families or self.variants:
            raise ValueError("backbones stand in place of families and variants; leave out one or the other")
        if set(self.config) - {"output"}:
            raise ValueError("config has no effect on backbones, as nothing is pretrained; leave it out")
        if _nested(self.config, ["output", "run_name"]) is not None:
            raise ValueError("config.output.run_name has no effect on backbones; leave it out")
        check_backbones(self.backbones, self.evaluation)

    @model_validator(mode="after")
    def _config_leaves_identities(self) -> StudyConfig:
        """Refuse in ``config`` what the study itself says of each run."""
        for place, said in SAID_BY_STUDY.items():
            if _nested(self.config, place.split(".")) is not None:
                raise ValueError(f"config.{place} has no effect in a study; {said}")
        named = _nested(self.config, ["output", "run_name"])
        if named is not None and len(self.all_seeds) > 1:
            raise ValueError(
                f"config.output.run_name {shown(named)} gives the runs of {len(self.all_seeds)} seeds one "
                "folder; leave it out, and each has a folder of its own, or name one seed"
            )
        return self

    @model_validator(mode="after")
    def _heads_have_the_outcomes(self) -> StudyConfig:
        """Refuse claims about outcomes that classification heads have no part in."""
        if self.report.factor == "ffn":
            return self
        suites = [name for name in self.evaluation.suites if SUITES[name].kind == "classification"]
        able = [*suites, *classified_benchmarks(self.evaluation)]
        for name in self.report.primary:
            if name not in able:
                raise ValueError(
                    f"report.primary {name} is not scored under a head, and report.factor is "
                    f"{self.report.factor}; name of {', '.join(able) or 'no outcome here'}"
                )
        return self

    @model_validator(mode="after")
    def _bootstrap_can_be_had(self) -> StudyConfig:
        """Refuse before anything is trained what no report could be written of."""
        fewest = MIN_RUNS["studentized"]
        if self.report.method != "bootstrap":
            return self
        if self.report.looks == "any":
            raise ValueError(
                "report.looks any rest on Welch's t, and report.method is bootstrap; name numbers of runs, "
                "such as [5, 10], or leave out one of them"
            )
        if len(self.all_seeds) < fewest:
            raise ValueError(
                f"report.method bootstrap needs {fewest} runs in every arm, and seeds are "
                f"{len(self.all_seeds)}; name {fewest} or more, or write welch"
            )
        return self

    @model_validator(mode="after")
    def _tests_know_the_looks(self) -> StudyConfig:
        """Let the report correct for the looks of seeds that are added."""
        if not isinstance(self.seeds, AdaptiveSeeds):
            return self
        if len(self.stages) > MOST_LOOKS:
            raise ValueError(
                f"seeds: first {self.seeds.first} and most {self.seeds.most} make {len(self.stages)} looks, "
                f"and {MOST_LOOKS} are allowed; raise first, or name them in report.looks"
            )
        if self.report.looks == "any":
            return self
        looks, first, most = self.stages, self.seeds.first, self.seeds.most
        if (looks[0], looks[-1]) != (first, most):
            raise ValueError(
                f"report.looks are {looks[0]} to {looks[-1]} and seeds {first} to {most}; the first and the "
                "last must agree, or leave report.looks out"
            )
        report = self.report.model_copy(update={"looks": looks})
        return self.model_copy(update={"report": report})

    def _outcomes(self) -> list[str]:
        """Name what the study's runs will be compared by: benchmarks, and suites' graded metrics."""
        benchmarks = benchmarks_asked_for(self.evaluation)
        graded = [
            str(Benchmark(name, metric=metric.name))
            for name in benchmarks
            for metric in (SUITES[name].graded if name in SUITES else ())
        ]
        return [HELD_OUT, *benchmarks, *graded]

    @property
    def models(self) -> tuple[str, ...]:
        """What stands in rows as the variant: FFN variants, or the names of backbones."""
        return self.variants or tuple(StudyBackbone(model, 0).variant for model in self.backbones)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Every seed that there may be."""
        return self.seeds.numbers if isinstance(self.seeds, AdaptiveSeeds) else self.seeds

    @property
    def stages(self) -> tuple[int, ...]:
        """Seeds at every look at which it is decided who gets more; none where all seeds are named."""
        if not isinstance(self.seeds, AdaptiveSeeds):
            return ()
        return self.report.looks if isinstance(self.report.looks, tuple) else self.seeds.looks

    @property
    def heads(self) -> tuple[str, ...]:
        """The classification heads that every run is fine-tuned with, as rows name them."""
        choices = [parse_head(text) for text in listed_heads(self.evaluation.finetune.model_dump())]
        return tuple(dict.fromkeys(str(check_head(choice)) for choice in choices))


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study's configuration and its cells, seeds varying slowest.

    Seeds vary slowest so that a study stopped half-way holds every variant at the first seeds.
    """

    config: StudyConfig
    folder: Path
    planned: tuple[Cell, ...]
    """Every cell that there may be."""
    decisions: Decisions | None = None
    """Looks that were made, where they decide who gets more seeds."""

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Those to be run: all that are planned, or what the next look needs."""
        if self.decisions is None:
            return self.planned
        seeds = self.config.all_seeds
        due = {name: seeds[: self.decisions.num_seeds(name)] for name in self.config.models}
        return tuple(cell for cell in self.planned if cell.seed in due[cell.variant])

    @property
    def later(self) -> tuple[Cell, ...]:
        """Those that looks after the next one may need."""
        if self.decisions is None:
            return ()
        due = {cell.run_id for cell in self.cells}
        return tuple(
            cell for cell in self.planned if cell.run_id not in due and self.decisions.may_go_on(cell.variant)
        )

    def now(self) -> Study:
        """Return the same with the looks that were made meanwhile."""
        if not self.config.stages:
            return self
        return replace(self, decisions=read_decisions(self.folder) or Decisions(plan=self.plan))

    @property
    def plan(self) -> dict[str, Any]:
        """What must not change once somebody has looked."""
        report = self.config.report.model_dump(mode="json")
        return {
            "looks": list(self.config.stages),
            "variants": list(self.config.models),
            "cells": [cell.run_id for cell in self.planned],
            "benchmarks": list(benchmarks_asked_for(self.config.evaluation)),
            **{f"report.{name}": value for name, value in report.items()},
        }

    def write(self) -> None:
        """Write ``study.yaml`` into the study's folder: what is to be run, readable without this code.

        What its report is asked is remembered with its date, so that a report can tell what stood there
        before the results.
        """
        seeds = {cell.seed for cell in self.cells}
        content = {
            "name": self.config.name,
            "families": list(self.config.families) or [PRETRAINED],
            "variants": list(self.config.models),
            "seeds": [seed for seed in self.config.all_seeds if seed in seeds],
            "until": None if self.decisions is None else "decided",
            "heads": list(self.config.heads),
            "benchmarks": list(benchmarks_asked_for(self.config.evaluation)),
            "evaluation": self.config.evaluation.model_dump(mode="json"),
            "report": self.config.report.model_dump(mode="json"),
            "cells": [cell.run_id for cell in self.cells],
        }
        text = sealed_text(yaml.safe_dump(content, sort_keys=False))
        write_text(StudyFolder(self.folder).study_file, text)
        remember_question(self.folder, self.config.report.model_dump(mode="json"))


def load_study(path: Path, overrides: Mapping[str, Any] | None = None) -> Study:
    """Read a study and expand it into cells.

    Args:
        path: The study's YAML file.
        overrides: Nested config values that replace the study's own ``config`` section.

    Raises:
        UsageError: If the file is missing or a value in it does not fit; names the file and the key.
    """
    config = _read(path)
    extra = deep_merge(config.config, dict(overrides or {}))
    first = config.all_seeds[0]
    if config.backbones:
        return _of_backbones(config, path, extra)
    # Seeds differ in nothing else, and there may be thousands.
    pairs = [(family, variant) for family in config.families for variant in config.variants]
    of_first = [_cell(config, path, *pair, first, extra) for pair in pairs]
    cells = tuple(_at_seed(cell, seed) for seed in config.all_seeds for cell in of_first)
    _check_folders(path, cells)
    return Study(config=config, folder=cells[0].study_dir, planned=cells).now()


def _of_backbones(config: StudyConfig, path: Path, values: dict[str, Any]) -> Study:
    """Expand a study that pretrains nothing."""
    try:
        output = RunConfig.model_validate({"output": values.get("output", {})}).output
    except ValidationError as error:
        raise explain(error, RunConfig, f"{path}: config") from None
    folder = Path(output.runs_dir) / config.name
    cells = expand_backbones(config.backbones, config.all_seeds, config.evaluation, folder)
    return Study(config=config, folder=folder, planned=cells).now()


def _at_seed(cell: RunCell, seed: int) -> RunCell:
    run_config = cell.config.model_copy(update={"seed": seed})
    return replace(cell, config=run_config, run_dir=run_dir(run_config))


def _check_folders(path: Path, cells: Sequence[RunCell]) -> None:
    """Refuse cells that would share a folder, or lie in several studies.

    Raises:
        UsageError: Naming two of them.
    """
    homes: dict[Path, RunCell] = {}
    for cell in cells:
        other = homes.setdefault(cell.run_dir, cell)
        if other is not cell:
            raise UsageError(
                f"{path}: {other.label} at seed {other.config.seed} and {cell.label} at seed "
                f"{cell.config.seed} would lie in one folder, {cell.run_dir}; leave output.run_name out of "
                "the configs, and each has a folder of its own"
            )
        if cell.study_dir != cells[0].study_dir:
            raise UsageError(
                f"{path}: {cells[0].label} would lie in {cells[0].study_dir} and {cell.label} in "
                f"{cell.study_dir}; give both configs the same output.runs_dir"
            )


def _read(path: Path) -> StudyConfig:
    if not path.is_file():
        raise UsageError(f"study file {path} does not exist; the shipped ones are in configs/studies/")
    return read_config(path, StudyConfig)


def _check_length(path: Path, evaluation: EvalConfig, config: RunConfig) -> None:
    """Refuse to read more of a text than the model has positions for."""
    asked, model = evaluation.finetune.max_length, resolve(config).model
    able = (model.max_position_embeddings or 0) - get_family(config.family).first_position
    if asked is not None and asked > able:
        raise UsageError(
            f"{path}: evaluation.finetune.max_length {asked} is longer than the {able} positions of the "
            f"{config.family} model; lower it, or raise model.max_position_embeddings"
        )


def _nested(values: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _cell(
    config: StudyConfig, path: Path, family: str, variant: str, seed: int, extra: dict[str, Any]
) -> RunCell:
    identity = {
        "family": family,
        "seed": seed,
        "model": {"ffn": variant},
        "output": {"study": config.name},
    }
    file = path.parent / config.families[family]
    run_config = load_config(file, overrides=deep_merge(extra, identity))
    found = (run_config.family, run_config.model.ffn, run_config.seed, run_config.output.study)
    if found != (family, variant, seed, config.name):  # by its own entry under `variants:`
        raise UsageError(
            f"{file}: variants.{variant} says family, seed, model.ffn or output.study, which the study "
            f"{path} decides; leave it out"
        )
    _check_length(path, config.evaluation, run_config)
    folder = run_dir(run_config)
    study_dir = RunFolder(folder).study.path
    return RunCell(config=run_config, evaluation=config.evaluation, study_dir=study_dir, run_dir=folder)
