"""The report of a study, with what is not done and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from base.errors import UsageError
from eval.report.pilot.page import pilot_table, pilot_text
from eval.report.pilot.write import write_pilot
from eval.report.write import write_report
from pretrain.run.folders import StudyFolder
from slurm.run.looks import take_look
from slurm.run.sources import other_sources
from slurm.state.cell_state import CellState
from slurm.state.survey import survey
from slurm.study.cells import Cell
from slurm.study.study import Study
from slurm.worker.cell import is_done


def unfinished(study: Study) -> list[tuple[Cell, CellState]]:
    """Return the cells that are not done, whoever was to do them, with their states."""
    states = survey(study.folder, [cell.run_id for cell in study.cells])
    changes = other_sources(study.cells)
    for run_id, change in changes.items():
        states[run_id] = replace(states[run_id], name="failed", error=change)
    return [
        (cell, states[cell.run_id])
        for cell in study.cells
        if states[cell.run_id].name != "done" and (cell.run_id in changes or not is_done(cell))
    ]


def not_done_lines(left: Sequence[tuple[Cell, CellState]]) -> list[str]:
    """Tell why cells are not done; those with the same reason in one line, whatever folders it names."""
    groups: dict[str, list[tuple[Cell, CellState]]] = defaultdict(list)
    for cell, state in left:
        words = f"{state.name}: {state.error}" if state.error else state.name
        groups[words.replace(str(cell.run_dir), "").replace(cell.run_id, "")].append((cell, state))
    lines = []
    for group in groups.values():
        (cell, state), others = group[0], len(group) - 1
        words = f"{state.name}: {state.error}" if state.error else state.name
        more = f" and {others} more" if others else ""
        lines.append(f"not done: {cell.label}{more}: {words} (log: {state.log or 'none'})")
    return lines


def write_study_report(study: Study) -> None:
    """Name the cells that are not done, and write the report of those that are.

    Where all cells have ended, well or not, and seeds are added to what is undecided, it is that of a look.
    """
    left = unfinished(study)
    for line in not_done_lines(left):
        print(line)
    print(f"{len(study.cells) - len(left)} of {len(study.cells)} cells done")
    try:
        folder = StudyFolder(study.folder)
        analysis = write_report(study.folder, folder.report_dir)
        if all(state.name == "failed" for _, state in left):
            take_look(study, analysis)
        print(folder.report_file, flush=True)
    except UsageError as error:
        # With few cells done there may be nothing to compare yet, which is no mistake of the user.
        print(f"no report yet: {error}", flush=True)
    if study.pilot:
        choice = write_pilot(study.folder)
        print(
            f"\n{pilot_table(choice)}\n\n{pilot_text(choice)}\n\n{StudyFolder(study.folder).pilot_file}",
            flush=True,
        )
