"""A part of one's own, by the page that says how."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pandas as pd
import pytest

import report.parts
from base.errors import UsageError
from report.compute import analyse
from report.inputs.sources import read_source
from report.part import Part
from report.parts import PARTS
from report.request import Request
from report.write import write_report
from tests.unit.report.significance.comparing import table


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    arms = {("f", name): rng.normal(60, 1, 4).tolist() for name in ("gelu", "kan")}
    table(arms, "b").to_csv(tmp_path / "scores.csv", index=False)
    return tmp_path / "scores.csv"


@pytest.fixture
def part(tmp_path: Path, repository: Path) -> Path:
    """The page's example."""
    page = (repository / "docs" / "adding-a-part.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "steadiness.py"
    file.write_text(code)
    return file


def test_the_example_of_the_page_is_in_every_file_of_the_report(scores: Path, part: Path, tmp_path: Path):
    out = tmp_path / "out"
    write_report(scores, out, Request(part=(f"{part}:PART",)))
    expected = pd.read_csv(scores).groupby("variant").score.std()
    written = pd.read_csv(out / "tables" / "steadiness.csv").set_index("variant").sd
    assert written.to_dict() == pytest.approx(expected.to_dict())
    assert [row["sd"] for row in json.loads((out / "report.json").read_text())["steadiness"]] == (
        pytest.approx([expected["gelu"], expected["kan"]])
    )
    text = (out / "report.md").read_text()
    assert f"<summary>Steadiness: smallest for <code>{expected.idxmin()}</code></summary>" in text
    assert "(figures/steadiness.svg)" in text
    assert f"--part {part}:PART" in text
    assert (out / "figures" / "steadiness.png").exists()
    assert "Steadiness" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (None, "mine.py:PART", "no such file"),
        ("PART = 1", "mine.py:PART", "PART is no Part; Available: none"),
        ("1 / 0", "mine.py:PART", "the file fails: ZeroDivisionError"),
        ("", "mine.txt:PART", "no such file"),
        ("from report.parts.power import PART", "mine.py:PART", "its name 'power' is that of another"),
    ],
)
def test_a_file_that_holds_no_part_is_told_in_one_line(
    scores: Path, tmp_path: Path, content: str | None, place: str, message: str
):
    if content is not None:
        (tmp_path / place.split(":")[0]).write_text(content)
    with pytest.raises(UsageError, match=message):
        analyse(read_source(scores), Request(part=(f"{tmp_path / place}",)))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ('tables=lambda a, r: {"scores": a.arms}', "parts 'scores' and 'mine' both have a table 'scores'"),
        ('figures=lambda a, r: {"seeds": print}', "parts 'scores' and 'mine' both have a figure 'seeds'"),
        ('tables=lambda a, r: {"variants": a.arms}', r"\['variants'\] are names of report.json's own"),
        ('figures=lambda a, r: {"bars": Figure}', "the figure 'bars' has no words"),
        ('figures=lambda a, r: {"bars": lambda: (Figure(), "")}', "the figure 'bars' has no words"),
    ],
)
def test_what_a_part_forgets_or_takes_from_another_is_named_and_nothing_written(
    scores: Path, tmp_path: Path, made: str, message: str
):
    (tmp_path / "mine.py").write_text(
        "from matplotlib.figure import Figure\n"
        "from report.part import Part, Section\n"
        "def section(analysis, result, page):\n"
        "    return Section(title='Mine', summary='', body='')\n"
        f"PART = Part(name='mine', compute=lambda a: True, section=section, {made})\n"
    )
    with pytest.raises(UsageError, match=message):
        write_report(scores, tmp_path / "out", Request(part=(f"{tmp_path / 'mine.py'}:PART",)))
    assert not (tmp_path / "out").exists()


def test_every_file_of_parts_is_in_the_list():
    files = [import_module(f"report.parts.{found.name}") for found in iter_modules(report.parts.__path__)]
    forgotten = [file.__name__ for file in files if getattr(file, "PART", None) not in PARTS]
    assert not forgotten, f"not in PARTS of report/parts/__init__.py: {forgotten}"


def test_parts_have_names_of_their_own():
    assert all(isinstance(part, Part) for part in PARTS)
    assert len({part.name for part in PARTS}) == len(PARTS)
