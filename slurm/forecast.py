"""What a study is to run and what its training costs: runs, parameters, FLOPs, and hours where runs tell.

Hours are those of finished runs of the same shape below the folder of runs: the same family, variant and
sizes, and as many tokens a step. Nothing is guessed for other shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import AbsentError, UsageError
from base.families import PRETRAINED
from base.files import mapping
from base.progress import duration
from base.records import peek_record
from base.run.folders import RunFolder, StudyFolder
from base.wording import format_table
from pretrain.config import RunConfig
from pretrain.data import corpus
from pretrain.data.prepare import read_text
from pretrain.model.build import build
from pretrain.model.costs import cost_facts
from pretrain.resolution import resolve
from pretrain.run.run_dir import read_run
from pretrain.training.dry_run import hub_budget, vocab_size
from scores.stages import MAIN, SHARED, TUNE
from slurm.study.cells import Cell, RunCell, trained_cells
from slurm.study.study import Study
from slurm.study.tuning.cells import growth_to_come

CHARACTERS_PER_TOKEN = 4
"""Of English in a vocabulary of about 10,000; only estimates of time use it."""
TRAINING_OVER_FORWARD = 3
"""A forward and a backward pass: twice the forward's operations go back."""
STAGES = {TUNE: "tuning", MAIN: "main", SHARED: "shared rate"}
"""What a forecast calls the stages of cells."""

Shape = tuple[str, str, int]


@dataclass(frozen=True)
class Speed:
    """How fast finished runs of one shape trained, in tokens a second, on the device that most ran on."""

    tokens_per_s: float
    device: str
    num_runs: int


@dataclass(frozen=True)
class ForecastLine:
    """Runs that cost the same.

    Attributes:
        place: Their levels on the axes of the study that they share, as ``0.5M, 4M``.
        parameters: Of the model, all of them; None where nothing is trained.
        tokens: That a run trains on; None where they are not known.
        flops: Floating-point operations of a run's training; None where they are not known.
        speed: None where no finished run has the shape.
    """

    family: str
    variant: str
    place: str
    runs: int
    parameters: int | None = None
    tokens: int | None = None
    flops: float | None = None
    speed: Speed | None = None

    @property
    def hours(self) -> float | None:
        """Of the training of one run."""
        return self.tokens / self.speed.tokens_per_s / 3600 if self.tokens and self.speed else None


@dataclass(frozen=True)
class ForecastStage:
    """What is run together.

    Attributes:
        is_certain: Whether it is run in any case; otherwise it is the most that may be added.
    """

    name: str
    lines: tuple[ForecastLine, ...]
    is_certain: bool = True


def forecast(study: Study, todo: Sequence[Cell]) -> tuple[ForecastStage, ...]:
    """Return what a command is to run and what may follow, in the order in which it is run.

    Args:
        study: The study.
        todo: Its cells that are to be run now.
    """
    stages = [(name, cells, is_certain) for name, cells, is_certain in stages_of(study, todo) if cells]
    configs = [cell.config for _, cells, _ in stages for cell in trained_cells(cells)]
    speeds = finished_speeds(study.folder.parent, configs)
    return tuple(
        ForecastStage(name, tuple(_line(group, speeds) for group in _groups(cells)), is_certain)
        for name, cells, is_certain in stages
    )


def stages_of(study: Study, todo: Sequence[Cell]) -> list[tuple[str, Sequence[Cell], bool]]:
    """Return the name and the cells of every stage, and whether it is run in any case."""
    now = [(name, [cell for cell in todo if cell.stage == stage], True) for stage, name in STAGES.items()]
    growth = growth_to_come(study.tuning, trained_cells(study.planned)) if study.tuning else []
    return [
        *now,
        ("tuning, where the grid grows", growth, False),
        ("main, at each one's own best", study.after_tuning, True),
        ("shared rate", study.shared_after_tuning, False),
        ("more seeds, if undecided", (*study.later, *_undecided(study)), False),
    ]


def _undecided(study: Study) -> list[Cell]:
    """Cells that looks may add to those that are due as soon as the tuning has chosen."""
    if study.decisions is None or not study.after_tuning:
        return []
    first = {(cell.variant, cell.seed) for cell in study.after_tuning}
    variants = {variant for variant, _ in first}
    return [
        cell for cell in study.planned if cell.variant in variants and (cell.variant, cell.seed) not in first
    ]


def _groups(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Put together runs of one variant and one model on as many tokens; what is trained is a group too."""
    groups: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        size: Hashable = None
        if isinstance(cell, RunCell) and not RunFolder(cell.run_dir).is_complete:
            data = cell.config.data  # the vocabulary is in no shape
            size = (shape_of(cell.config), data.vocab_size, data.tokenizer, num_tokens(cell.config))
        groups.setdefault((cell.variant, size), []).append(cell)
    return list(groups.values())


def _line(group: Sequence[Cell], speeds: dict[Shape, Speed]) -> ForecastLine:
    cell = group[0]
    family = cell.config.family if isinstance(cell, RunCell) else PRETRAINED
    place = ", ".join(level for axis, level in cell.places if all((axis, level) in x.places for x in group))
    if not isinstance(cell, RunCell) or RunFolder(cell.run_dir).is_complete:
        return ForecastLine(family, cell.variant, place, len(group))
    tokens, (parameters, flops_per_token) = num_tokens(cell.config), model_costs(cell.config)
    flops = tokens * TRAINING_OVER_FORWARD * flops_per_token if tokens else None
    speed = speeds.get(shape_of(cell.config))
    return ForecastLine(family, cell.variant, place, len(group), parameters, tokens, flops, speed)


def shape_of(config: RunConfig) -> Shape:
    """Return what runs of the same speed have in common: family, variant and sizes, tokens of a step."""
    resolved = resolve(config)
    return (
        config.family,
        resolved.model.model_dump_json(),
        resolved.data.block_size * config.train.batch_size,
    )


_COSTS: dict[tuple[Shape, int], tuple[int, int]] = {}


def model_costs(config: RunConfig) -> tuple[int, int]:
    """Return a model's parameters, and the FLOPs of its forward pass for one token in a row of training.

    The vocabulary is taken to be as large as was asked for, also where a small text yields fewer.
    """
    size, _ = vocab_size(config, None)
    key = (shape_of(config), size)
    if key not in _COSTS:
        network: Any = build(config, size)
        facts = cost_facts(config, network)
        _COSTS[key] = facts["parameters"]["total"], facts["flops_per_token"]["total"]
    return _COSTS[key]


_LETTERS: dict[str, int] = {}


def num_tokens(config: RunConfig) -> int | None:
    """Return about how many tokens a run trains on; None for text that is not here, or a part of the hub's.

    They are those of full rows where the number of steps is given, else the letters of the text by 4.
    """
    if corpus.is_whole_hub(config.data):
        return hub_budget(config)
    if steps := config.optim.max_steps:
        return steps * config.train.batch_size * config.data.block_size
    with suppress(AbsentError):
        if config.data.source == "embedded" or corpus.files(config.data)["train"]:
            return round(config.optim.num_train_epochs * _letters(config) / CHARACTERS_PER_TOKEN)
    return None


def _letters(config: RunConfig) -> int:
    key = config.data.model_dump_json()
    if key not in _LETTERS:
        _LETTERS[key] = read_text(config).characters
    return _LETTERS[key]


def finished_speeds(runs_dir: Path, configs: Iterable[RunConfig]) -> dict[Shape, Speed]:
    """Return by shape how fast finished runs trained, in every study below the folder of runs.

    Args:
        runs_dir: The folder.
        configs: Runs to be planned; only runs of their families and variants are read.
    """
    measured: dict[Shape, list[tuple[str, float]]] = {}
    names = sorted({(config.family, config.model.ffn) for config in configs})
    for study in sorted(runs_dir.glob("*/")):
        for family, variant in names:
            for run in StudyFolder(study).run_folders(family, variant):
                record = peek_record(run.provenance_file) if run.is_complete else {}
                speed = mapping(record.get("results")).get("mean_tokens_per_s")
                if isinstance(speed, int | float) and speed > 0:
                    with suppress(UsageError):  # of another version, or a variant that is not known here
                        device = str(record.get("device", "a device"))
                        measured.setdefault(shape_of(read_run(run.path)), []).append((device, speed))
    return {shape: _mean_speed(pairs) for shape, pairs in measured.items()}


def _mean_speed(measured: Sequence[tuple[str, float]]) -> Speed:
    device, num_runs = Counter(device for device, _ in measured).most_common(1)[0]
    total = sum(speed for where, speed in measured if where == device)
    return Speed(total / num_runs, device, num_runs)


def render(stages: Sequence[ForecastStage]) -> str:
    """Write the forecast: a table of the stages that are run in any case, and the totals of all."""
    if not stages:
        return "nothing to run"
    of_a_run = ("parameters", "tokens a run", "PFLOP a run", "training of a run")
    rows = [("stage", "family", "variant", "at", "runs", *of_a_run)]
    rows += [(stage.name, *_cells_of(line)) for stage in stages if stage.is_certain for line in stage.lines]
    totals = [("total", "runs", "PFLOP", "run hours")]
    totals += [
        (stage.name if stage.is_certain else f"+ at most: {stage.name}", *_totals([stage]))
        for stage in stages
    ]
    certain = [stage for stage in stages if stage.is_certain]
    totals += [("in all", *_totals(certain))]
    if certain != list(stages):
        totals += [("at most", *_totals(stages))]
    tables = [_indented(rows)] * bool(certain) + [_indented(totals)]
    if any(line.parameters for line in _lines(stages)):
        hours = "hours are of training, one run after the other; what evaluation takes comes on top"
    else:
        hours = "no training is left to do; the hours of evaluation are not forecast"
    notes = [f"  {hours}"]
    if unknown := sum(line.runs for line in _lines(certain) if line.parameters and line.hours is None):
        notes.append(
            f"  hours of {unknown} runs are not known: no finished run below the runs folder has their sizes"
        )
    return "\n\n".join(["\nforecast, of what is not done yet:", *tables, "\n".join(notes)])


def _cells_of(line: ForecastLine) -> tuple[str, ...]:
    parameters, tokens = ("-" if count is None else f"{count:,}" for count in (line.parameters, line.tokens))
    time = "not known"
    if line.parameters is None:
        time = "none: only scored"
    elif line.speed and line.hours is not None:
        runs = f"{line.speed.num_runs} run{'s' * (line.speed.num_runs > 1)}"
        time = f"{duration(3600 * line.hours)} ({line.speed.device}; by {runs})"
    flops = "-" if line.flops is None else petaflops(line.flops)
    return (line.family, line.variant, line.place or "-", f"{line.runs:,}", parameters, tokens, flops, time)


def _lines(stages: Iterable[ForecastStage]) -> list[ForecastLine]:
    return [line for stage in stages for line in stage.lines]


def _totals(stages: Sequence[ForecastStage]) -> tuple[str, str, str]:
    """Runs, petaFLOPs and hours; ``2.5+`` of hours where those of some runs are not known."""
    lines = _lines(stages)
    flops = sum(line.runs * line.flops for line in lines if line.flops)
    hours = [line.runs * line.hours for line in lines if line.hours is not None]
    at_least = "+" if any(line.parameters and line.hours is None for line in lines) else ""
    return (
        f"{sum(line.runs for line in lines):,}",
        petaflops(flops) if flops else "-",
        f"{sum(hours):,.3g}{at_least}" if hours else "-",
    )


def petaflops(flops: float) -> str:
    """Write 10^15 floating-point operations, with three digits where they are few."""
    value = flops / 1e15
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _indented(rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join(f"  {line}" for line in format_table(rows).splitlines())
