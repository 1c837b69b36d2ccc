"""The documents as a site, all pages in the order of their index, and the drawings of the architecture."""

import json
import os
import re
import runpy
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from lxml import html
from markdown_it import MarkdownIt

from base.run.folder_names import Inside, RunFolder, StudyFolder
from ffn_variants import FFN_VARIANTS
from tests.unit.test_repository import DOCUMENTS as PAGES
from tests.unit.test_repository import ROOT

# The documents as a site: all pages, in the order of their index, read as GitHub reads them.
HOOKS = runpy.run_path(str(ROOT / "docs/mkdocs_hooks.py"))
# What a page is made of; a list or a table that is read otherwise shows in their numbers.
PARTS = ("h1", "h2", "h3", "li", "tr", "td", "img", "pre", "strong", "em", "br", "details")


def test_the_index_names_every_page() -> None:
    (*parts,) = HOOKS["sections"]((ROOT / "docs/README.md").read_text(encoding="utf-8"))
    named = {page for part in parts for pages in part.values() for page in pages}
    pages = {page.relative_to(ROOT).as_posix() for page in PAGES} - {"README.md", "docs/README.md"}
    assert named == pages, "docs/README.md names every page in its table"


def test_files_that_pages_link_to_are_there_too(tmp_path: Path) -> None:
    page = ROOT / "docs" / "example-report" / "report.md"
    assert page.parent / "figures" / "forest.svg" in HOOKS["linked_from"](page)
    (tmp_path / "page.md").write_text("[a](/etc/hostname) [b](https://x.org/a) [c](absent.md)")
    assert HOOKS["linked_from"](tmp_path / "page.md") == set()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a link that leads nowhere is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return folder


def place_of(page: Path) -> Path:
    inside = page.relative_to(ROOT)
    return inside.parent / "index.html" if page.name == "README.md" else inside.with_suffix("") / "index.html"


@pytest.mark.slow
def test_pages_are_read_as_github_reads_them(site: Path) -> None:
    reader = MarkdownIt("commonmark").enable("table")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        (article,) = html.fromstring((site / place_of(page)).read_text(encoding="utf-8")).xpath("//article")
        wanted = html.fromstring(f"<div>{reader.render(text)}</div>")
        numbers = [Counter(node.tag for node in tree.iter(*PARTS)) for tree in (wanted, article)]
        assert numbers[0] == numbers[1], page.name
        assert "[!WARNING]" not in article.text_content(), page.name


@pytest.mark.slow
def test_every_page_leads_on(site: Path) -> None:
    for page in PAGES:
        (article,) = html.fromstring((site / place_of(page)).read_text(encoding="utf-8")).xpath("//article")
        places = {str(link).partition("#")[0] for link in article.xpath(".//a/@href")}
        assert any(place.endswith("/") and "://" not in place for place in places), page


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """No font, no picture, no script: only links that are clicked lead out."""
    for page in site.rglob("*.html"):
        tree = html.fromstring(page.read_text(encoding="utf-8"))
        loaded = [*tree.xpath("//@src"), *tree.xpath("//link/@href")]
        assert not [place for place in loaded if re.match(r"(https?:)?//", place)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//|@import", style.read_text(encoding="utf-8")), style


@pytest.mark.slow
def test_pages_can_be_searched(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    places = {entry["location"].partition("#")[0] for entry in found}
    assert {"docs/statistics/", "benchmarks/RESULTS/", "docs/example-report/report/"} <= places
    assert "docs/" not in places  # the index names everything, and would be found first
    boosts = {entry["location"]: entry.get("boost", 1) for entry in found}
    assert boosts["docs/example-report/report/"] < boosts["docs/reading-a-report/"]
    assert any("regret" in entry["text"] for entry in found if "statistics" in entry["location"])


# The drawings of docs/architecture.md: they name what there is, and the committed ones are up to date.
FIGURES = ROOT / "docs" / "figures"


@pytest.fixture(scope="module")
def drawings() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "drawings.py")))


@pytest.mark.parametrize("name", ["block", "run-folder"])
def test_the_committed_drawing_says_what_the_script_draws(drawings: SimpleNamespace, name: str) -> None:
    figure, svg = drawings.draw(name)
    assert svg == drawings.draw(name)[1]
    committed = ElementTree.parse(FIGURES / f"{name}.svg")
    (description,) = committed.iter("{http://purl.org/dc/elements/1.1/}description")
    assert description.text == drawings.words(figure), "run python docs/drawings.py"


def test_the_block_shows_every_variant(drawings: SimpleNamespace) -> None:
    said = drawings.words(drawings.draw("block")[0]).split("; ")
    assert FFN_VARIANTS.keys() - set(said) <= set(drawings.LEFT_OUT)


def test_the_run_folder_has_every_name_that_the_code_knows(drawings: SimpleNamespace) -> None:
    fields = [*vars(RunFolder).values(), *vars(StudyFolder).values()]
    names = {place.name for place in fields if isinstance(place, Inside)}
    shown = {name.strip().rstrip("/") for name, _, _ in drawings.STUDY_FOLDER}
    missing = {name for name in names - shown if not any(part.startswith(".") for part in name.split("/"))}
    # A folder of others, what stands in place of a config in runs/backbones, and parts of folders shown.
    assert missing == {"eval", "backbone.yaml", "report/report.md"}
