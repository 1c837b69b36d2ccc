"""Every kind of page has all of its files, needs none beside its HTML, and comes out the same again."""

import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from base.errors import UsageError
from base.files import ABANDONED_S
from inside.classifier import measures, page
from inside.ffn.measure import REMOVED, RunInspection
from inside.ffn.page import document as inspection
from report.document.document import Document, write_document
from report.document.html import to_html
from report.document.markdown import plain
from report.write import write_report


def report(folder: Path) -> Path:
    generator = np.random.default_rng(0)
    levels = {"gelu": 60, "kan": 61, "x_y": 62}
    runs = [(variant, seed, level) for variant, level in levels.items() for seed in range(4)]
    rows = [("gpt_neo", variant, seed, "blimp", x + generator.normal()) for variant, seed, x in runs]
    source = folder.parent / "scores.csv"
    table = pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])
    table.to_csv(source, index=False)
    write_report(source, folder)
    return folder / "report.md"


def an_inspection(folder: Path) -> Path:
    generator = np.random.default_rng(0)

    def losses() -> list[float]:
        return [3.0, *(3.5 + generator.normal(size=len(REMOVED) - 2)), math.inf]

    groups = {
        variant: [
            RunInspection(
                run_id=f"gpt_neo/{variant}/seed{seed}", family="gpt_neo", variant=variant, seed=seed,
                ffn_parameters=1000, num_tokens=100, loss=3.0, activations=[], edges=[],
                pruning={"importance": losses(), "random": losses()},
            )
            for seed in range(3)
        ]
        for variant in ("gelu", "x_y")
    }  # fmt: skip
    return write_document(inspection(groups, [], "<b>", "ffn-ablations inspect runs/x"), folder, "inspection")


def texts(folder: Path) -> Path:
    text = "Dull. But *what* an end!"
    spans, scores = np.array([[0, 5], [6, 24]]), np.array([-1, 2])
    example = page.Explained("1", "good", "good", "good", 0.9, text, spans, scores)
    return write_document(explanation(page.document([example], "One.", "sst2")), folder, "explanation")


def measures_of_segments(folder: Path) -> Path:
    rows = [{"selection": "highest", "accuracy": 60.0}, {"selection": "x | y", "accuracy": math.nan}]
    return write_document(explanation(measures.measured("sst2", rows, "In percent.")), folder, "explanation")


def concept_spaces(folder: Path) -> Path:
    generator = np.random.default_rng(0)
    points, labels = generator.normal(size=(30, 2, 3)), generator.integers(0, 2, 30)
    document = page.spaces_document(points, labels, ["a", "b"], "sst2")
    return write_document(explanation(document), folder, "explanation")


def explanation(document: Document) -> Document:
    return replace(document, command="ffn-ablations explain 'runs/a study' sst2")


KINDS: dict[str, tuple[Callable[[Path], Path], int, int]] = {
    "report": (report, 1, 2),
    "inspection": (an_inspection, 1, 1),
    "texts": (texts, 0, 1),
    "measures": (measures_of_segments, 0, 1),
    "spaces": (concept_spaces, 1, 1),
}
"""What writes each kind of page into a folder, and how many figures and tables it has at least."""


class Addresses(HTMLParser):
    """What a browser would fetch for a page, and the alternative text of its images."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched, self.alternatives = list[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        names = ("src", "srcset", "data", "poster", *(("href",) if tag == "link" else ()))
        self.fetched += [values[name] for name in names if name in values]
        assert tag not in ("script", "iframe", "object")
        assert not any(name.startswith("on") for name in values)
        assert values.get("href", "#").startswith(("#", "data:"))
        if tag == "img":
            self.alternatives.append(values["alt"])


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_its_files_and_comes_out_the_same_again(kind: str, tmp_path: Path) -> None:
    write, least_figures, least_tables = KINDS[kind]
    folder = tmp_path / "page"
    markdown = write(folder)
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    before = {name: path.read_bytes() for name, path in files.items()}

    stem = markdown.stem
    figures = {path.stem for path in folder.glob("figures/*.svg")}
    tables = {path.stem for path in folder.glob("tables/*.csv")}
    expected = {f"{stem}.{suffix}" for suffix in ("html", "json", "md")}
    expected |= {f"figures/{name}.svg" for name in figures}
    assert files.keys() == expected | {f"tables/{name}.csv" for name in tables}
    assert len(figures) >= least_figures
    assert len(tables) >= least_tables
    assert markdown.stat().st_mtime_ns == max(path.stat().st_mtime_ns for path in files.values())

    text = markdown.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert "\n## Reproduce\n\n```bash\nffn-ablations " in text
    assert set(re.findall(r"\]\(figures/(.*?)\.svg\)", text)) == figures

    html = (folder / f"{stem}.html").read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert '<meta name="viewport" content="width=device-width, initial-scale=1"' in html
    addresses = Addresses(html)
    assert all(address.startswith("data:") for address in addresses.fetched)
    assert len(addresses.alternatives) == len(figures)
    assert all(addresses.alternatives)
    assert not re.search(r"@import|url\(", html)

    content = json.loads((folder / f"{stem}.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert content["command"] in text
    for name in tables:
        table = pd.read_csv(folder / "tables" / f"{name}.csv")
        assert len(table) == len(content[name])
        assert all(list(row) == list(table.columns) for row in content[name])
    for name in figures:
        assert ElementTree.parse(folder / "figures" / f"{name}.svg").getroot().tag.endswith("svg")

    shutil.rmtree(folder)
    write(folder)
    assert {name: (folder / name).read_bytes() for name in before} == before


def document(**changed: object) -> Document:
    empty = {"title": "t", "blocks": (), "figures": {}, "tables": {}, "record": {}, "command": "x"}
    return Document(**empty | changed)


def test_a_record_holds_what_json_has_no_word_for_as_null(tmp_path: Path) -> None:
    record = {"a": [math.nan, np.float32("inf"), np.int64(3)], "b": {"c": (-math.inf, 1.5, None, True)}}
    write_document(document(record=record, tables={"d": pd.DataFrame({"x": [math.nan, 2.0]})}), tmp_path)
    content = json.loads((tmp_path / "report.json").read_text(), parse_constant=refuse)
    assert content["a"] == [None, None, 3]
    assert content["b"] == {"c": [None, 1.5, None, True]}
    assert content["d"] == [{"x": None}, {"x": 2.0}]


def test_no_number_hides_another_of_its_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'runs'"):
        write_document(document(record={"runs": 1}, tables={"runs": pd.DataFrame()}), tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        write_document(document(), tmp_path / "x")


def test_what_killed_processes_left_is_removed_and_what_others_write_is_not(tmp_path: Path) -> None:
    left, fresh = tmp_path / "report.md.tmp-1", tmp_path / "report.json.tmp-2"
    for path in (left, fresh):
        path.write_text("half")
    old = time.time() - ABANDONED_S - 60
    os.utime(left, (old, old))
    write_document(document(), tmp_path)
    assert not left.exists()
    assert fresh.exists()


@pytest.mark.parametrize(
    "title", ["a_b", "_a_", "__init__", "*a*", "`a`", "<b>&lt;", "[a](b)", "- a", "1. a", "#1", "~~a~~"]
)
def test_a_title_is_shown_as_it_stands(title: str) -> None:
    class Text(HTMLParser):
        shown = ""

        def handle_data(self, data: str) -> None:
            self.shown += data

    reader = Text()
    reader.feed(to_html(plain(title), "", {}).partition("<main>")[2])
    assert reader.shown.strip() == title
    assert plain("x_y") == "x_y"
