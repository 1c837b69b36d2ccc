"""Making the plan of a study: its cells, put together to lines of runs that cost the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from base.errors import UsageError
from base.families import PRETRAINED
from eval.results.stages import MAIN, SHARED, TUNE
from pretrain.config import RunConfig
from pretrain.run.folders import RunFolder
from slurm.plan.evaluation import EvaluationCost, evaluation_cost
from slurm.plan.lines import Hours, Machines, PlanLine, PlanStage, StudyPlan, Work
from slurm.plan.shapes import is_guess, num_parameters, num_tokens, shape_of, training_flops
from slurm.plan.speeds import FinishedRuns, Speed, SpeedSource
from slurm.study.cells import Cell, RunCell, trained_cells
from slurm.study.study import Study
from slurm.study.tuning.cells import growth_to_come, rungs_to_come

NAMES = {TUNE: "tuning", MAIN: "main", SHARED: "shared rate"}
"""What a plan calls the stages of cells."""

GUESS = "tokens by the letters of the text, 4 each"


@dataclass
class Costs:
    """What lines are made of: where speeds are known from.

    Args:
        finished: Runs that are trained already; None where only ``sources`` count.
        sources: Others that know speeds, the first one that does is believed.
    """

    finished: FinishedRuns | None
    sources: Sequence[SpeedSource]
    notes: list[str] = field(default_factory=list)

    def speed(self, config: RunConfig) -> Speed | None:
        """Return how fast a run trains."""
        known = (source.speed(config) for source in (*self.sources, *filter(None, [self.finished])))
        return next(filter(None, known), None)

    def evaluation(self, cell: Cell, cost: EvaluationCost | None) -> Hours | None:
        """Return how long a cell's evaluation takes: measured, else by its operations."""
        if not isinstance(cell, RunCell):
            return None
        if self.finished and (measured := self.finished.evaluation(cell.config)):
            return measured
        speed = self.speed(cell.config)
        return cost.hours(cell, speed) if cost and speed else None

    def cost(self, cell: Cell) -> EvaluationCost | None:
        """Return what a cell's evaluation computes; None, with a note, where its data cannot be read."""
        try:
            return evaluation_cost(cell)
        except UsageError as error:
            if (note := f"evaluation is not counted: {error}") not in self.notes:
                self.notes.append(note)
            return None


def plan_study(
    study: Study,
    todo: Sequence[Cell],
    machines: Machines,
    sources: Sequence[SpeedSource] = (),
    ask_finished: bool = True,
) -> StudyPlan:
    """Plan what a command is to run, and what may follow.

    Args:
        study: The study.
        todo: Its cells that are to be run now.
        machines: What they are run on.
        sources: What knows speeds; the first one that does is believed, before finished runs.
        ask_finished: Whether finished runs below the folder of runs are asked.
    """
    planned = stages_of(study, todo)
    configs = [cell.config for stage in planned for cell in trained_cells(stage.cells)]
    finished = None
    if ask_finished and configs:
        finished = FinishedRuns(study.folder.parent, study.config.evaluation, configs)
    costs = Costs(finished, sources)
    stages = tuple(PlanStage(one.name, tuple(_lines(one.cells, costs)), one.is_certain) for one in planned)
    return StudyPlan(stages, machines, tuple(costs.notes))


@dataclass(frozen=True)
class StageCells:
    """Cells that are run together."""

    name: str
    cells: tuple[Cell, ...]
    is_certain: bool = True


def stages_of(study: Study, todo: Sequence[Cell]) -> list[StageCells]:
    """Return what is run now and what may follow, in that order; nothing that is empty."""
    now = [
        StageCells(name, tuple(cell for cell in todo if cell.stage == stage)) for stage, name in NAMES.items()
    ]
    untuned = trained_cells(study.planned)
    rungs = tuple(rungs_to_come(study.tuning, untuned)) if study.tuning else ()
    growth = tuple(growth_to_come(study.tuning, untuned)) if study.tuning else ()
    rest = StageCells("tuning, later rungs", rungs)
    grown = StageCells("tuning, where the grid grows", growth, is_certain=False)
    chosen = StageCells("main, at each one's own best", study.after_tuning)
    shared = StageCells("shared rate", study.shared_after_tuning, is_certain=False)
    most = StageCells("more seeds, if undecided", (*study.later, *_undecided(study)), is_certain=False)
    return [stage for stage in (*now, rest, grown, chosen, shared, most) if stage.cells]


def _undecided(study: Study) -> tuple[Cell, ...]:
    """Cells that looks may add to those that are due as soon as the tuning has chosen."""
    if study.decisions is None or not study.after_tuning:
        return ()
    first = {(cell.variant, cell.seed) for cell in study.after_tuning}
    variants = {variant for variant, _ in first}
    return tuple(
        cell for cell in study.planned if cell.variant in variants and (cell.variant, cell.seed) not in first
    )


def _lines(cells: Sequence[Cell], costs: Costs) -> Iterator[PlanLine]:
    """Yield lines of training, then of evaluation."""
    untrained = [cell for cell in trained_cells(cells) if not RunFolder(cell.run_dir).is_complete]
    for group in _groups(untrained, lambda cell: num_tokens(cell.config)):
        cell = group[0]
        assert isinstance(cell, RunCell)
        tokens, speed = num_tokens(cell.config), costs.speed(cell.config)
        flops = tokens * training_flops(cell.config) if tokens else None
        hours = speed.hours(tokens) if tokens and speed else None
        note = GUESS if is_guess(cell.config) else ""
        yield _line("training", group, tokens, flops, hours, note, num_parameters(cell.config))
    for group in _groups(cells):
        cost = costs.cost(group[0])
        if cost is None or cost.tokens or cost.uncounted:
            hours = costs.evaluation(group[0], cost)
            flops, note = (cost.flops, cost.note) if cost else (None, "")
            yield _line("evaluation", group, cost.tokens if cost else None, flops, hours, note)


def _line(
    work: Work,
    group: Sequence[Cell],
    tokens: int | None,
    flops: float | None,
    hours: Hours | None,
    note: str,
    parameters: int | None = None,
) -> PlanLine:
    first = group[0]
    family = first.config.family if isinstance(first, RunCell) else PRETRAINED
    common = tuple(place for place in first.places if all(place in cell.places for cell in group))
    return PlanLine(work, family, first.variant, common, len(group), tokens, flops, hours, note, parameters)


def _groups(
    cells: Iterable[Cell], besides: Callable[[RunCell], Hashable] = lambda cell: None
) -> list[list[Cell]]:
    """Put together what costs the same: runs of one variant and one model, and of the same in ``besides``."""
    groups: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        size = None
        if isinstance(cell, RunCell):
            data = cell.config.data  # the vocabulary is in no shape
            size = (shape_of(cell.config), data.vocab_size, data.tokenizer, besides(cell))
        groups.setdefault((cell.variant, size), []).append(cell)
    return list(groups.values())
