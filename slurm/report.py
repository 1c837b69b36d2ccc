"""The report of a study, with what is not done and why."""

from __future__ import annotations

from ffn_variants.errors import UsageError
from slurm.study import Study
from slurm.survey import survey


def write_study_report(study: Study) -> None:
    """Name the cells that are not done, and write the report of those that are."""
    from eval.report.write import write_report

    states = survey(study.folder, [cell.run_id for cell in study.cells])
    labels = {cell.run_id: cell.label for cell in study.cells}
    open_ = {run_id: state for run_id, state in states.items() if state.name != "done"}
    for run_id, state in open_.items():
        words = f"{state.name}: {state.error}" if state.error else state.name
        print(f"not done: {labels[run_id]}: {words} (log: {state.log or 'none'})")
    print(f"{len(states) - len(open_)} of {len(states)} cells done")
    try:
        out = study.folder / "report"
        write_report(study.folder, out)
        print(out / "report.md", flush=True)
    except UsageError as error:
        # With few cells done there may be nothing to compare yet, which is no mistake of the user.
        print(f"no report yet: {error}", flush=True)
