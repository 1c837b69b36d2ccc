"""The status of a study as a page: what stands in a terminal, and the losses of its runs so far."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from base.run.folder_names import RunFolder, StudyFolder
from base.run.manifest import by_step, read_log
from report.document.document import Document, shown_path, write_document
from report.document.markdown import family_label, figure, plain, table
from report.figures.style import STYLE, Curve, add_legend, panels, thin, variant_styles
from slurm.cell_state import peek_listing

PANEL_IN = 3.4
LOSSES = "losses"
ALT = "Losses of the runs so far, a colour for each variant."
COLUMNS = ("run", "settings", "state", "details")
HELD_OUT, TRAINING = "eval_loss", "loss"
LABELS = {HELD_OUT: "held-out loss (nats a token)", TRAINING: "training loss (nats a token)"}


def write_page(study: Path, rows: Sequence[tuple[str, str, str, str]], notes: Sequence[str]) -> Path:
    """Write the page of a study's status into its folder and return where its HTML is.

    Args:
        study: The folder.
        rows: Of every run its id, its settings, its state and what is to be said of it.
        notes: Sentences on the whole study.

    """
    folder = StudyFolder(study)
    plot = draw_losses(folder, [run_id for run_id, *_ in rows])
    report = folder.report_file.with_suffix(".html")
    blocks = (
        *map(plain, notes),
        f"[The report](../{report.relative_to(study)})" if folder.report_file.is_file() else "",
        figure(LOSSES, ALT) if plot else "",
        table(COLUMNS, [(f"`{run_id}`", *map(plain, others)) for run_id, *others in rows]),
    )
    page = Document(
        title=f"Status of {study.resolve().name}",
        blocks=blocks,
        figures={LOSSES: (plot, ALT)} if plot else {},
        tables={"runs": pd.DataFrame(rows, columns=list(COLUMNS))},
        record={"notes": notes},
        command=shlex.join(["ffn-ablations", "study", "status", shown_path(study), "--html"]),
    )
    write_document(page, folder.status_page.parent, folder.status_page.stem)
    return folder.status_page


def draw_losses(study: StudyFolder, run_ids: Sequence[str]) -> Figure | None:
    """Draw a line for each run, a panel for each family: held-out loss, before two of them the training's.

    Runs of a tuning are drawn until one that is compared has losses; None where no run has two.
    """
    aside = peek_listing(study.path).aside
    compared = [run_id for run_id in run_ids if run_id not in aside]
    for group, metric in product((compared, run_ids), (HELD_OUT, TRAINING)):
        curves = {run_id: read_curve(study.run(run_id), metric) for run_id in group}
        if curves := {run_id: curve for run_id, curve in curves.items() if len(curve) > 1}:
            with matplotlib.rc_context(STYLE):
                return _drawn(curves, LABELS[metric])
    return None


def _drawn(curves: Mapping[str, Curve], label: str) -> Figure:
    ids = {run_id: run_id.split("/") for run_id in curves}
    styles = variant_styles(list(dict.fromkeys(variant for _, variant, _ in ids.values())))
    families = list(dict.fromkeys(family for family, *_ in ids.values()))
    plot, axes = panels(len(families), PANEL_IN, columns=1)
    for panel, family in zip(axes, families, strict=True):
        for run_id, curve in curves.items():
            if ids[run_id][0] == family:
                style = styles[ids[run_id][1]]
                panel.plot(*zip(*thin(curve), strict=True), color=style.colour, ls=style.dashes, lw=0.9)
        panel.set_title(family_label(family))
        panel.set_xlabel("step")
    plot.supylabel(label, fontsize=9.5)
    add_legend(plot, [style.line(str(variant)) for variant, style in styles.items()])
    return plot


def read_curve(run: RunFolder, metric: str) -> list[tuple[int, float]]:
    """Read steps and values of a metric from a run's log, in order."""
    return [(int(line["step"]), line[metric]) for line in by_step(read_log(run), metric)]
