"""What a submission would do and cost; nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slurm.study import Study

if TYPE_CHECKING:
    from slurm.submit import SubmitArgs, Todo


def show_plan(study: Study, todo: Todo, options: SubmitArgs) -> int:
    """Print every cell, the cost of what is to run, and for SLURM the script."""
    from slurm.estimate import describe_cost

    config = study.config
    print(f"study {config.name}: {len(study.cells)} cells in {study.folder}, {len(todo.cells)} to run")
    print(f"  families  {', '.join(config.families)}")
    print(f"  variants  {', '.join(config.variants)} (baseline {config.report.baseline})")
    print(f"  seeds     {', '.join(map(str, config.seeds))}")
    print(f"  suites    {', '.join(config.evaluation.suites)}")
    for run_id, state in todo.states.items():
        print(f"  {state.name:<8}  {run_id}")
    print(describe_cost(todo.cells))
    if options.cluster == "slurm" and todo.cells:
        _show_script(study, todo, options)
    return 0


def _show_script(study: Study, todo: Todo, options: SubmitArgs) -> None:
    from slurm.cluster import load_preset
    from slurm.sbatch import Packing, SlurmSubmitter

    packing = Packing(
        cells_per_job=options.cells_per_job,
        cells_at_once=options.cells_at_once,
        max_running=options.max_running,
    )
    snapshot = Path(study.folder / "code" / "COMMIT")
    submitter = SlurmSubmitter(study, load_preset(options.preset), packing, snapshot)
    print(f"\nsbatch script:\n\n{submitter.script(len(todo.cells))}")
