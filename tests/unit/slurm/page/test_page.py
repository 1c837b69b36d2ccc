"""The page of a study: what it holds of a made-up study, and how a real browser shows it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from pretrain.run.folders import StudyFolder
from slurm.page.chart import Line, draw, style_of
from slurm.page.contents import read_contents
from slurm.page.html import render
from slurm.page.write import write_page
from slurm.state.cell_state import CellState

RATES = ("0.001", "0.003")
STATES = ("done", "done", "running", "queued", "waiting", "failed", "missing")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _study(folder: Path, states: tuple[str, ...] = STATES) -> dict[str, CellState]:
    """A study of two variants, one with markup for a name, at two sizes, of which one stage was tuned."""
    found: dict[str, CellState] = {}
    levels: dict[str, dict[str, str]] = {}
    tune: list[str] = []
    for place, (variant, size, rate) in enumerate(
        (variant, size, rate)
        for variant in ("gelu", "<b>mine</b>")
        for size in ("0.1M", "2M")
        for rate in RATES
    ):
        run_id = f"gpt_neo/{'gelu' if variant == 'gelu' else 'mine'}/seed101-{place:08x}"
        levels[run_id] = {"variant": variant, "size": size, "optim.learning_rate": rate}
        tune.append(run_id)
        found[run_id] = CellState(name="done", started_s=1.0, finished_s=9.0)
        _log(folder / run_id, 3.0 + float(rate) * 10, 5)
    for seed, name in enumerate(states, 1):
        run_id = f"gpt_neo/gelu/seed{seed}-{seed:08x}"
        levels[run_id] = {"variant": "gelu", "size": "0.1M"}
        error = "<script>alert(1)</script>" if name == "failed" else ""
        found[run_id] = CellState(name=name, error=error, started_s=1.0, finished_s=3.0)  # type: ignore[arg-type]
        if name in ("done", "running"):
            _log(folder / run_id, 2.0 + seed, 5)
    content: dict[str, Any] = {
        "cells": list(found), "levels": levels, "axes": {"size": ["0.1M", "2M"]}, "stages": {"tune": tune}
    }  # fmt: skip
    StudyFolder(folder).study_file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return found


def _log(run: Path, end: float, num_lines: int) -> None:
    run.mkdir(parents=True)
    lines = [{"step": 10 * i, "loss": end + 1 / i, "max_steps": 50} for i in range(1, num_lines + 1)]
    lines += [{"step": 10 * i, "eval_loss": end + 1 / i} for i in range(1, num_lines + 1)]
    text = "\n".join(map(json.dumps, lines)) + '\n{"step": 60, "lo'  # a line that is being written
    (run / "metrics.jsonl").write_text(text, encoding="utf-8")


def _page(folder: Path, states: dict[str, CellState]) -> str:
    return render(read_contents(folder, states, left="about 5 min left"), str(folder), 10.0)


def test_every_cell_is_a_square_of_its_state(tmp_path: Path) -> None:
    states = _study(tmp_path)
    page = _page(tmp_path, states)
    shown = Counter(re.findall(r'<span class="cell (\w+)"', page))
    assert shown == Counter(state.name for state in states.values())
    assert "10 of 15 cells done" in page
    assert "about 5 min left" in page
    assert "Tuning cells" in page
    assert "learning_rate 0.001" in page


def test_means_and_the_best_rate_are_those_of_the_logs(tmp_path: Path) -> None:
    page = _page(tmp_path, _study(tmp_path))
    # Held-out losses of seeds 1, 2 and 3 end at 3.2, 4.2 and 5.2; those of the tuning at 3.21 and 3.23.
    assert "gelu: 4.200 at step 50, runs: 3" in page
    assert "gelu: best 3.210 at 0.001" in page


def test_what_files_say_is_shown_and_not_run(tmp_path: Path) -> None:
    page = _page(tmp_path, _study(tmp_path))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<b>mine</b>" not in page
    assert "&lt;b&gt;mine&lt;/b&gt;" in page


@pytest.mark.parametrize(("states", "loads_again"), [(STATES, True), (("done", "failed"), False)])
def test_it_loads_itself_again_while_cells_are_at_work(
    tmp_path: Path, states: tuple[str, ...], loads_again: bool
) -> None:
    assert ('http-equiv="refresh"' in _page(tmp_path, _study(tmp_path, states))) is loads_again


def test_the_newest_report_is_told(tmp_path: Path) -> None:
    states, folder = _study(tmp_path), StudyFolder(tmp_path)
    folder.report_dir.mkdir()
    comparison = {
        "family": None, "is_primary": True, "contrast": "kan - gelu", "benchmark": "held-out-loss",
        "estimate": -0.5, "low": -0.75, "high": -0.25, "is_relative": True, "verdict": "better",
    }  # fmt: skip
    report = {
        "answer": ["`kan` is better."],
        "comparisons": [comparison, comparison | {"family": "t5"}, None],
    }
    (folder.report_dir / "report.json").write_text(json.dumps(report), encoding="utf-8")
    folder.report_file.write_text("# Report\n", encoding="utf-8")
    page = _page(tmp_path, states)
    assert "<code>kan</code> is better." in page
    assert "-0.5% [-0.75%, -0.25%]" in page
    assert page.count("kan - gelu") == 1
    of_one_family = {
        "comparisons": [
            comparison | {"family": "gpt_neo", "low_simultaneous": -0.8, "high_simultaneous": -0.1}
        ]
    }
    (folder.report_dir / "report.json").write_text(json.dumps(of_one_family), encoding="utf-8")
    assert "<td>kan - gelu</td><td>held-out-loss</td><td>-0.5% [-0.8%, -0.1%]</td><td>better</td>" in _page(
        tmp_path, states
    )
    (folder.report_dir / "report.json").write_text('{"answer"', encoding="utf-8")
    assert "report.json is damaged" in _page(tmp_path, states)


@pytest.mark.parametrize("damaged", ["study_file", "tuning_file", "decisions_file"])
def test_a_damaged_file_stops_no_page(tmp_path: Path, damaged: str) -> None:
    states = _study(tmp_path)
    getattr(StudyFolder(tmp_path), damaged).write_bytes(b"{\0")
    assert 'class="cell done"' in _page(tmp_path, states)


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1.7e308", "1e999", "NaN", "true", '"2"', "[]"])
def test_a_log_with_strange_numbers_stops_no_page(tmp_path: Path, value: str) -> None:
    states = {"gpt_neo/gelu/seed1-1": CellState(name="running", host="here")}
    (tmp_path / "gpt_neo/gelu/seed1-1").mkdir(parents=True)
    lines = [f'{{"step": 1, "loss": {value}}}', f'{{"step": {value}, "loss": 1}}', '{"step": 2, "loss": 4.5}']
    (tmp_path / "gpt_neo/gelu/seed1-1/metrics.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "study.yaml").write_text("stages: {main: 5, tune: [[1]], shared: x}\n", encoding="utf-8")
    assert "gelu: 4.500 at step 2, runs: 1" in _page(tmp_path, states)


def test_a_square_tells_where_its_run_stands(tmp_path: Path) -> None:
    titles = re.findall(r'title="([^"]*)"', _page(tmp_path, _study(tmp_path)))
    assert any("seed3, running, step 50/50" in title for title in titles)
    assert any("seed1, done" in title and "held-out loss 3.200" in title for title in titles)


def test_no_two_variants_look_alike() -> None:
    assert len({style_of(place) for place in range(40)}) == 40


def test_a_steep_start_leaves_the_chart_and_is_no_plateau_at_its_top() -> None:
    points = [(float(step), 2.0 + 8.0 * 0.5**step) for step in range(20)]
    chart = draw([Line(name="gelu", place=0, points=points)], "step")
    drawn = re.search(r'<polyline class="line c0" points="([^"]*)"', chart)
    assert drawn
    heights = [float(pair.split(",")[1]) for pair in drawn[1].split()]
    assert heights[0] < heights[1] < heights[2] < 0  # above the picture, each as far as its loss says
    assert (heights[1] - heights[0]) / (heights[2] - heights[1]) == pytest.approx(2, rel=0.01)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page with")
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_without_scrolling_sideways(tmp_path: Path, width: int) -> None:
    """The page's own width is measured by a copy in a frame of that width, whose script may run."""
    states = _study(tmp_path)
    write_page(tmp_path, states)
    page = StudyFolder(tmp_path).status_page.read_text(encoding="utf-8")
    without = re.sub(r"<meta http-equiv=[^>]*>", "", page, flags=re.S)
    script = (
        "<script>onload = () => { const d = document; d.body.dataset.wide = d.documentElement.scrollWidth;"
        " d.body.dataset.squares = d.querySelectorAll('.cell').length;"
        " d.body.dataset.charts = d.querySelectorAll('figure svg').length; }</script>"
    )
    probe = tmp_path / "probe.html"
    probe.write_text(without.replace("</body>", f"{script}</body>"), encoding="utf-8")
    frame = tmp_path / "frame.html"
    frame.write_text(
        f"<iframe src='probe.html' style='width:{width}px;height:900px;border:0'></iframe><script>"
        "onload = () => { const data = document.querySelector('iframe').contentDocument.body.dataset;"
        " document.body.append(JSON.stringify(data)); }</script>",
        encoding="utf-8",
    )
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += ["--virtual-time-budget=5000", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    shown = subprocess.run(
        [*command, frame.as_uri()], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    found = re.search(r'\{"wide".*?\}', shown)
    assert found, shown[-500:]
    measured = json.loads(found[0])
    assert int(measured["wide"]) <= width
    assert int(measured["squares"]) == len(states)
    assert int(measured["charts"]) >= 2
