"""Show every cell of a study: waiting, running (with step), done, failed (with its error) or missing.

python -m slurm.status configs/studies/quickstart.yaml
python -m slurm.status runs/quickstart
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from tyro.conf import Positional

from ffn_variants.cli import parse_flags
from ffn_variants.errors import UsageError, run_cli
from slurm.state import CellState, describe, minutes, read_state


@dataclass(frozen=True, kw_only=True)
class StatusArgs:
    """Show every cell of a study with its state."""

    study: Positional[Path]
    """The study's YAML file, or its folder below runs/."""
    runs_dir: Path | None = None
    """Folder of all runs, if the study was submitted with --runs-dir."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command; it reads small files only and never waits."""
    options = parse_flags(StatusArgs, args, prog="python -m slurm.status", description=__doc__)
    folder, run_ids = planned_cells(options.study, options.runs_dir)
    states = {run_id: read_state(folder, run_id) for run_id in run_ids}
    width = max(len(run_id) for run_id in run_ids)
    for run_id, state in states.items():
        print(f"{run_id:<{width}}  {state.name:<8}  {_details(state, folder / run_id)}".rstrip())
    counts = Counter(state.name for state in states.values())
    print(f"{len(states)} cells: " + ", ".join(f"{counts[name]} {name}" for name in sorted(counts)))


def planned_cells(study: Path, runs_dir: Path | None = None) -> tuple[Path, list[str]]:
    """Find a study's folder and the run ids of its cells.

    Raises:
        UsageError: If ``study`` is neither a study's YAML file nor the folder of a submitted study.
    """
    if study.is_dir():
        plan = study / "study.yaml"
        if not plan.is_file():
            raise UsageError(
                f"{study} holds no study.yaml; name a study's YAML file or its folder below runs/"
            )
        return study, list(yaml.safe_load(plan.read_text(encoding="utf-8"))["cells"])
    from slurm.study import load_study

    loaded = load_study(study, {"output": {"runs_dir": str(runs_dir)}} if runs_dir else {})
    return loaded.folder, [cell.run_id for cell in loaded.cells]


def _details(state: CellState, folder: Path) -> str:
    if state.name == "running":
        return describe(state, folder)
    if state.name == "done":
        return f"in {minutes(state.finished_s - state.started_s)}"
    if state.name in ("failed", "missing"):
        return f"{state.error} (attempt {state.attempts}, log: {state.log or 'none'})"
    return ""


if __name__ == "__main__":
    run_cli(main)
