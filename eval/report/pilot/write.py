"""Writes a pilot's page, record and figure into its folder."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from base.files import write_atomically, write_text
from base.records import write_record
from eval.report.figures.style import STYLE, settle, to_png, to_svg
from eval.report.pilot.choice import Choice, choose
from eval.report.pilot.figure import draw_pilot
from eval.report.pilot.page import as_record, pilot_page
from eval.report.pilot.recipes import read_plan, read_recipes
from pretrain.run.folders import StudyFolder


def write_pilot(folder: Path) -> Choice:
    """Weigh the recipes of a pilot by the runs that are there, and write what they show.

    Args:
        folder: The pilot's study folder; ``pilot/pilot.md`` in it is written last.

    Raises:
        UsageError: If it is not a pilot's.
    """
    plan, study = read_plan(folder), StudyFolder(folder)
    choice = choose(plan, read_recipes(folder, plan))
    with matplotlib.rc_context(STYLE):
        if drawn := draw_pilot(choice):
            settle(drawn[0])
    if drawn:
        write_text(study.pilot_dir / "recipes.svg", to_svg(drawn[0]))
        png = to_png(drawn[0])
        write_atomically(study.pilot_dir / "recipes.png", lambda temporary: temporary.write_bytes(png))
    write_record(study.pilot_record, as_record(choice))
    write_text(study.pilot_file, pilot_page(choice, "recipes.svg" if drawn else None))
    return choice
