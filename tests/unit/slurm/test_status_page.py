"""The page of a study: what it holds of a made-up study, whatever stands in its files."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from base.run.folder_names import RunFolder, StudyFolder
from slurm.cell_state import CellState
from slurm.commands import status_of
from slurm.status_page import draw_losses, read_curve, write_page

STATES = ("done", "done", "running", "queued", "waiting", "failed", "missing")


def log(run: Path, metric: str, values: dict[int, float]) -> None:
    run.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"step": step, metric: value, "max_steps": 50}) for step, value in values.items()]
    with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + '\n{"step": 60, "lo\n')  # a line that is being written


def write_study(folder: Path) -> dict[str, CellState]:
    """A study of one variant, whose name in its file is markup, at a seed for each state."""
    states, levels = {}, {}
    for seed, name in enumerate(STATES, 1):
        run_id = f"gpt_neo/gelu/seed{seed}-{seed:08x}"
        error = "<script>alert(1)</script> | __init__" if name == "failed" else ""
        states[run_id] = CellState(name=name, error=error, started_s=1.0, finished_s=3.0)
        levels[run_id] = {"variant": "<b>mine</b>", "size": "0.1M"}
    StudyFolder(folder).study_file.write_text(json.dumps({"cells": list(states), "levels": levels}))
    return states


def page_of(folder: Path, states: dict[str, CellState]) -> str:
    page = write_page(folder, *status_of(folder, states))
    assert page == StudyFolder(folder).status_page
    return page.read_text(encoding="utf-8")


def test_every_run_is_a_row_with_its_state_and_what_files_say_is_shown_as_it_stands(tmp_path: Path) -> None:
    page = page_of(tmp_path, write_study(tmp_path))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page)
    assert Counter(cells[2::4]) == Counter(STATES)
    assert cells[0] == "<code>gpt_neo/gelu/seed1-00000001</code>"
    assert cells[1] == "&lt;b&gt;mine&lt;/b&gt;, size 0.1M"
    assert any("&lt;script&gt;alert(1)&lt;/script&gt; | __init__ (attempt" in cell for cell in cells[3::4])
    assert "7 cells: 2 done, 1 failed, 1 missing, 1 queued, 1 running, 1 waiting" in page
    assert "<script" not in page
    assert "<img" not in page
    assert "report.html" not in page


def drawn(folder: StudyFolder, run_ids: list[str]) -> tuple[str, list[list[float]]]:
    """What the figure's values are, and those of each line of its first family."""
    figure = draw_losses(folder, run_ids)
    assert figure is not None
    return figure.get_supylabel(), [list(line.get_ydata()) for line in figure.axes[0].lines]


def test_a_figure_has_a_line_for_each_run_and_the_report_is_linked(tmp_path: Path) -> None:
    states, folder = write_study(tmp_path), StudyFolder(tmp_path)
    folder.report_dir.mkdir()
    folder.report_file.write_text("# Report")
    run_ids = [*states]
    assert draw_losses(folder, run_ids) is None
    for run_id in run_ids[:2]:
        log(tmp_path / run_id, "loss", {10: 4.0, 20: 3.0, 30: 2.0})
        log(tmp_path / run_id, "eval_loss", {20: 3.5})
    assert drawn(folder, run_ids) == ("training loss (nats a token)", [[4.0, 3.0, 2.0]] * 2)
    log(tmp_path / run_ids[0], "eval_loss", {30: 3.25})
    assert drawn(folder, run_ids) == ("held-out loss (nats a token)", [[3.5, 3.25]])
    page = page_of(tmp_path, states)
    assert page.count("<img") == 1
    assert 'href="../report/report.html"' in page


def test_runs_of_a_tuning_are_drawn_until_one_that_is_compared_has_losses(tmp_path: Path) -> None:
    tuned, compared = write_study(tmp_path), "t5/gelu/seed1-00000009"
    stages = {"cells": [*tuned, compared], "stages": {"tune": [*tuned]}}
    StudyFolder(tmp_path).study_file.write_text(json.dumps(stages))
    for run_id, metric, family in ((next(iter(tuned)), "eval_loss", "GPT-Neo"), (compared, "loss", "T5")):
        log(tmp_path / run_id, metric, {10: 3.0, 20: 2.0})
        figure = draw_losses(StudyFolder(tmp_path), [*tuned, compared])
        assert figure is not None
        assert [axes.get_title() for axes in figure.axes] == [family]


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1e999", "NaN", "true", '"2"'])
def test_strange_numbers_of_a_log_are_passed_over(tmp_path: Path, value: str) -> None:
    lines = [f'{{"step": 1, "loss": {value}}}', f'{{"step": {value}, "loss": 1}}', '{"step": 2, "loss": 4.5}']
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, "\0", "[1]"]), encoding="utf-8")
    assert read_curve(RunFolder(tmp_path), "loss") == [(2, 4.5)]


@pytest.mark.parametrize("damaged", ["study_file", "tuning_file"])
def test_a_damaged_file_stops_no_page(tmp_path: Path, damaged: str) -> None:
    states = write_study(tmp_path)
    getattr(StudyFolder(tmp_path), damaged).write_bytes(b"{\0")
    assert "7 cells: 2 done" in page_of(tmp_path, states)
