"""A study: one YAML file that names families, variants, axes and seeds, expanded into cells.

A cell is one run: pretraining of one family with one variant at one seed, and its evaluation; or, where the
study names ``backbones``, the evaluation of one of them at one seed of fine-tuning. Its identity is its run
folder, whose name carries the hash of everything that can change the result.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any

import yaml

from base.config_input import deep_merge, find, find_config, parse_seeds, read_yaml, shipped
from base.errors import UsageError, prefixed
from base.families import PRETRAINED, get_family
from base.files import mapping, write_text
from base.run.folder_names import RunFolder, StudyFolder
from base.sections import check
from eval.classification.schema import benchmarks_asked_for
from eval.config import EvalConfig
from pretrain.config import ResolvedConfig, RunConfig
from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir
from report.inputs.study_design import report_before
from report.significance.factor import parse_contrast
from scores.stages import MAIN, SHARED
from scores.tuning_trials import Tuning, TuningPlan, read_tuning
from slurm.study.cells import (
    Cell,
    RunCell,
    absolute_variant,
    at_seed,
    expand_backbones,
    lies_beside,
    load_file_variants,
    own_variant,
    own_variants,
    trained_cells,
    variant_place,
)
from slurm.study.ffn_levels import Level, Point, canonical, canonical_contrast, has, leaves, num_steps
from slurm.study.study_config import StudyConfig
from slurm.study.tune_section import (
    check_values,
    main_cells,
    plan_of,
    shared_cells,
    shares_its_best,
    tuning_cells,
)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study's configuration and its cells, seeds varying slowest.

    Seeds vary slowest so that a study stopped half-way holds every variant at the first seeds.
    """

    config: StudyConfig
    folder: Path
    typed: str = ""
    """What runs it, behind ``ffn-ablations study run``."""
    of_cells: str = ""
    """The flags that chose its cells, such as ``--seeds 1-3``."""
    planned: tuple[Cell, ...]
    """Every cell that there may be; of a study that tunes as it would be without."""
    tuning: Tuning | None = None
    """What was tried and chosen, where every variant is tuned."""

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Those to be run: all that are planned, or what the round of tuning needs."""
        tuning = tuning_cells(self.tuning, trained_cells(self.planned)) if self.tuning else ()
        return (*tuning, *self.compared)

    @cached_property
    def compared(self) -> tuple[Cell, ...]:
        """Every cell that may be compared: of a study that tunes those whose values are chosen."""
        if self.tuning is None:
            return self.planned
        untuned = trained_cells(self.planned)
        return (*main_cells(self.tuning, untuned), *shared_cells(self.tuning, untuned))

    @property
    def after_tuning(self) -> tuple[Cell, ...]:
        """Cells that follow once the tuning has chosen their values, here with the values of no tuning."""
        if self.tuning is None:
            return ()
        tuned = {(one.family, one.places, one.variant) for one in self.tuning.chosen}
        untuned = trained_cells(self.planned)
        return tuple(cell for cell in untuned if (cell.config.family, cell.places, cell.variant) not in tuned)

    @cached_property
    def tuning_plan(self) -> TuningPlan | None:
        """What the study plans to tune; None where it does not."""
        tune = self.config.tune
        return plan_of(tune, trained_cells(self.planned), self.config.tuned_baseline) if tune else None

    def now(self) -> Study:
        """Read the study's tuning again, and return the study with it."""
        if self.tuning_plan is None:
            return self
        tuning = read_tuning(self.folder)
        # Of another plan nothing follows: study run refuses it.
        plan = tuning.plan.grown_to(self.tuning_plan) if tuning else None
        tuning = replace(tuning, plan=plan) if tuning and plan else Tuning(plan=self.tuning_plan)
        return replace(self, tuning=tuning)

    @property
    def _axes(self) -> dict[str, Any]:
        """The axes beside the variant, with their levels as text; nothing without any."""
        axes = {name: list(levels) for name, levels in self.config.axis_levels.items()}
        return {"axes": axes} if axes else {}

    @property
    def _levels_and_stages(self) -> dict[str, Any]:
        """Levels of runs, and stages of those that are not compared: the names of folders show neither."""
        # If gelu is the baseline and its best is also kan's, kan's one run is both main and shared: it is
        # listed under both stages. Runs of the main stage alone are left out, as most runs are such.
        stages: dict[str, list[str]] = {}
        for cell in self.cells:
            stages.setdefault(cell.stage, []).append(cell.run_id)
            if self.tuning and isinstance(cell, RunCell) and shares_its_best(self.tuning, cell):
                stages.setdefault(SHARED, []).append(cell.run_id)
        levels = {
            cell.run_id: cell.levels
            for cell in trained_cells(self.cells)
            if cell.places or cell.variant != cell.config.model.ffn
        }
        main = stages.pop(MAIN, [])
        others = set(chain(*stages.values()))
        if both := [run_id for run_id in main if run_id in others]:
            stages[MAIN] = both  # of a run that is two things, the report must know that it is compared
        return ({"levels": levels} if levels else {}) | ({"stages": stages} if stages else {})

    def write(self) -> None:
        """Write ``study.yaml`` into the study's folder: what is to be run, readable without this code."""
        content = {
            "name": self.config.name,
            "typed": self.typed,
            "of_cells": self.of_cells,
            "families": list(self.config.families) or [PRETRAINED],
            "variants": list(self.config.models),
            **self._axes,
            "seeds": list(self.config.seeds),
            "heads": list(self.config.heads),
            "benchmarks": list(benchmarks_asked_for(self.config.evaluation)),
            "evaluation": self.config.evaluation.model_dump(mode="json"),
            "report": self.config.report.model_dump(mode="json"),
            "report_written": self.config.report.model_dump(mode="json"),  # which tells edits of the other
            "report_before": report_before(StudyFolder(self.folder).study_file, self.config.report.decisive),
            **self._levels_and_stages,
            "cells": [cell.run_id for cell in self.cells],
            "num_cells": len(self.cells),  # last: a file that was cut off lacks it (scores.stages.is_cut_off)
        }
        text = yaml.safe_dump(content, sort_keys=False)
        write_text(StudyFolder(self.folder).study_file, text)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a command line has in place of a study's file; relative paths of it start here."""

    variants: tuple[str, ...] = ()
    """Instead of those in the file, but for those that were tuned in an earlier sitting."""
    add: tuple[str, ...] = ()
    """Beside them."""
    seeds: tuple[str, ...] = ()
    """Instead of those in the file."""


def load_study(
    path: Path,
    overrides: Mapping[str, Any] | None = None,
    trust_remote_code: bool = False,
    changes: Changes | None = None,
) -> Study:
    """Read a study and expand it into cells.

    Args:
        path: The study's YAML file, or the name of a shipped one.
        overrides: Nested config values that replace the study's own ``config`` section.
        trust_remote_code: Whether to run files of variants that are not in the study's own folder and that
            nobody typed, which are refused otherwise, and those that its backbones bring.
        changes: What a command line has in place of the file.

    Raises:
        UsageError: If the file is missing or a value in it does not fit; names the file and the key.
    """
    path = find_config(path, "study")
    config = _read(path, trust_remote_code, changes or Changes(), overrides)
    extra = deep_merge(config.config, dict(overrides or {}))
    planned: tuple[Cell, ...]
    if config.backbones:
        folder = _folder(path, {"name": config.name, "config": extra}, None)
        seeds = config.seeds
        planned = expand_backbones(config.backbones, seeds, config.evaluation, folder, trust_remote_code)
    else:
        planned = Expansion(config, path, extra).cells()
    check_folders(path, planned)
    if config.tune:
        with prefixed(f"{path}: "):
            check_values(trained_cells(planned[: len(planned) // len(config.seeds)]), config.tune)
    name = path.stem if path == shipped("study").get(path.stem) else shlex.quote(str(path))
    places = [variant_place(own.name) for own in own_variants(planned)]
    typed = name if all(lies_beside(path, str(place)) for place in places) else f"{name} --trust-remote-code"
    return Study(config=config, folder=planned[0].study_dir, typed=typed, planned=planned).now()


@dataclass(frozen=True)
class Expansion:
    """What makes cells of a study that trains.

    Where several say a field, the later wins: the base config, a size, the study's ``config``, their entries
    for the variant (``variants:``), the level's own options and budget, fields that are axes, tokens.

    Args:
        config: The study.
        path: Its file.
        extra: What its ``config`` says, with what a command line replaces.
    """

    config: StudyConfig
    path: Path
    extra: Mapping[str, Any]

    def cells(self) -> tuple[RunCell, ...]:
        """Return the study's main cells: families vary slowest after seeds, then axes, then variants.

        Raises:
            UsageError: If the configuration of one does not fit.
        """
        arms = product(self.config.families, product(*self.config.points.values()), self.config.levels)
        # Seeds differ in nothing else, and there may be thousands.
        of_first = [self._cell(*arm) for arm in arms]
        return tuple(at_seed(cell, seed) for seed in self.config.seeds for cell in of_first)

    def _cell(self, family: str, points: tuple[Point, ...], level: Level) -> RunCell:
        """Return a cell at the study's first seed; ``points`` has one for each axis, in the study's order."""
        places = "".join(f", {point.axis} {point.level}" for point in points)
        with prefixed(f"{self.path}: {family}, {level}{places}: "):
            run_config = self._run_config(family, points, level)
        folder = run_dir(run_config)
        return RunCell(
            variant=str(level),
            seed=run_config.seed,
            config=run_config,
            evaluation=self.config.evaluation,
            study_dir=RunFolder(folder).study.path,
            run_dir=folder,
            variant_file=own_variant(level.name),
            places=tuple((point.axis, point.level) for point in points),
        )

    def _run_config(self, family: str, points: tuple[Point, ...], level: Level) -> ResolvedConfig:
        identity = {
            "family": family,
            "seed": self.config.seeds[0],
            "model": {"ffn": level.name, "ffn_file": variant_place(level.name)},
            "output": {"study": self.config.name},
        }
        file = self._files[family]
        try:
            config = load_config(file, overrides=deep_merge(self._values(file, points, level), identity))
        except UsageError as error:
            load_config(file, overrides=identity)  # where the base config itself is at fault
            raise UsageError(str(error).removeprefix(f"{file}: ")) from None
        check_length(self.config.evaluation, config)
        tokens = next((point.tokens for point in points if point.tokens), None)
        if tokens is None:
            return config
        steps = num_steps(tokens, config.train.batch_size, config.data.block_size)
        return config.model_copy(update={"optim": config.optim.model_copy(update={"max_steps": steps})})

    def _values(self, file: Path, points: tuple[Point, ...], level: Level) -> dict[str, Any]:
        """Put together what the study sets on top of a base config."""
        # For kan at 0.01 on the axis optim.learning_rate, over a base config that has an entry
        # variants.kan.optim.learning_rate: the entry would win over the axis, so the axis's value is written
        # into the entry too, and the run is trained at 0.01.
        place = f"variants.{level.name}"
        values = dict(self.extra)
        for point in points:
            values = deep_merge(dict(point.values) if point.is_named else {}, values)
        entry = find(deep_merge(read_yaml(file), values), place)
        for point in points:
            for leaf in leaves(point.values) if point.is_named else ():
                if has(entry, leaf) and not has(find(point.values, place), leaf):
                    raise UsageError(
                        f"{leaf} of the {point.axis} is overruled by what the base config or config has for "
                        f"the variant, {place}.{leaf}; write {point.axis}s.{point.level}.{place}.{leaf} too"
                    )
        of_variant = dict(level.values)
        for point in points:
            if not point.is_named and point.tokens is None:
                values = deep_merge(values, dict(point.values))
                if has(entry, point.axis):  # which would win
                    of_variant = deep_merge(of_variant, dict(point.values))
        return deep_merge(values, {"variants": {level.name: of_variant}}) if of_variant else values

    @cached_property
    def _files(self) -> Mapping[str, Path]:
        families = self.config.families.items()
        return {name: find_config(Path(file), "config", self.path) for name, file in families}


def check_folders(path: Path, cells: Sequence[Cell]) -> None:
    """Refuse cells that would share a folder, or lie in several studies.

    So a variant, seed, size or value that stands twice is refused here, however it was written.

    Raises:
        UsageError: Naming two of them.
    """
    # By its folder, and by its name: kan and kan grid_size=5 are one variant, as 5 is the default.
    cell_at: dict[Path, Cell] = {}
    cell_called: dict[str, Cell] = {}
    for cell in cells:
        same_folder = cell_at.setdefault(cell.run_dir, cell)
        other = same_folder if same_folder is not cell else cell_called.setdefault(cell.label, cell)
        if other is not cell:
            raise UsageError(
                f"{path}: {other.label} and {cell.label} are one run, {cell.run_dir}: one stands twice, or "
                "nothing that they differ in changes the result; leave one of them out, or output.run_name"
            )
        if cell.study_dir != cells[0].study_dir:
            raise UsageError(
                f"{path}: {cells[0].label} would lie in {cells[0].study_dir} and {cell.label} in "
                f"{cell.study_dir}; give both configs the same output.runs_dir"
            )


def check_length(evaluation: EvalConfig, config: ResolvedConfig) -> None:
    """Refuse to read more of a text than the model has positions for.

    Raises:
        UsageError: If the study's evaluation asks for that.
    """
    length = evaluation.finetune.max_length
    positions = config.model.max_position_embeddings - get_family(config.family).first_position()
    if length is not None and length > positions:
        raise UsageError(
            f"evaluation.finetune.max_length {length} is longer than the {positions} positions of the model; "
            "lower it, or raise model.max_position_embeddings"
        )


def folder_of(path: Path, overrides: Mapping[str, Any] | None = None) -> Path:
    """Find the folder of a study by its file; nothing that it names is run.

    Raises:
        UsageError: If a file cannot be read, or what says where the folder is does not fit.
    """
    path = find_config(path, "study")
    return _folder(path, read_yaml(path), overrides)


def _folder(path: Path, values: Mapping[str, Any], overrides: Mapping[str, Any] | None) -> Path:
    """Find a study's folder without its cells: of the first family's base config, as all have the same."""
    families = list(mapping(values.get("families")).values())
    base = read_yaml(find_config(Path(str(families[0])), "config", path)) if families else {}
    merged = deep_merge(deep_merge(base, mapping(values.get("config"))), dict(overrides or {}))
    output = {**mapping(merged.get("output")), "study": values.get("name")}
    config = check(RunConfig, {"output": output}, source=f"{path}: config")
    return Path(config.output.runs_dir) / config.output.study


def _read(
    path: Path, trust_remote_code: bool, changes: Changes, overrides: Mapping[str, Any] | None
) -> StudyConfig:
    values = read_yaml(path)
    variants = values.get("variants")
    if (changes.variants or changes.add) and not isinstance(variants, list):
        raise UsageError(f"{path}: it names no variants; leave out --variants and --add")
    if isinstance(variants, list):
        variants = [absolute_variant(text, path.parent, f"{path}: variants") for text in variants]
        if changes.variants:  # none of those that took part in the tuning can be left out
            tuning = read_tuning(_folder(path, values, overrides))
            variants = [x for x in variants if tuning and canonical(str(x)) in tuning.plan.variants]
        typed = []
        for flag, texts in (("--variants", changes.variants), ("--add", changes.add)):
            added = [absolute_variant(text, Path(), flag) for text in texts]
            variants += [text for text in dict.fromkeys(added) if text not in variants]
            typed += added
        values["variants"] = load_file_variants(path, variants, trust_remote_code, typed)
    if changes.seeds:
        values["seeds"] = parse_seeds(changes.seeds, "--seeds", "1-2 or 1 2 5")
    if changes.variants:
        values["report"] = _of_share(mapping(values.get("report")), values["variants"])
    return check(StudyConfig, values, source=str(path))


def _of_share(report: dict[str, Any], variants: list[str]) -> dict[str, Any]:
    """Drop the contrasts of a report that name variants which --variants leaves out."""
    contrasts = report.get("contrasts")
    if not isinstance(contrasts, list):
        return report
    names, of_share = [canonical(name) for name in variants], []
    for text in contrasts:
        with suppress(UsageError):
            parse_contrast(canonical_contrast(str(text)), names, canonical(str(report.get("baseline", ""))))
            of_share.append(text)
    return report | {"contrasts": of_share}
