"""Run the cells of a study that are not done yet, then write its report.

    python -m slurm.submit configs/studies/quickstart.yaml --cluster local --workers 2
    python -m slurm.submit configs/studies/real-small.yaml --dry-run

The same command again repeats nothing: finished cells are skipped, unfinished ones resume from their last
checkpoint, failed ones are tried again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from ffn_variants.cli import parse_flags
from ffn_variants.errors import UsageError, run_cli
from slurm.state import minutes, read_state
from slurm.study import Cell, Study, load_study


@dataclass(frozen=True, kw_only=True)
class SubmitArgs:
    """Run the cells of a study that are not done yet, then write its report."""

    study: Positional[Path]
    """The study's YAML file."""
    cluster: Literal["local"] = "local"
    """Where the cells run: on this machine."""
    workers: Annotated[int, arg(aliases=["-j"])] = 2
    """Cells that run at the same time; the processor's cores are shared among them."""
    cells_per_job: int = 1
    """Cells that share one process, which saves its start of some seconds; worth it for short cells."""
    runs_dir: Path | None = None
    """Folder for all runs, instead of the one in the config (runs/)."""
    dry_run: bool = False
    """Show the plan and stop; nothing is written."""
    report: bool = field(default=True)
    """Write the report after the last cell."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if a cell of the study is not done at the end."""
    options = parse_flags(SubmitArgs, args, prog="python -m slurm.submit", description=__doc__)
    for name in ("workers", "cells_per_job"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} is {getattr(options, name)}; it must be 1 or more")
    overrides = {"output": {"runs_dir": str(options.runs_dir)}} if options.runs_dir else {}
    study = load_study(options.study, overrides)
    done = _show_plan(study)
    if options.dry_run:
        for cell in study.cells:
            word = "done" if cell.run_id in done else read_state(study.folder, cell.run_id).name
            print(f"  {word:<8}  {cell.run_id}")
        return 0
    return submit(study, options, done)


def submit(study: Study, options: SubmitArgs, done: set[str]) -> int:
    """Run what is missing and write the report.

    Args:
        study: The expanded study.
        options: The command's flags.
        done: Run ids of the cells that need no work.

    Returns:
        0 if every cell is done, else 1.
    """
    started_s = time.time()
    left = [cell for cell in study.cells if cell.run_id not in done]
    todo = [cell for cell in left if read_state(study.folder, cell.run_id).name != "running"]
    if len(todo) < len(left):
        print(f"{len(left) - len(todo)} cells are running in another process and are left to it")
    if todo:
        _prepare(study, todo)
    study.write()
    if todo:
        _run_here(study, todo, options, num_before=len(study.cells) - len(todo))
    unfinished = [cell for cell in left if read_state(study.folder, cell.run_id).name != "done"]
    for cell in unfinished:
        state = read_state(study.folder, cell.run_id)
        reason = state.error or "no message"
        print(f"not done: {cell.label}: {state.name}: {reason} (log: {state.log or 'none'})")
    if unfinished:
        print("the same command tries the cells that are not done again")
    num_done = len(study.cells) - len(unfinished)
    print(f"{num_done} of {len(study.cells)} cells done, {minutes(time.time() - started_s)}")
    if options.report and num_done:
        _write_report(study)
    return 1 if unfinished else 0


def _prepare(study: Study, todo: Sequence[Cell]) -> None:
    """Find the evaluation's data and tokenise the corpus; what is missing is told now, not after hours."""
    from eval.plan import check_sources
    from pretrain.train import prepare_data

    for note in check_sources(study.config.evaluation):
        print(f"note: {note}")
    # Done once, before the workers start, so that they do not all do it at the same time.
    for config in {cell.config.data.model_dump_json(): cell.config for cell in todo}.values():
        prepare_data(config)


def _run_here(study: Study, todo: Sequence[Cell], options: SubmitArgs, num_before: int) -> None:
    from slurm.local import LocalRunner, batches
    from slurm.progress import Progress

    progress = Progress(study.folder, todo, num_before)
    try:
        LocalRunner(study.folder, options.workers, progress).run(batches(todo, options.cells_per_job))
    finally:
        progress.close()


def _write_report(study: Study) -> None:
    from eval.report.write import write_report

    try:
        out = study.folder / "report"
        write_report(study.folder, out)
        print(out / "report.md")
    except UsageError as error:
        # With few cells done there may be nothing to compare yet, which is no mistake of the user.
        print(f"no report yet: {error}")


def _show_plan(study: Study) -> set[str]:
    """Print what the study holds and what of it is left; returns the run ids that are done."""
    from slurm.cell import is_done

    config = study.config
    done = {cell.run_id for cell in study.cells if is_done(cell)}
    print(f"study {config.name}: {len(study.cells)} cells in {study.folder}, {len(done)} done")
    print(f"  families  {', '.join(config.families)}")
    print(f"  variants  {', '.join(config.variants)} (baseline {config.report.baseline})")
    print(f"  seeds     {', '.join(map(str, config.seeds))}")
    print(f"  suites    {', '.join(config.evaluation.suites)}")
    return done


if __name__ == "__main__":
    run_cli(main)
