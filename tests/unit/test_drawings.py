"""The drawings of docs/architecture.md: they name what there is, and the committed ones are up to date."""

from __future__ import annotations

import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from base.run.folder_names import Inside, RunFolder, StudyFolder
from ffn_variants import FFN_VARIANTS
from tests.unit.test_repository import FLOORS

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"


@pytest.fixture(scope="module")
def drawings() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "drawings.py")))


def _said(figure: Figure) -> set[str]:
    return {text.get_text() for axes in figure.axes for text in (*axes.texts, axes.title)}


@pytest.mark.parametrize("name", ["block", "run-folder", "floors"])
def test_the_committed_drawing_says_what_the_script_draws(drawings: SimpleNamespace, name: str) -> None:
    figure, svg = drawings.draw(name)
    assert svg == drawings.draw(name)[1]
    committed = ElementTree.parse(FIGURES / f"{name}.svg")
    (description,) = committed.iter("{http://purl.org/dc/elements/1.1/}description")
    assert description.text == drawings.words(figure), "run python docs/drawings.py"


def test_the_block_shows_every_variant(drawings: SimpleNamespace) -> None:
    assert FFN_VARIANTS.keys() - _said(drawings.draw("block")[0]) <= set(drawings.LEFT_OUT)


def test_the_floors_have_every_package_and_every_folder_of_eval(drawings: SimpleNamespace) -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    inside = {path.parent.name for path in ROOT.glob("eval/*/__init__.py")}
    inside |= {path.name for path in ROOT.glob("eval/*.py")} - {"__init__.py"}
    assert packages | inside <= _said(drawings.draw("floors")[0])
    drawn = [{name.removesuffix(".py") for name, _ in rooms} for rooms in drawings.EVAL_FLOORS]
    assert drawn == [set(floor.split()) for floor in reversed(FLOORS["eval"])]
    packages = [{name for name, _ in rooms} for rooms in drawings.PACKAGES]
    assert packages == [set(floor.split()) for floor in reversed(FLOORS[""])]


def test_the_run_folder_has_every_name_that_the_code_knows(drawings: SimpleNamespace) -> None:
    names = {
        place.name
        for folder in (RunFolder, StudyFolder)
        for place in vars(folder).values()
        if isinstance(place, Inside)
    }
    shown = {name.strip().rstrip("/") for name, _, _ in drawings.STUDY_FOLDER}
    missing = {name for name in names - shown if not any(part.startswith(".") for part in name.split("/"))}
    # A folder of others, what stands in place of a config in runs/backbones, and parts of folders shown.
    assert missing == {
        "eval",
        "backbone.yaml",
        "report/report.md",
        "status/status.html",
    }
