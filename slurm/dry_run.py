"""What a submission would do and cost; nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eval.classification.heads.registry import DEFAULT_HEAD
from eval.classification.tasks.schema import benchmarks_asked_for
from eval.models.backbones import StudyBackbone
from slurm.estimate import describe_cost
from slurm.sources import other_source_lines
from slurm.study import Study

if TYPE_CHECKING:
    from slurm.sbatch import SlurmSubmitter
    from slurm.todo import Todo


def show_dry_run(study: Study, todo: Todo, submitter: SlurmSubmitter | None) -> int:
    """Print every cell, the cost of what is to run, and for SLURM the script."""
    config = study.config
    print(f"study {config.name}: {len(study.cells)} cells in {study.folder}, {len(todo.cells)} to run")
    if config.backbones:
        for model in config.backbones:
            print(f"  backbone  {model} ({StudyBackbone(model, 0).locate()})")
    else:
        print(f"  families  {', '.join(config.families)}")
        print(f"  variants  {', '.join(config.variants)} (baseline {config.report.baseline})")
    print(f"  seeds     {_seeds(study)}")
    print(f"  scored on {', '.join(benchmarks_asked_for(config.evaluation))}")
    if config.heads != (DEFAULT_HEAD,):
        print(f"  heads     {', '.join(config.heads)}")
    for run_id, state in todo.states.items():
        print(f"  {state.name:<8}  {run_id}")
    for line in other_source_lines(todo.changed):
        print(line)
    print(describe_cost(todo.cells))
    if study.later:
        print(f"\nif nothing is decided before {config.stages[-1]} seeds, {len(study.later)} more cells:")
        print(describe_cost(study.later))
    if submitter is not None and todo.cells:
        print(f"\nsbatch script:\n\n{submitter.script(len(todo.cells))}")
    return 0


def _seeds(study: Study) -> str:
    """Name the seeds that are to be run, and when there may be more."""
    now = ", ".join(map(str, dict.fromkeys(cell.seed for cell in study.cells)))
    if study.decisions is None:
        return now
    made, planned = len(study.decisions.looks), study.decisions.planned
    looks = ", ".join(map(str, planned))
    return f"{now}; more for what is undecided at looks of {looks} seeds ({made} of {len(planned)} made)"
