"""The status of a study as one HTML page: what stands in a terminal, and the losses of its runs so far."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from base.errors import UsageError
from base.files import write_text
from base.json_text import parse_json
from eval.report.document.html import to_html
from eval.report.document.markdown import table
from eval.report.document.names import family_label
from eval.report.figures.style import STYLE, add_legend, panels, to_svg, variant_styles
from eval.report.figures.training import Curve, thin
from eval.results.stages import MAIN
from pretrain.run.folders import RunFolder, StudyFolder
from slurm.state.cell_state import is_number
from slurm.state.listing import read_to_come

PANEL_IN = 3.4
FIGURE = "losses.svg"
HELD_OUT, TRAINING = "eval_loss", "loss"
LABELS = {HELD_OUT: "held-out loss (nats a token)", TRAINING: "training loss (nats a token)"}
MARKUP = re.compile(r"([\\`*_\[\]<>#~])")


def write_page(study: Path, rows: Sequence[tuple[str, str, str, str]], notes: Sequence[str]) -> Path:
    """Write ``status.html`` whole into a study's folder and return where it is.

    Args:
        study: The folder.
        rows: Of every run its id, its levels, its state and what is to be said of it.
        notes: Sentences on the whole study.

    Raises:
        UsageError: If the study has no folder yet.
    """
    if not study.is_dir():
        raise UsageError(f"{study} is not there, so the study has no page yet; run or submit it first")
    folder = StudyFolder(study)
    parts, images = [f"# {_plain(study.resolve().name)}", *map(_plain, notes)], {}
    if folder.report_file.is_file():
        parts.append("[The report](report/report.html)")
    if figure := draw_losses(folder, [run_id for run_id, *_ in rows]):
        parts.append(f"![Losses of the runs so far, a colour for each variant]({FIGURE})")
        images[FIGURE] = to_svg(figure, "losses")
    lines = [(f"`{run_id}`", *map(_plain, rest)) for run_id, *rest in rows]
    parts.append(table(("run", "levels", "state", "details"), lines))
    write_text(folder.status_page, to_html("\n\n".join(parts), f"Status: {study.resolve().name}", images))
    return folder.status_page


def draw_losses(study: StudyFolder, run_ids: Sequence[str]) -> Figure | None:
    """Draw a line for each run, a panel for each family: held-out loss, before two of them the training's.

    Runs of a tuning are drawn until one that is compared has losses; None where no run has two.
    """
    stages, _ = read_to_come(study.path)
    compared = [run_id for run_id in run_ids if stages.get(run_id, MAIN) == MAIN]
    for some, metric in product((compared, run_ids), (HELD_OUT, TRAINING)):
        curves = {run_id: read_curve(study.run(run_id), metric) for run_id in some}
        if curves := {run_id: curve for run_id, curve in curves.items() if len(curve) > 1}:
            with matplotlib.rc_context(STYLE):
                return _drawn(curves, LABELS[metric])
    return None


def _drawn(curves: Mapping[str, Curve], label: str) -> Figure:
    by_family: dict[str, list[tuple[str, Curve]]] = {}
    for run_id, curve in curves.items():
        family, variant, _ = run_id.split("/", 2)
        by_family.setdefault(family, []).append((variant, curve))
    styles = variant_styles(list(dict.fromkeys(run_id.split("/")[1] for run_id in curves)))
    figure, axes = panels(len(by_family), PANEL_IN, columns=1)
    for panel, (family, lines) in zip(axes, by_family.items(), strict=True):
        for variant, curve in lines:
            style = styles[variant]
            panel.plot(*zip(*thin(curve), strict=True), color=style.colour, ls=style.dashes, lw=0.9)
        panel.set_title(family_label(family))
        panel.set_xlabel("step")
    figure.supylabel(label, fontsize=9.5)
    add_legend(figure, [style.line(str(variant)) for variant, style in styles.items()])
    return figure


def read_curve(run: RunFolder, metric: str) -> list[tuple[int, float]]:
    """Read steps and values of a metric from a run's log in order; what does not parse is passed over."""
    values: dict[int, float] = {}
    lines = run.metrics_file.read_bytes().splitlines() if run.metrics_file.is_file() else []
    for line in lines:
        with suppress(ValueError):
            record = parse_json(line)
            if isinstance(record, dict) and is_number(record.get("step")) and is_number(record.get(metric)):
                values[int(record["step"])] = float(record[metric])
    return sorted(values.items())


def _plain(text: str) -> str:
    """Text that Markdown shows as it stands."""
    return MARKUP.sub(r"\\\1", text)
