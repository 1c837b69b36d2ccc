"""Show every cell of a study: waiting, queued, running, done, failed or missing.

python -m slurm.status runs/quickstart
python -m slurm.status configs/studies/thesis.yaml --watch

Reads the study's files and asks SLURM once, where the study has jobs; works from any shell and at any time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from base.command_line import parse_flags
from base.errors import UsageError, run_cli
from base.progress import duration
from eval.results.decisions import read_decisions
from slurm.arguments import runs_dir_override
from slurm.life import PATIENCE_S
from slurm.listing import read_listing
from slurm.state import CellState, describe
from slurm.survey import survey

CLEAR = "\033[2J\033[H"
LONGEST_WAIT_S = 86_400


@dataclass(frozen=True, kw_only=True)
class StatusArgs:
    """Show every cell of a study with its state."""

    study: Positional[Path]
    """The study's YAML file, or its folder below runs/."""
    runs_dir: Path | None = None
    """Folder of all runs, if the study was submitted with --runs-dir."""
    watch: bool = False
    """Show it again and again until no cell is queued or running."""
    every: float = 10.0
    """With --watch: seconds in between."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command; it reads small files and the queue, and waits for nothing."""
    options = parse_flags(StatusArgs, args, prog="python -m slurm.status", description=__doc__)
    note = ""
    if not 0.1 <= options.every <= LONGEST_WAIT_S:
        raise UsageError(f"--every is {options.every:g}; give seconds from 0.1 to {LONGEST_WAIT_S:,}")
    if options.study.is_dir():
        listing = read_listing(options.study)
        folder, run_ids, note = options.study, listing.run_ids, listing.note
    else:
        from slurm.study import load_study

        study = load_study(options.study, runs_dir_override(options.runs_dir))
        folder, run_ids = study.folder, tuple(cell.run_id for cell in study.cells)
    while True:
        states = survey(folder, run_ids)
        text = "\n".join([*([note] if note else []), render(folder, states)])
        print(f"{CLEAR}{text}" if options.watch else text, flush=True)
        if not options.watch or not any(s.name in ("queued", "running") for s in states.values()):
            return
        time.sleep(options.every)


def render(folder: Path, states: Mapping[str, CellState]) -> str:
    """Write one line a cell and one that counts them."""
    width = max(len(run_id) for run_id in states)
    lines = [
        f"{run_id:<{width}}  {state.name:<8}  {_details(state, folder / run_id)}".rstrip()
        for run_id, state in states.items()
    ]
    lines += _decided(folder)
    counts = Counter(state.name for state in states.values())
    lines.append(f"{len(states)} cells: " + ", ".join(f"{counts[name]} {name}" for name in sorted(counts)))
    return "\n".join(lines)


def _details(state: CellState, folder: Path) -> str:
    """What a reader wants to know of a cell in its state: where it stands, where it runs, what went wrong."""
    if state.name == "running":
        attempt = f", attempt {state.attempts}" if state.attempts > 1 else ""
        return f"{describe(state, folder)} on {state.host}{_job(state)}{attempt}{_silence(state)}"
    if state.name == "queued":
        return f"{state.error}{_job(state)}".strip(" ,")
    if state.name == "done":
        return f"in {duration(state.finished_s - state.started_s)}"
    if state.name in ("failed", "missing"):
        return f"{state.error} (attempt {state.attempts}{_job(state)}, log: {state.log or 'none'})"
    return ""


def _silence(state: CellState) -> str:
    """Of a cell on another machine, which cannot be asked: whether it was seen alive of late."""
    if state.silent_s is None or state.silent_s <= PATIENCE_S:
        return ""
    return f"; no sign of life for {duration(state.silent_s)}: slurm.submit takes it over"


def _decided(folder: Path) -> list[str]:
    try:
        decisions = read_decisions(folder)
    except UsageError as error:
        return [f"note: {error}"]
    return [decisions.progress] if decisions else []


def _job(state: CellState) -> str:
    return f", job {state.job}" if state.job else ""


if __name__ == "__main__":
    run_cli(main)
