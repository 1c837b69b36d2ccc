"""What a submission would do and cost; nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from base.errors import AbsentError
from eval.backbones import StudyBackbone
from eval.classification.schema import benchmarks_asked_for
from eval.work_units import check_sources
from pretrain.data.corpus import check_present
from pretrain.data.prepare import find
from pretrain.resolution import resolve
from scores.heads.registry import DEFAULT_HEAD
from scores.stages import TUNE
from slurm.forecast import ForecastStage, render
from slurm.run.todo import other_source_lines
from slurm.study.axes.points import TOKENS
from slurm.study.cells import own_variants, trained_cells
from slurm.study.own_variants import variant_place
from slurm.study.study import Study
from slurm.study.tuning.schema import describe_tuning, runs_of_an_arm

if TYPE_CHECKING:
    from slurm.run.cluster import SlurmSubmitter
    from slurm.run.todo import Todo


def show_dry_run(
    study: Study, todo: Todo, stages: Sequence[ForecastStage], submitter: SlurmSubmitter | None
) -> int:
    """Print every cell, the cost of what is to run, and what its jobs ask SLURM for."""
    config = study.config
    print(f"study {config.name}: {len(study.cells)} cells in {study.folder}, {len(todo.cells)} to run")
    if config.backbones:
        for model in config.backbones:
            print(f"  backbone  {model} ({StudyBackbone(model, 0).locate()})")
    else:
        print(f"  families  {', '.join(config.families)}")
        print(f"  variants  {', '.join(config.models)} ({_baseline(study)})")
        for one in own_variants(study.planned):
            print(f"  {one.name:<9} {variant_place(one.name)}")
        _show_axes(study)
        _show_texts(study)
    print(f"  seeds     {_seeds(study)}")
    if study.config.tune:
        print(f"  tuning    {describe_tuning(study.config.tune)}")
    print(f"  scored on {', '.join(benchmarks_asked_for(config.evaluation))}")
    if config.heads != (DEFAULT_HEAD,):
        print(f"  heads     {', '.join(config.heads)}")
    shown = {cell.run_id: cell.shown_id for cell in study.cells}
    for run_id, state in todo.states.items():
        print(f"  {state.name:<8}  {shown[run_id]}")
    for line in other_source_lines(todo.changed):
        print(line)
    _show_after_tuning(study)
    if study.later:
        print(f"if nothing is decided before {config.looks[-1]} seeds, {len(study.later)} more cells")
    print(render(stages))
    for missing in _absent_data(study):
        print(f"needed before it runs: {missing}")
    if submitter is not None and todo.cells:
        print(f"\nits jobs ask SLURM for:\n{submitter.asked(len(todo.cells))}")
    return 0


def _baseline(study: Study) -> str:
    report = study.config.report
    factor = "" if report.factor == "ffn" else f"{report.factor} "
    return f"baseline {factor}{report.baseline}"


def _show_axes(study: Study) -> None:
    """Name the levels of every axis, and say how budgets of tokens are trained."""
    for axis, points in study.config.points.items():
        print(f"  {axis:<9} {', '.join(point.level for point in points)}")
        if axis == TOKENS:
            print(f"            {_schedules(study)}")


def _schedules(study: Study) -> str:
    kinds = {cell.config.optim.lr_scheduler_type for cell in trained_cells(study.cells)}
    if kinds == {"constant_with_warmup"}:
        return (
            "each is a run of its own; as the learning rate is constant, the learning curves of the longest "
            "run show every smaller budget too"
        )
    return (
        "each has a run and a schedule of its own, as a checkpoint in the middle of one has not decayed yet"
    )


def _show_after_tuning(study: Study) -> None:
    """Say what is trained as soon as the tuning has chosen."""
    if (tune := study.config.tune) is None or not (cells := study.after_tuning):
        return
    settings = len(study.planned) // len(study.config.all_seeds)
    fewest, most = (runs * settings * len(tune.seeds) for runs in runs_of_an_arm(tune))
    grown = f" ({most} where the grid grows as often as it may)" if most > fewest else ""
    print(f"after {fewest} tuning runs{grown}: {len(cells)} cells, each at its variant's own best")
    if others := study.shared_after_tuning:
        baseline = study.config.tuned_baseline
        print(f"and up to {len(others)} more at the best of {baseline}, as in a study with one value for all")


def _show_texts(study: Study) -> None:
    """Say what the texts hold that the study trains on; those of most studies are the same for all."""
    configs = {cell.config.data.model_dump_json(): cell.config for cell in trained_cells(study.cells)}
    lines: dict[str, None] = {}  # in order, each once
    for config in configs.values():
        with suppress(AbsentError):
            text, doubts = find(resolve(config))
            lines |= dict.fromkeys([f"  texts     {text}", *doubts])
    for line in lines:
        print(line)


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


def _seeds(study: Study) -> str:
    """Name the seeds that are to be run, and when there may be more."""
    due = [cell for cell in study.cells if cell.stage != TUNE] or study.after_tuning
    now = ", ".join(map(str, dict.fromkeys(cell.seed for cell in due)))
    if study.decisions is None:
        return now
    made, planned = len(study.decisions.looks), study.decisions.planned
    looks = ", ".join(map(str, planned))
    return f"{now}; more for what is undecided at looks of {looks} seeds ({made} of {len(planned)} made)"
