"""The report of a study, with what is not done and why."""

from __future__ import annotations

from base.errors import UsageError
from eval.report.sections.verdicts import summary
from eval.report.write import write_report
from pretrain.run.folders import StudyFolder
from slurm.run.looks import take_look
from slurm.run.todo import not_done_lines, unfinished
from slurm.study.study import Study


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
        print(f"\n{summary(analysis)}\n\n{folder.report_file}", flush=True)
    except UsageError as error:
        # With few cells done there may be nothing to compare yet, which is no mistake of the user.
        print(f"no report yet: {error}", flush=True)
