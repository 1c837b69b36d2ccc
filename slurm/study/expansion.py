"""Expanding a study into cells: families x points of its axes x variants x seeds, seeds varying slowest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from base.config_input import deep_merge, find_config, read_yaml
from base.errors import UsageError
from base.families import get_family
from base.run.folders import RunFolder
from eval.config import EvalConfig
from pretrain.config import RunConfig
from pretrain.resolution import load_config, resolve
from pretrain.run.run_dir import run_dir
from slurm.study.axes import SIZE, Level, Point, find, has, leaves, num_steps, put
from slurm.study.cells import RunCell, at_seed, own_variant, variant_place
from slurm.study.config import StudyConfig


@dataclass(frozen=True)
class Arm:
    """Runs of a study that differ in their seeds alone."""

    family: str
    points: tuple[Point, ...]
    """One for each axis, in the order of the study's axes."""
    level: Level


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

    def arms(self) -> Iterator[Arm]:
        """Yield every arm of the study, variants varying fastest and families slowest."""
        for family in self.config.families:
            for points in product(*self.config.points.values()):
                for level in self.config.levels:
                    yield Arm(family, points, level)

    def cells(self) -> tuple[RunCell, ...]:
        """Return the study's main cells.

        Raises:
            UsageError: If the configuration of one does not fit, or two would be one run.
        """
        # Seeds differ in nothing else, and there may be thousands.
        of_first = [self.cell(arm) for arm in self.arms()]
        cells = tuple(at_seed(cell, seed) for seed in self.config.all_seeds for cell in of_first)
        check_folders(self.path, cells)
        return cells

    def cell(self, arm: Arm, fields: Mapping[str, Any] | None = None) -> RunCell:
        """Return an arm's cell at the study's first seed.

        Args:
            arm: Which one.
            fields: Values that win over all others, by the dotted names of their fields.

        Raises:
            UsageError: If its configuration does not fit.
        """
        try:
            run_config = self._run_config(arm, fields or {})
        except UsageError as error:
            levels = "".join(f", {point.axis} {point.level}" for point in arm.points)
            raise UsageError(f"{self.path}: {arm.family}, {arm.level}{levels}: {error}") from None
        folder = run_dir(run_config)
        return RunCell(
            config=run_config,
            evaluation=self.config.evaluation,
            study_dir=RunFolder(folder).study.path,
            run_dir=folder,
            own=own_variant(arm.level.name),
            variant=str(arm.level),
            seed=run_config.seed,
            places=tuple((point.axis, point.level) for point in arm.points),
        )

    def _run_config(self, arm: Arm, fields: Mapping[str, Any]) -> RunConfig:
        file, name = self._files[arm.family], arm.level.name
        identity = {
            "family": arm.family,
            "seed": self.config.all_seeds[0],
            "model": {"ffn": name, "ffn_file": variant_place(name)},
            "output": {"study": self.config.name},
        }
        config = load_config(file, overrides=deep_merge(self._values(arm, fields), identity))
        check_length(self.config.evaluation, config)
        tokens = next((point.tokens for point in arm.points if point.tokens), None)
        if tokens is None:
            return config
        steps = num_steps(tokens, config.train.batch_size, config.data.block_size)
        return config.model_copy(update={"optim": config.optim.model_copy(update={"max_steps": steps})})

    def _values(self, arm: Arm, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Put together what the study sets for an arm, on top of the family's base config."""
        name = arm.level.name
        size = next((point for point in arm.points if point.axis == SIZE), None)
        values = deep_merge(dict(size.values) if size else {}, dict(self.extra))
        entry = find(deep_merge(read_yaml(self._files[arm.family]), values), f"variants.{name}")
        if size:
            self._check_size(size, name, entry)
        of_variant = dict(arm.level.values)
        for place, value in self._fields(arm, fields):
            values = deep_merge(values, put(place, value))
            if has(entry, place):  # which would win
                of_variant = deep_merge(of_variant, put(place, value))
        return deep_merge(values, {"variants": {name: of_variant}}) if of_variant else values

    def _fields(self, arm: Arm, fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for point in arm.points:
            if point.axis != SIZE and point.tokens is None:
                yield point.axis, find(point.values, point.axis)
        yield from fields.items()

    def _check_size(self, size: Point, variant: str, entry: Any) -> None:
        """Refuse a size that a variant's own entry in a base config or in ``config`` would overrule."""
        of_variant = find(size.values, f"variants.{variant}")
        for leaf in leaves(size.values):
            if has(entry, leaf) and not has(of_variant, leaf):
                raise UsageError(
                    f"{leaf} of the size is overruled by what the base config or config has for the variant, "
                    f"variants.{variant}.{leaf}; write sizes.{size.level}.variants.{variant}.{leaf} too"
                )

    @cached_property
    def _files(self) -> Mapping[str, Path]:
        families = self.config.families.items()
        return {name: find_config(Path(file), "config", self.path.parent) for name, file in families}


def check_folders(path: Path, cells: Sequence[RunCell]) -> None:
    """Refuse cells that would share a folder, or lie in several studies.

    Raises:
        UsageError: Naming two of them.
    """
    cells_of: dict[Path, RunCell] = {}
    for cell in cells:
        other = cells_of.setdefault(cell.run_dir, cell)
        if other is not cell:
            raise UsageError(
                f"{path}: {other.label} and {cell.label} are one run, as nothing that they differ in changes "
                f"its folder, {cell.run_dir}; leave one of them out, or output.run_name"
            )
        if cell.study_dir != cells[0].study_dir:
            raise UsageError(
                f"{path}: {cells[0].label} would lie in {cells[0].study_dir} and {cell.label} in "
                f"{cell.study_dir}; give both configs the same output.runs_dir"
            )


def check_length(evaluation: EvalConfig, config: RunConfig) -> None:
    """Refuse to read more of a text than the model has positions for.

    Raises:
        UsageError: If the study's evaluation asks for that.
    """
    length, model = evaluation.finetune.max_length, resolve(config).model
    positions = (model.max_position_embeddings or 0) - get_family(config.family).first_position()
    if length is not None and length > positions:
        raise UsageError(
            f"evaluation.finetune.max_length {length} is longer than the {positions} positions of the model; "
            "lower it, or raise model.max_position_embeddings"
        )
