"""What a study says of its tuning: ``tune: {optim.learning_rate: [3e-4, 1e-3, 3e-3], seeds: [101, 102]}``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from base.config_input import deep_merge, parse_seeds
from base.errors import UsageError, shown, unknown_name
from base.mistakes import check
from base.sections import Section
from pretrain.config import RunConfig
from pretrain.resolution import check_fit
from pretrain.run.run_dir import run_dir
from scores.stages import MAIN, SHARED, TUNE
from scores.tuning import Tuning, TuningPlan, Wanted
from scores.tuning_rules import Point, Value, is_number, points, widest
from slurm.study.axes import put, settings, write_value
from slurm.study.cells import RunCell, at_seed

MOST_POINTS = 1000
WIDEN = 2
"""How often a grid of numbers may grow where the study does not say."""
BUDGET_FIELDS = ("optim.max_steps", "optim.num_train_epochs")
TUNABLE_SECTIONS = ("optim", "splines")
TUNABLE = ("train.batch_size", "model.hidden_dropout", "model.attention_dropout", "model.initializer_range")
"""Besides those of whole sections: they change neither what is compared nor the text that it is judged on."""


def _seeds(value: object) -> tuple[int, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    return parse_seeds(values, "", "[101, 102, 103] or 101-103")


class TuneConfig(Section):
    """Which fields every variant gets its own best value of, and how that is found."""

    fields: dict[str, tuple[Value, ...]]
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
        if not self.fields:
            raise ValueError("no field is named; write optim.learning_rate: [3e-4, 1e-3, 3e-3]")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds are named twice: {', '.join(map(str, self.seeds))}; name each once")
        found = math.prod(len(values) for values in self.fields.values())  # whose list may not fit memory
        if found > MOST_POINTS:
            raise ValueError(f"the fields make {found:,} points; {MOST_POINTS:,} are allowed")
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
        raise UsageError(
            f"{shown(value)} must be a mapping, such as {{optim.learning_rate: [1e-3, 3e-3], ...}}"
        )
    if "fields" in value:
        raise unknown_name("key", "fields", [name for name in TuneConfig.model_fields if name != "fields"])
    dotted = {name: values for name, values in value.items() if "." in str(name)}
    rest = {name: values for name, values in value.items() if name not in dotted}
    fields = {str(name): _values(str(name), values) for name, values in dotted.items()}
    has_numbers = any(is_number(values[0]) for values in fields.values())
    if fields and not has_numbers:
        rest.setdefault("widen", 0)
    return check(TuneConfig, {**rest, "fields": fields})


def _values(name: str, given: object) -> tuple[Value, ...]:
    """Check the values of one field, and bring numbers into their order."""
    _check_tunable(name)
    if isinstance(given, dict):
        raise UsageError(
            f"{name} has values for {', '.join(map(str, given))} apart, so the budget cannot be equal; give "
            "one list for all variants"
        )
    if not isinstance(given, list | tuple) or not all(isinstance(v, bool | int | float | str) for v in given):
        raise UsageError(f"{name} {shown(given)} must be a list of values, such as [3e-4, 1e-3, 3e-3]")
    values = [_number(value) for value in given]
    if len(values) < 2:
        raise UsageError(f"{name} has {len(values)} value, so there is nothing to choose; give two or more")
    if len(set(map(str, values))) != len(values) or len(set(values)) != len(values):
        raise UsageError(f"{name} {shown(given)} names a value twice; name each once")
    kinds = {is_number(value) for value in values}
    if kinds == {True, False}:
        raise UsageError(f"{name} {shown(given)} mixes numbers and words; name values of one kind")
    return tuple(sorted(values)) if kinds == {True} else tuple(values)  # type: ignore[type-var]


def _number(value: Value) -> Value:
    """A number that YAML takes for a word, as 3e-4 without a point."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _check_tunable(name: str) -> None:
    """Refuse what is no field, or would change the budget, what is compared, or what it is judged on."""
    section, _, field = name.partition(".")
    if field not in _fields(section):
        known = [f"{each}.{one}" for each in TUNABLE_SECTIONS for one in _fields(each)]
        raise unknown_name("field", name, [*known, *TUNABLE])
    if name in BUDGET_FIELDS:
        raise UsageError(
            f"{name} decides how long a run is, so the budget cannot be equal; write tokens: [...]"
        )
    if section not in TUNABLE_SECTIONS and name not in TUNABLE:
        raise UsageError(
            f"{name} changes what is compared or the text that it is judged on; tune a field of optim or "
            f"splines, or {', '.join(TUNABLE)}"
        )


def _fields(section: str) -> Collection[str]:
    """Names of a section's fields."""
    found = RunConfig.model_fields.get(section)
    return getattr(found.annotation, "model_fields", {}) if found else {}


def check_tune(
    tune: TuneConfig, seeds: Sequence[int], tokens_are_named: bool, elsewhere: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse a tuning that the rest of its study contradicts.

    Args:
        tune: What is tuned.
        seeds: The study's own.
        tokens_are_named: Whether the study says how many tokens a run has.
        elsewhere: By the name of a part of the study, nested values that it sets.

    Raises:
        ValueError: Naming both places.
    """
    if both := sorted(set(tune.seeds) & set(seeds)):
        raise ValueError(
            f"tune.seeds {', '.join(map(str, both))} are seeds of the study too, and would choose on runs "
            "that are compared; name others, such as [101, 102, 103]"
        )
    for place, values in elsewhere.items():
        said = dict(settings(values))
        for name in (*tune.fields, "data.validation_part"):
            if name in said:
                why = (
                    "tune tries it"
                    if name in tune.fields
                    else "tuning runs have the even part, others the odd"
                )
                raise ValueError(f"{place} sets {said[name]}, and {why}; name it in one place")
        if "output.run_name" in said:
            raise ValueError(f"{place} sets output.run_name, which would give all tuning runs one folder")
    if "train.batch_size" in tune.fields and not tokens_are_named:
        raise ValueError(
            "tune.train.batch_size gives runs of as many steps other numbers of tokens, so the budget cannot "
            "be equal; name tokens: [...], and each has as many"
        )


def describe_tuning(tune: TuneConfig) -> str:
    """Say in one line what is tried, and how the best is found."""
    fields = "; ".join(f"{name} {', '.join(map(write_value, some))}" for name, some in tune.fields.items())
    often = "once" if tune.widen == 1 else f"up to {tune.widen} times"
    grows = f", grown {often} where a best is at its edge" if tune.widen else ""
    return f"{fields} at seeds {', '.join(map(str, tune.seeds))}; grid{grows}"


def runs_of_an_arm(tune: TuneConfig) -> tuple[int, int]:
    """Count the tuning runs of a variant in a setting at one seed: the fewest, and the most that may be."""
    return len(points(tune.fields)), len(points(widest(tune.fields, tune.widen)))


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
