"""What a study says of its tuning: ``tune: {optim.learning_rate: [3e-4, 1e-3, 3e-3], seeds: [101, 102]}``."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from base.config_input import deep_merge, parse_seeds
from base.errors import UsageError, shown, unknown_name
from base.sections import Section, check
from pretrain.config import OptimConfig, ResolvedConfig, RunConfig, SplineConfig
from pretrain.resolution import check_fit, resolve
from pretrain.run.run_folder import run_dir
from scores.stages import MAIN, SHARED, TUNE
from scores.tuning_grid import Point, Value, is_number, widest
from scores.tuning_trials import Trial, Tuning, TuningPlan
from slurm.study.cells import RunCell, at_seed
from slurm.study.ffn_levels import put, read_value, write_value

MOST_POINTS = 1000
WIDEN = 2
"""How often a grid of numbers may grow where the study does not say."""
BUDGET_FIELDS = ("optim.max_steps", "optim.num_train_epochs")
TUNABLE_SECTIONS = {"optim": OptimConfig.model_fields, "splines": SplineConfig.model_fields}
TUNABLE = (
    "train.batch_size",
    "model.hidden_dropout",
    "model.attention_dropout",
    "model.initializer_range",
    "model.ffn_initializer_factor",
)
"""Besides those of whole sections: they change neither what is compared nor the text that it is judged on."""


def _seeds(value: object) -> tuple[int, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    return parse_seeds(values, "", "[101, 102, 103] or 101-103")


class TuneConfig(Section):
    """Which fields every variant gets its own best value of, and how that is found."""

    fields: Annotated[dict[str, tuple[Value, ...]], Field(min_length=1)]
    """Dotted names of fields of the configuration to the values that are tried, numbers in rising order."""
    seeds: Annotated[tuple[int, ...], BeforeValidator(_seeds)]
    """Of the tuning runs; none of the study's own."""
    select: Literal["held-out-loss"] = "held-out-loss"
    """What the best value has the lowest of, on average over seeds."""
    budget: Literal["equal"] = "equal"
    """Every variant has as many tuning runs."""
    widen: Annotated[int, Field(ge=0, le=5)] = WIDEN
    """How often all variants of a setting get one value more on a side at which one of them is best."""
    shared: bool = True
    """Whether every variant is trained at the baseline's best too, as in a study with one rate for all."""

    @model_validator(mode="after")
    def _has_a_choice(self) -> TuneConfig:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds are named twice: {', '.join(map(str, self.seeds))}; name each once")
        num_points = math.prod(map(len, self.fields.values()))  # whose list may not fit memory
        if num_points > MOST_POINTS:
            raise ValueError(f"the fields make {num_points:,} points; {MOST_POINTS:,} are allowed")
        if self.widen and not any(is_number(values[0]) for values in self.fields.values()):
            raise ValueError(
                f"widen is {self.widen}, and {', '.join(self.fields)} has no numbers to go on with; write "
                "widen: 0"
            )
        return self


def read_tune(value: object) -> TuneConfig | None:
    """Read what stands under ``tune``.

    Raises:
        UsageError: If it is no mapping, or holds what cannot be tuned or not equally for all variants.
    """
    if value is None or isinstance(value, TuneConfig):
        return value
    if not isinstance(value, dict):
        raise UsageError(f"{shown(value)} must be a mapping, as {{optim.learning_rate: [1e-3, 3e-3], ...}}")
    own = TuneConfig.model_fields
    for name in (
        str(each) for each in value if "." not in str(each) and (each == "fields" or each not in own)
    ):
        if whole := [f"{section}.{name}" for section, some in TUNABLE_SECTIONS.items() if name in some]:
            raise UsageError(f"unknown key {shown(name)}, did you mean {whole[0]}?")
        raise unknown_name("key", name, [each for each in own if each != "fields"])
    fields = {str(name): _values(str(name), values) for name, values in value.items() if "." in str(name)}
    others = {name: values for name, values in value.items() if "." not in str(name)}
    if "seeds" not in others:
        raise UsageError("name seeds of its runs, which the study has not, as seeds: [101, 102, 103]")
    if fields and not any(is_number(values[0]) for values in fields.values()):
        others.setdefault("widen", 0)
    return check(TuneConfig, {**others, "fields": fields})


def _values(name: str, values: object) -> tuple[Value, ...]:
    """Read the values of one field in the field's type, and bring numbers into their order."""
    _check_tunable(name)
    if not isinstance(values, list | tuple):
        raise UsageError(f"{name} {shown(values)} must be one list for all variants, as [3e-4, 1e-3, 3e-3]")
    typed = [read_value(name, value) for value in values]
    if len(typed) < 2 or len(set(map(str, typed))) != len(typed):
        raise UsageError(f"{name} {shown(values)} must be two or more different values")
    return tuple(sorted(typed) if is_number(typed[0]) else typed)


def _check_tunable(name: str) -> None:
    """Refuse what is no field, or would change the budget, what is compared, or what it is judged on."""
    tunable = [f"{section}.{field}" for section, fields in TUNABLE_SECTIONS.items() for field in fields]
    if name in BUDGET_FIELDS:
        raise UsageError(f"{name} decides how long a run is, so budgets cannot be equal; write tokens: [...]")
    if name not in (*tunable, *TUNABLE):
        close = difflib.get_close_matches(name, tunable, n=1)
        hint = f"did you mean {close[0]}?" if close else f"or {', '.join(TUNABLE)}"
        raise UsageError(
            f"{name} is no field, or changes what is compared or the text that it is judged on; tune a field "
            f"of optim or splines, {hint}"
        )


def describe_tuning(tune: TuneConfig) -> str:
    """Say in one line what is tried, and how the best is found."""
    fields = "; ".join(f"{name} {', '.join(map(write_value, some))}" for name, some in tune.fields.items())
    often = "once" if tune.widen == 1 else f"up to {tune.widen} times"
    grows = f", grown {often} where a best is at its edge" if tune.widen else ""
    shared = "; each at its own best and at the baseline's" if tune.shared else ""
    return f"{fields} at seeds {', '.join(map(str, tune.seeds))}; grid{grows}{shared}"


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
        by_curve=True,
        widen=tune.widen,
        shared=tune.shared,
        baseline=baseline,
        variants=tuple(dict.fromkeys(cell.variant for cell in untuned)),
        settings=tuple(dict.fromkeys((cell.config.family, cell.places) for cell in untuned)),
    )
    first = tuning_cells(Tuning(plan=plan), untuned)
    return replace(plan, cells=tuple(cell.run_id for cell in first))


def tuning_cells(tuning: Tuning, untuned: Sequence[RunCell]) -> list[RunCell]:
    """Return the tuning runs of rounds that have ended and of those that are at work, seeds slowest."""
    of_first = [_at_point(_template(one, untuned), one) for one in tuning.trials()]
    return [at_seed(cell, seed) for seed in tuning.plan.seeds for cell in of_first]


def cells_of(trial: Trial, seeds: Sequence[int], untuned: Sequence[RunCell]) -> list[RunCell]:
    """Return the tuning runs of a variant at one point, by seed."""
    cell = _at_point(_template(trial, untuned), trial)
    return [at_seed(cell, seed) for seed in seeds]


def main_cells(tuning: Tuning, untuned: Iterable[RunCell]) -> list[RunCell]:
    """Return those cells of a study whose values are chosen, each at its variant's own best."""
    choices = [(cell, tuning.choice(cell.config.family, cell.places, cell.variant)) for cell in untuned]
    return [with_values(cell, choice.point, COMPARED_ON) for cell, choice in choices if choice]


def shared_cells(tuning: Tuning, untuned: Iterable[RunCell]) -> list[RunCell]:
    """Return the cells at the baseline's best, without those whose own best it is: they are one run."""
    cells = []
    for cell in untuned if tuning.plan.shared else ():
        choice = tuning.choice(cell.config.family, cell.places, cell.variant)
        shared = tuning.shared(cell.config.family, cell.places)
        if choice and shared and choice.point != shared.point:
            cells.append(replace(with_values(cell, shared.point, COMPARED_ON), stage=SHARED))
    return cells


def shares_its_best(tuning: Tuning, cell: RunCell) -> bool:
    """Whether a variant's best values are also the baseline's best, so that one run is both."""
    place = (cell.config.family, cell.places)
    choice, shared = tuning.choice(*place, cell.variant), tuning.shared(*place)
    is_same = choice and shared and choice.point == shared.point
    return bool(cell.stage == MAIN and tuning.plan.shared and is_same)


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
    # A larger batch reads as many tokens in fewer steps: 1,000 steps of 16 rows are 500 of 32.
    if before:
        longer = cell.config.train.batch_size / values["train"]["batch_size"]
        values["optim"]["max_steps"] = max(1, round(before * longer))
    written = check(RunConfig, values, source=f"tune, for {cell.variant}")
    check_fit(written, "tune: ")
    config = resolve(written)
    return replace(cell, config=config, run_dir=run_dir(config))


def compared_data(config: ResolvedConfig) -> ResolvedConfig:
    """Return a tuning run's config with the held-out text of the runs that are compared."""
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


def _at_point(cell: RunCell, trial: Trial) -> RunCell:
    """Make the tuning run of a cell at one point; it is not scored, as its held-out loss decides."""
    tuning_run = with_values(cell, trial.point, CHOSEN_ON)
    places = (*cell.places, *((name, write_value(value)) for name, value in trial.point.items()))
    none = cell.evaluation.model_copy(update={"suites": (), "tasks": (), "classify": (), "pair_tasks": None})
    return replace(tuning_run, stage=TUNE, evaluation=none, places=places)


def _template(trial: Trial, untuned: Sequence[RunCell]) -> RunCell:
    """The first cell of a variant in a setting."""
    group = (trial.family, trial.places, trial.variant)
    return next(cell for cell in untuned if (cell.config.family, cell.places, cell.variant) == group)
