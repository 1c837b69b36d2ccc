"""What a submission would do and cost; nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eval.classification.heads.registry import DEFAULT_HEAD
from eval.classification.tasks.schema import benchmarks_asked_for
from slurm.estimate import describe_cost
from slurm.study import Study

if TYPE_CHECKING:
    from slurm.sbatch import SlurmSubmitter
    from slurm.todo import Todo


def show_dry_run(study: Study, todo: Todo, submitter: SlurmSubmitter | None) -> int:
    """Print every cell, the cost of what is to run, and for SLURM the script."""
    config = study.config
    print(f"study {config.name}: {len(study.cells)} cells in {study.folder}, {len(todo.cells)} to run")
    print(f"  families  {', '.join(config.families)}")
    print(f"  variants  {', '.join(config.variants)} (baseline {config.report.baseline})")
    print(f"  seeds     {', '.join(map(str, config.seeds))}")
    print(f"  scored on {', '.join(benchmarks_asked_for(config.evaluation))}")
    if config.heads != (DEFAULT_HEAD,):
        print(f"  heads     {', '.join(config.heads)}")
    for run_id, state in todo.states.items():
        print(f"  {state.name:<8}  {run_id}")
    print(describe_cost(todo.cells))
    if submitter is not None and todo.cells:
        print(f"\nsbatch script:\n\n{submitter.script(len(todo.cells))}")
    return 0
