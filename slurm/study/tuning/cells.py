"""The cells of a tuned study: tuning runs, and runs at what was chosen.

All are made from the study's cells as they would be without tuning, so nothing is read but its record.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from base.config_input import deep_merge
from base.errors import UsageError
from base.mistakes import check
from pretrain.config import RunConfig
from pretrain.resolution import check_fit
from pretrain.run.run_dir import run_dir
from scores.stages import MAIN, SHARED, TUNE
from scores.tuning import Tuning, TuningPlan, Wanted
from scores.tuning_rules import Point, widest
from slurm.study.axes.points import put, write_value
from slurm.study.cells import RunCell, at_seed
from slurm.study.tuning.schema import TuneConfig

Part = Literal["even", "odd"]
CHOSEN_ON: Part = "even"
COMPARED_ON: Part = "odd"


def plan_of(tune: TuneConfig, untuned: Sequence[RunCell], baseline: str) -> TuningPlan:
    """Say what a study plans to tune.

    Args:
        tune: What it says of it.
        untuned: Its cells as they would be without tuning.
        baseline: The variant whose best is shared.
    """
    plan = TuningPlan(
        fields=tune.fields,
        seeds=tune.seeds,
        select=tune.select,
        widen=tune.widen,
        shared=tune.shared,
        baseline=baseline,
        variants=tuple(dict.fromkeys(cell.variant for cell in untuned)),
        settings=tuple(dict.fromkeys((cell.config.family, cell.places) for cell in untuned)),
    )
    first = tuning_cells(Tuning(plan=plan), untuned)
    return replace(plan, cells=tuple(cell.run_id for cell in first))


def tuning_cells(tuning: Tuning, untuned: Sequence[RunCell]) -> list[RunCell]:
    """Return the tuning runs of rounds that have ended and of those that are at work, seeds slowest.

    Runs that were added about choices follow.
    """
    of_first = [_at_point(_template(one, untuned), one) for one in tuning.wanted()]
    further = (cells_of(one, seeds, untuned) for one, seeds in tuning.wanted_further())
    planned = [at_seed(cell, seed) for seed in tuning.plan.seeds for cell in of_first]
    return [*planned, *itertools.chain.from_iterable(further)]


def growth_to_come(tuning: Tuning, untuned: Sequence[RunCell]) -> list[RunCell]:
    """Return the most runs that may be added by grids that grow."""
    plan = tuning.plan
    if tuning.is_over or not plan.widen:
        return []
    due = {cell.run_id for cell in tuning_cells(tuning, untuned)}
    through = {(one.family, one.places) for one in tuning.chosen}
    open_ones = tuple(setting for setting in plan.settings if setting not in through)
    most = Tuning(plan=replace(plan, fields=widest(plan.fields, plan.widen), settings=open_ones))
    return [cell for cell in tuning_cells(most, untuned) if cell.run_id not in due]


def cells_of(wanted: Wanted, seeds: Sequence[int], untuned: Sequence[RunCell]) -> list[RunCell]:
    """Return the tuning runs of a variant at one point, by seed."""
    cell = _at_point(_template(wanted, untuned), wanted)
    return [at_seed(cell, seed) for seed in seeds]


def main_cells(tuning: Tuning, untuned: Iterable[RunCell]) -> list[RunCell]:
    """Return those cells of a study whose values are chosen, each at its variant's own best."""
    found = []
    for cell in untuned:
        if choice := tuning.choice(cell.config.family, cell.places, cell.variant):
            found.append(with_values(cell, choice.point, COMPARED_ON))
    return found


def shared_cells(tuning: Tuning, untuned: Iterable[RunCell]) -> list[RunCell]:
    """Return the cells at the baseline's best, without those whose own best it is: they are one run."""
    found = []
    for cell in untuned if tuning.plan.shared else ():
        own = tuning.choice(cell.config.family, cell.places, cell.variant)
        shared = tuning.shared(cell.config.family, cell.places)
        if own and shared and own.point != shared.point:
            found.append(replace(with_values(cell, shared.point, COMPARED_ON), stage=SHARED))
    return found


def shares_its_best(tuning: Tuning, cell: RunCell) -> bool:
    """Whether a run at its variant's own best is the one at the shared best too."""
    place = (cell.config.family, cell.places)
    own, shared = tuning.choice(*place, cell.variant), tuning.shared(*place)
    return bool(cell.stage == MAIN and tuning.plan.shared and own and shared and own.point == shared.point)


def with_values(cell: RunCell, point: Point, part: Part) -> RunCell:
    """Return a cell with some values in its configuration.

    Args:
        cell: The cell.
        point: Dotted names of fields to values.
        part: Of the held-out documents.

    Raises:
        UsageError: If they do not fit the rest; names the field.
    """
    values: dict[str, Any] = cell.config.model_dump()
    before = cell.config.optim.max_steps
    for name, value in {**point, "data.validation_part": part}.items():
        values = deep_merge(values, put(name, value))
    if before:  # a larger batch reads as many tokens in fewer steps
        longer = cell.config.train.batch_size / values["train"]["batch_size"]
        values["optim"]["max_steps"] = max(1, round(before * longer))
    config = check(RunConfig, values, source=f"tune, for {cell.variant}")
    check_fit(config, "tune: ")
    return replace(cell, config=config, run_dir=run_dir(config))


def compared_data(config: RunConfig) -> RunConfig:
    """Return what a tuning run has, but the held-out text of the runs that are compared."""
    data = config.data.model_copy(update={"validation_part": COMPARED_ON})
    return config.model_copy(update={"data": data})


def check_values(cells: Sequence[RunCell], tune: TuneConfig) -> None:
    """Refuse a grid of which a value, or one that it may grow by, fits no run.

    Args:
        cells: One for each variant in each setting.
        tune: What the study says of its tuning.

    Raises:
        UsageError: Naming the field and the value.
    """
    grid = widest(tune.fields, tune.widen)
    values = [(name, value) for name, some in grid.items() for value in some]
    for cell, (name, value) in itertools.product(cells, values):
        try:
            with_values(cell, {name: value}, CHOSEN_ON)
        except UsageError as error:
            why = "" if value in tune.fields[name] else f" widen {tune.widen} may try {write_value(value)}:"
            raise UsageError(f"tune: {name}:{why} {error}") from None


def _at_point(cell: RunCell, wanted: Wanted) -> RunCell:
    """A tuning run; only its held-out loss is wanted."""
    found = with_values(cell, wanted.point, CHOSEN_ON)
    places = (*cell.places, *((name, write_value(value)) for name, value in wanted.point.items()))
    nothing = cell.evaluation.model_copy(update={"suites": (), "tasks": (), "classify": (), "score_on": ()})
    return replace(found, stage=TUNE, evaluation=nothing, places=places)


def _template(wanted: Wanted, untuned: Sequence[RunCell]) -> RunCell:
    """The first cell of a variant in a setting."""
    asked = (wanted.family, wanted.places, wanted.variant)
    return next(cell for cell in untuned if (cell.config.family, cell.places, cell.variant) == asked)
