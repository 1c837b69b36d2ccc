"""Expanding a study into cells: families x points of its axes x variants x seeds, seeds varying slowest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from base.config_input import deep_merge, find, find_config, read_yaml
from base.errors import UsageError
from base.families import get_family
from base.run.folder_names import RunFolder
from eval.config import EvalConfig
from pretrain.config import ResolvedConfig
from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir
from slurm.study.cells import Cell, RunCell, at_seed, own_variant, variant_place
from slurm.study.ffn_levels import Level, Point, has, leaves, num_steps
from slurm.study.study_config import StudyConfig


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
        return tuple(at_seed(cell, seed) for seed in self.config.all_seeds for cell in of_first)

    def _cell(self, family: str, points: tuple[Point, ...], level: Level) -> RunCell:
        """Return a cell at the study's first seed; ``points`` has one for each axis, in the study's order."""
        try:
            run_config = self._run_config(family, points, level)
        except UsageError as error:
            places = "".join(f", {point.axis} {point.level}" for point in points)
            raise UsageError(f"{self.path}: {family}, {level}{places}: {error}") from None
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
            "seed": self.config.all_seeds[0],
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
