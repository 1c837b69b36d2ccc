"""Show every cell of a study: waiting, queued, running, done, failed or missing.

    ffn-ablations study status runs/quickstart
    ffn-ablations study status runs/quickstart --watch
    ffn-ablations study status runs/quickstart --watch --html    # also as a page, status/status.html

Reads the study's files and asks SLURM once, where the study has jobs; works from any shell and at any time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from base.command_line import Positional, parse_flags
from base.errors import UsageError
from base.sections import Section
from scores.decisions import read_decisions
from scores.stages import MAIN
from scores.tuning import read_tuning
from slurm.arguments import runs_dir_override
from slurm.state.cell_state import CellState, as_result, describe, is_at_work
from slurm.state.listing import read_levels, read_listing, read_to_come, tell_levels
from slurm.state.survey import is_followed, survey
from slurm.time_left import CellTime, kind_of, tell_time_left

CLEAR = "\033[2J\033[H"
LONGEST_WAIT_S = 86_400


class StatusArgs(Section):
    """Show every cell of a study with its state."""

    study: Positional[Path]
    """The study's folder below runs/, its YAML file, or the name of a shipped one."""
    runs_dir: Path | None = None
    """Folder of all runs, if the study was submitted with --runs-dir."""
    watch: bool = False
    """Show it again and again until no cell is queued or running, and none is to come."""
    every: float = 10.0
    """With --watch: seconds in between."""
    html: bool = False
    """Write the page status/status.html into the study's folder too: the same, and the losses so far. With
    --watch it is written again each time."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command; it reads small files and the queue, and waits for nothing."""
    options = parse_flags(StatusArgs, args, prog="ffn-ablations study status", description=__doc__)
    if not 0.1 <= options.every <= LONGEST_WAIT_S:
        raise UsageError(f"--every is {options.every:g}; give seconds from 0.1 to {LONGEST_WAIT_S:,}")
    while True:
        folder, run_ids, note = _cells(options)  # again each time: a round of tuning or a look adds some
        states = survey(folder, run_ids)
        text = "\n".join([*filter(None, [note]), render(folder, states)])
        print(f"{CLEAR}{text}" if options.watch else text, flush=True)
        if options.html:
            from slurm.page import write_page  # matplotlib is slow to load

            notes = [*filter(None, [note]), *status_notes(folder, states)]
            print(f"page: {write_page(folder, status_rows(folder, states), notes)}", flush=True)
        if not options.watch or not (is_at_work(states) or is_followed(folder)):
            return
        time.sleep(options.every)


def _cells(options: StatusArgs) -> tuple[Path, tuple[str, ...], str]:
    """Find a study's folder, the runs of its cells that are due by now, and a note on where they are from."""
    if options.study.is_dir():
        listing = read_listing(options.study)
        return options.study, listing.run_ids, listing.note
    from slurm.study.study import folder_of_own, load_study

    overrides = runs_dir_override(options.runs_dir)
    if own := folder_of_own(options.study, overrides):
        if not own.is_dir():
            raise UsageError(
                f"{options.study} was not submitted yet ({own} is not there), and its variants' files are "
                "not run here; ffn-ablations study run --dry-run --trust-remote-code shows its cells"
            )
        listing = read_listing(own)  # as it was submitted
        return own, listing.run_ids, listing.note
    study = load_study(options.study, overrides)
    return study.folder, tuple(cell.run_id for cell in study.cells), ""


def render(folder: Path, states: Mapping[str, CellState]) -> str:
    """Write one line a cell and one that counts them."""
    rows = status_rows(folder, states)
    run_width, level_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = []
    for run_id, levels, name, what in rows:
        beside = f"  {levels:<{level_width}}" if level_width else ""
        lines.append(f"{run_id:<{run_width}}{beside}  {name:<8}  {what}".rstrip())
    return "\n".join([*lines, *status_notes(folder, states)])


def status_rows(folder: Path, states: Mapping[str, CellState]) -> list[tuple[str, str, str, str]]:
    """Return of every cell its run's id, its levels, the name of its state, and what is to be said of it."""
    levels, (stages, _) = read_levels(folder), read_to_come(folder)
    rows: list[tuple[str, str, str, str]] = []
    for run_id, state in states.items():
        shown = as_result(state, folder / run_id, stages.get(run_id, MAIN))
        told = tell_levels(run_id, levels.get(run_id, {}))
        rows.append((run_id, told, shown.name, details(shown, folder / run_id)))
    return rows


def status_notes(folder: Path, states: Mapping[str, CellState]) -> list[str]:
    """Say how far tuning and looks are, how long the rest takes, what is amiss, and count the cells."""
    lines = [*_progress(folder), _time_left(folder, states)]
    stages, _ = read_to_come(folder)
    counts = Counter(
        as_result(state, folder / run_id, stages.get(run_id, MAIN)).name for run_id, state in states.items()
    )
    counted = ", ".join(f"{counts[name]} {name}" for name in sorted(counts))
    return [*filter(None, lines), f"{len(states)} cells: {counted}"]


def details(state: CellState, folder: Path) -> str:
    """What a reader wants to know of a cell in its state: where it stands, where it runs, what went wrong."""
    if state.name == "running":
        attempt = f", attempt {state.attempts}" if state.attempts > 1 else ""
        return f"{describe(state, folder)} on {state.host}{_job(state)}{attempt}"
    if state.name == "queued":
        return f"{state.error}{_job(state)}".strip(" ,")
    if state.name == "diverged":
        return "a result: its value counts as infinitely bad"
    if state.name == "done":
        return state.took
    if state.name in ("failed", "missing"):
        return f"{state.error} (attempt {state.attempts}{_job(state)}, log: {state.log or 'none'})"
    return ""


def _time_left(folder: Path, states: Mapping[str, CellState]) -> str:
    """How long the study still takes, where something is at work."""
    if not any(state.name == "running" for state in states.values()):
        return ""
    levels, (stages, to_come) = read_levels(folder), read_to_come(folder)
    times = [
        CellTime(stages.get(run_id, MAIN), kind_of(run_id, levels.get(run_id, {})), state)
        for run_id, state in states.items()
    ]
    return tell_time_left(times, to_come)


def _progress(folder: Path) -> Iterator[str]:
    """Say what the tuning has chosen and what looks have decided, or that their files are damaged."""
    for read in (read_tuning, read_decisions):
        try:
            record = read(folder)
        except UsageError as error:
            yield f"note: {error}"
        else:
            if record:
                yield record.progress


def _job(state: CellState) -> str:
    return f", job {state.job}" if state.job else ""
