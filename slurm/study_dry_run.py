"""What a study is to run and what its training costs: runs, parameters, FLOPs, and hours where runs tell.

Hours are those of finished runs of the same shape below the folder of runs: the same family, variant and
sizes, the same rows of a step and optimizer. Nothing is guessed for other shapes. Nothing is written.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from base.errors import AbsentError, UsageError
from base.files import mapping
from base.printing import duration, first_few, format_table
from base.records import peek_record
from base.run.folder_names import RunFolder, StudyFolder
from eval.classification.schema import benchmarks_asked_for
from eval.work_units import check_later_sources, check_sources
from pretrain.config import ResolvedConfig
from pretrain.data import corpus
from pretrain.data.corpus import check_present
from pretrain.data.prepare import find, read_text
from pretrain.data.text_summary import doubts_of_names
from pretrain.run.run_folder import is_finished, read_run
from pretrain.training.dry_run import check_all_usable, check_folder, hub_budget, planned_costs, vocab_size
from scores.head_descriptions import DEFAULT_HEAD
from scores.stages import MAIN, SHARED, TUNE
from slurm.arguments import SubmitArgs
from slurm.cell_state import count_states, read_state
from slurm.cluster import preset_of, read_queue
from slurm.study.cells import Cell, RunCell, backbone_cells, own_variants, trained_cells, variant_place
from slurm.study.study import Study
from slurm.study.tune_section import describe_tuning
from slurm.todo import Todo, check_archived, find_todo

if TYPE_CHECKING:
    from slurm.jobs import SlurmSubmitter

MOST_SHOWN = 20
"""Cells, and variants, that are named; of more they are counted."""
CHARACTERS_PER_TOKEN = 4
"""Of English in a vocabulary of about 10,000; only estimates of time use it."""
READ_AT_ONCE = 2**26
"""Bytes of text that take a second to read."""
TRAINING_OVER_FORWARD = 3
"""A forward and a backward pass: twice the forward's operations go back."""
STAGES = {TUNE: "tuning", MAIN: "main", SHARED: "shared rate"}
"""What a forecast calls the stages of cells."""
COLUMNS = ("stage", "family", "variant", "at", "parameters", "tokens a run", "time of a run")
SUMS = ("runs", "PFLOP", "run hours")

Shape = tuple[object, ...]


def dry_run(study: Study, options: SubmitArgs) -> int:
    """Show what ``study run`` would do.

    Args:
        study: The study, as ``launch`` read it.
        options: What was typed.

    Raises:
        UsageError: As running it does.
    """
    if study.folder.exists():
        from slurm.next_stage import check_unchanged  # all that a report needs

        check_unchanged(study)
    with suppress(AbsentError):  # which a plan names
        check_usable_study(study)
    todo = find_todo(study, options.retry_failed)
    check_archived(todo.cells)
    submitter = find_submitter(study, options) if options.cluster == "slurm" else None
    show_dry_run(study, todo, submitter, options.list_cells)
    if submitter is None and shutil.which("nvidia-smi"):
        from slurm.local import describe_gpus  # torch, which is not loaded where there is no GPU

        if gpus := describe_gpus(options.workers):
            print(f"\non this machine: {gpus}")
    return 0


def check_usable_study(study: Study) -> None:
    """Refuse what could not be trained or scored, before anything is read, prepared or written for it.

    Raises:
        UsageError: Naming it, and what to do.
    """
    untrained = [cell for cell in trained_cells(study.cells) if not RunFolder(cell.run_dir).has_marker]
    check_all_usable(cell.config for cell in untrained)
    check_folder(study.folder.parent)
    for cell in backbone_cells(study.cells):
        if not RunFolder(cell.run_dir).is_scored:
            cell.backbone.locate()
    if any(not RunFolder(cell.run_dir).is_scored for cell in study.cells):
        for note in check_later_sources(study.config.evaluation):
            print(f"note: {note}")


def find_submitter(study: Study, options: SubmitArgs, snapshot: Path | None = None) -> SlurmSubmitter:
    """What hands this study to SLURM; without a snapshot it only shows and checks."""
    from slurm.jobs import SlurmSubmitter  # torch and submitit

    code = snapshot or StudyFolder(study.folder).code_dir / "COMMIT"
    return SlurmSubmitter(study, preset_of(options), options, code)


def show_dry_run(study: Study, todo: Todo, submitter: SlurmSubmitter | None, list_cells: bool) -> None:
    """Print what is to run, what is missing and what it costs; then cells, and what jobs ask SLURM for.

    Args:
        study: The study.
        todo: Its cells.
        submitter: What would hand them to SLURM; None where they run here.
        list_cells: Whether to list cells also where they are many.
    """
    config, lines = study.config, forecast(study, todo.cells)
    texts = {corpus.describe(cell.config.data): cell.config for cell in trained_cells(study.planned)}
    notes = [f"needed before it runs: {missing}" for missing in _absent_data(study)]
    notes = notes or [*chain.from_iterable(map(_doubts, texts.values()))]
    print(f"study {config.name}: {len(study.cells)} cells, {len(todo.cells)} to run")
    for each in config.backbones:
        own = "".join(f", {word}" for word in (each.pooling, *(each.classify or ())) if word)
        print(f"  backbone  {each.model} ({each.at_seed(0).locate()}){own}")
    if config.families:
        factor = "" if config.report.factor == "ffn" else f"{config.report.factor} "
        print(f"  families  {', '.join(config.families)}")
        many = f"{len(config.models)}: " if len(config.models) > MOST_SHOWN else ""
        variants = first_few(config.models, MOST_SHOWN)
        print(f"  variants  {many}{variants} (baseline {factor}{config.report.baseline})")
    for one in own_variants(study.planned):
        print(f"  {one.name:<9} {variant_place(one.name)}")
    for axis, points in config.points.items():
        print(f"  {axis:<9} {', '.join(point.level for point in points)}")
    print(f"  seeds     {', '.join(map(str, config.seeds))}")
    if config.tune:
        print(f"  tuning    {describe_tuning(config.tune)}")
    print(f"  scored on {', '.join(benchmarks_asked_for(config.evaluation)) or 'held-out loss alone'}")
    if config.heads != (DEFAULT_HEAD,):
        print(f"  heads     {', '.join(config.heads)}")
    if texts:
        print(f"  texts     {'; '.join(texts)}")
    print(f"  cost      {in_one_line(lines)}")
    print(f"  folder    {study.folder}")
    print(end="".join(f"{note}\n" for note in notes))
    if len(todo.states) > MOST_SHOWN and not list_cells:
        print(f"  cells     {count_states(todo.states.values())}; --list-cells lists them")
    else:
        shown = {cell.run_id: cell.shown_id for cell in study.cells}
        print(*(f"  {state.name:<8}  {shown[run_id]}" for run_id, state in todo.states.items()), sep="\n")
    print(render(lines))
    if submitter is not None and todo.cells:
        print(f"\nits jobs ask SLURM for:\n{submitter.asked(len(todo.cells))}", flush=True)
        if read_queue(study.folder) is None:
            print("SLURM does not answer here, so it was not asked whether it would take them")
        else:
            print(f"SLURM would take them; the first could start {submitter.first_start(len(todo.cells))}")


def _doubts(config: ResolvedConfig) -> list[str]:
    """Say what looks wrong with the text of a run; of large files, long to read, with their names alone."""
    files = chain(*corpus.files(config.data).values())
    is_small = sum(path.stat().st_size for path in files) <= READ_AT_ONCE
    return find(config)[1] if is_small else [*doubts_of_names(config.data)]


def _absent_data(study: Study) -> list[str]:
    """Name the texts and tasks that a study needs and that are not here, and how to get them."""
    texts = {cell.config.data.model_dump_json(): cell.config.data for cell in trained_cells(study.planned)}
    whole = study.config.evaluation
    parts = [whole.model_copy(update={"suites": (suite,)}) for suite in whole.suites]
    checks = [partial(check_present, data) for data in texts.values()]
    checks += [partial(check_sources, part) for part in (*parts, whole)]
    missing: dict[str, None] = {}  # in order, each once
    for check in checks:
        try:
            check()
        except AbsentError as error:
            missing[str(error)] = None
    return list(missing)


@dataclass(frozen=True)
class Speed:
    """How fast finished runs of one shape were, on the device that most ran on.

    Attributes:
        tokens_per_s: Of their training, on average.
        device: That device.
        num_runs: How many there are.
        beside_s: What a run took beside training on average, to start, compile and be scored; None where no
            record tells.
    """

    tokens_per_s: float
    device: str
    num_runs: int
    beside_s: float | None = None


@dataclass(frozen=True)
class Cost:
    """Of the training of one run; nothing is known of a run that is only scored.

    Attributes:
        parameters: Of the model, all of them.
        tokens: That the run trains on; None where they are not known.
        flops: Floating-point operations; None where the tokens are not known.
        speed: None where no finished run has the shape.
    """

    parameters: int | None = None
    tokens: int | None = None
    flops: float | None = None
    speed: Speed | None = None

    @property
    def hours(self) -> float | None:
        """How long it takes from its start to its scores; None where no finished run tells."""
        if not self.tokens or self.speed is None or self.speed.beside_s is None:
            return None
        return (self.tokens / self.speed.tokens_per_s + self.speed.beside_s) / 3600


@dataclass(frozen=True)
class ForecastLine:
    """Runs of one stage that cost the same.

    Attributes:
        place: Their levels on the axes of the study that they share, as ``0.5M, 4M``.
        cost: Of each of them.
    """

    stage: str
    family: str
    variant: str
    place: str
    runs: int
    cost: Cost


def forecast(study: Study, todo: Sequence[Cell]) -> list[ForecastLine]:
    """Return what is run in any case, in the order in which it is run.

    Args:
        study: The study.
        todo: Its cells that are to be run now.
    """
    stages: list[tuple[str, Sequence[Cell]]] = [
        *((name, [cell for cell in todo if cell.stage == stage]) for stage, name in STAGES.items()),
        ("main, at each one's own best", study.after_tuning),
    ]
    configs = [cell.config for _, cells in stages for cell in trained_cells(cells)]
    speeds = finished_speeds(study.folder.parent, configs)
    return [line for stage, cells in stages for line in _lines(stage, cells, speeds)]


def _lines(stage: str, cells: Sequence[Cell], speeds: dict[Shape, Speed]) -> list[ForecastLine]:
    """Put together the runs of one variant that cost the same, as those at several learning rates do."""
    groups: dict[tuple[str, str, Cost], list[Cell]] = {}
    for cell in cells:
        family = cell.run_id.split("/")[0]
        groups.setdefault((family, cell.variant, cost_of(cell, speeds)), []).append(cell)
    lines = []
    for (family, variant, cost), group in groups.items():
        shared = [place for place in group[0].places if all(place in cell.places for cell in group)]
        place = ", ".join(level for _, level in shared)
        lines.append(ForecastLine(stage, family, variant, place, len(group), cost))
    return lines


def cost_of(cell: Cell, speeds: dict[Shape, Speed]) -> Cost:
    """Return what the training of a cell costs, at the speed of finished runs of its shape."""
    if not isinstance(cell, RunCell) or is_finished(cell.run_dir, tells=False):
        return Cost()
    tokens, (parameters, flops_per_token) = num_tokens(cell.config), model_costs(cell.config)
    flops = tokens * TRAINING_OVER_FORWARD * flops_per_token if tokens else None
    return Cost(parameters, tokens, flops, speeds.get(shape_of(cell.config)))


def shape_of(config: ResolvedConfig) -> Shape:
    """Return what runs of the same speed have in common: the model, the rows of a step, the optimizer."""
    train = config.train
    rows = (config.data.block_size, train.batch_size, train.mlm_probability, train.mean_noise_span_length)
    return config.family, config.model.model_dump_json(), *rows, config.optim.optimizer


_COSTS: dict[tuple[Shape, int], tuple[int, int]] = {}


def model_costs(config: ResolvedConfig) -> tuple[int, int]:
    """Return a model's parameters, and the FLOPs of its forward pass for one token in a row of training.

    The vocabulary is taken to be as large as was asked for, also where a small text yields fewer.
    """
    size, _ = vocab_size(config, None)
    key = (shape_of(config), size)
    if key not in _COSTS:
        facts = planned_costs(config, size)
        _COSTS[key] = facts["parameters"]["total"], facts["flops_per_token"]["total"]
    return _COSTS[key]


_LETTERS: dict[str, int] = {}


def num_tokens(config: ResolvedConfig) -> int | None:
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


def _letters(config: ResolvedConfig) -> int:
    key = config.data.model_dump_json()
    if key not in _LETTERS:
        _LETTERS[key] = read_text(config).characters
    return _LETTERS[key]


def finished_speeds(runs_dir: Path, configs: Iterable[ResolvedConfig]) -> dict[Shape, Speed]:
    """Return by shape how fast finished runs trained, in every study below the folder of runs.

    Args:
        runs_dir: The folder.
        configs: Runs to be planned; only runs of their families and variants are read.
    """
    measured: dict[Shape, list[tuple[str, float, float | None]]] = {}
    names = sorted({(config.family, config.model.ffn) for config in configs})
    for study in sorted(runs_dir.glob("*/")):
        for family, variant in names:
            for run in StudyFolder(study).run_folders(family, variant):
                record = peek_record(run.provenance_file) if run.has_marker else {}
                speed = mapping(record.get("results")).get("mean_tokens_per_s")
                if isinstance(speed, int | float) and speed > 0:
                    with suppress(UsageError):  # of another version, or a variant that is not known here
                        device = str(record.get("device", "a device"))
                        config = read_run(run.path)
                        beside_s = _beside_training(study, run.run_id, num_tokens(config), speed)
                        measured.setdefault(shape_of(config), []).append((device, speed, beside_s))
    return {shape: _mean_speed(pairs) for shape, pairs in measured.items()}


def _beside_training(study: Path, run_id: str, tokens: int | None, tokens_per_s: float) -> float | None:
    """The seconds of a finished cell that were no training; None of one that was interrupted or restored."""
    state = read_state(study, run_id)
    if state.attempts != 1 or not 0 < state.started_s < state.finished_s or tokens is None:
        return None
    return max(0.0, state.finished_s - state.started_s - tokens / tokens_per_s)


def _mean_speed(measured: Sequence[tuple[str, float, float | None]]) -> Speed:
    device, num_runs = Counter(device for device, *_ in measured).most_common(1)[0]
    there = [(speed, beside_s) for where, speed, beside_s in measured if where == device]
    known = [beside_s for _, beside_s in there if beside_s is not None]
    return Speed(fmean(speed for speed, _ in there), device, num_runs, fmean(known) if known else None)


def in_one_line(lines: Sequence[ForecastLine]) -> str:
    """Say in one line what the runs of a forecast cost."""
    if not lines:
        return "nothing to run"
    runs, petaflops, hours = _sums(lines)
    time = "hours not known: run one seed of each first (--seeds 1), and this tells"
    if hours != "-":
        time = f"{hours} hours, one run after the other"
    return f"{runs} runs, {petaflops} PFLOP, {time}"


def render(lines: Sequence[ForecastLine]) -> str:
    """Write the forecast: a table of all runs, with their sum."""
    if not lines:
        return "nothing to run"
    blanks = [""] * (len(COLUMNS) - 1)
    rows = [(*COLUMNS, *SUMS), *map(_row, lines), ("in all", *blanks, *_sums(lines))]
    notes = ["no training is left to do; the hours of evaluation are not forecast"]
    if any(line.cost.parameters for line in lines):
        notes = ["hours are of whole runs, from the start to the scores, one run after the other"]
        notes.append("parameters are about, where a tokenizer is trained: a small text yields fewer tokens")
    if unknown := sum(line.runs for line in lines if line.cost.parameters and line.cost.hours is None):
        notes.append(f"hours of {unknown} runs are not known: one finished run of each tells (--seeds 1)")
    text = "\n".join(f"  {line}" for line in [*format_table(rows).splitlines(), "", *notes])
    return f"\nforecast, of what is not done yet:\n\n{text}"


def _row(line: ForecastLine) -> tuple[str, ...]:
    cost, time = line.cost, "not known"
    if cost.parameters is None:
        time = "none: only scored"
    elif cost.speed and cost.hours is not None:
        runs = f"{cost.speed.num_runs} run{'s' * (cost.speed.num_runs > 1)}"
        time = f"{duration(3600 * cost.hours)} ({cost.speed.device}; by {runs})"
    counts = ("-" if count is None else f"{count:,}" for count in (cost.parameters, cost.tokens))
    return (line.stage, line.family, line.variant, line.place or "-", *counts, time, *_sums([line]))


def _sums(lines: Sequence[ForecastLine]) -> tuple[str, str, str]:
    """Runs, petaFLOPs and hours; ``2.5+`` of hours where those of some runs are not known."""
    hours = [line.runs * line.cost.hours for line in lines if line.cost.hours is not None]
    at_least = "+" if any(line.cost.parameters and line.cost.hours is None for line in lines) else ""
    petaflops = sum(line.runs * line.cost.flops for line in lines if line.cost.flops) / 1e15
    return (
        f"{sum(line.runs for line in lines):,}",
        (f"{petaflops:,.0f}" if petaflops >= 100 else f"{petaflops:.3g}") if petaflops else "-",
        f"{sum(hours):,.3g}{at_least}" if hours else "-",
    )
