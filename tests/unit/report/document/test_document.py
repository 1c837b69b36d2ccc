"""Numbers that do not contradict what is said of them, and a page that runs nothing that a name says."""

import base64
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from report.document.html import to_html
from report.document.markdown import amount, interval, signed
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison
from report.significance.factor import Contrast
from scores.metrics import Metric
from tests.cases import diagonal_is_fast, listed

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><circle r="4"/></svg>'
REPORT = Path(__file__).with_name("page.txt").read_text(encoding="utf-8")
VOID = {"meta", "img", "br", "hr", "link"}


class Page(HTMLParser):
    """Elements with their attributes and the text under each, checked to be closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.elements, self.open, self.said = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(((*self.open,), data))

    def text_in(self, tag: str) -> str:
        return "".join(data for path, data in self.said if tag in path)

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(to_html(REPORT, "A <study>", {"figures/forest-blimp.svg": SVG}))


def test_tables_details_and_code_are_kept(page: Page):
    assert len(page.all("table")) == 2
    assert [box.get("class") for box in page.all("div")] == ["table", "table"]  # each scrolls by itself
    cells = [data for path, data in page.said if "td" in path and data.strip()]
    assert cells == ["none", "different", " -2.61 ", "[-4.16, -1.06]", "a|b", "inconclusive", "50.1"]
    assert len(page.all("details")) == 1
    assert page.text_in("summary") == "blimp & more, percent"
    assert "50.1" in page.text_in("details")
    assert page.text_in("pre") == "python -m report x --contrast 'a - b' && echo \"<done>\"\n"


def test_sentences_in_cells_get_room_and_numbers_do_not():
    row = (
        "| outlier<br>one run only of gpt_neo kan, roberta kan | worse<br>+1.73 [-15.24, +18.70] | 12 / 12 |"
    )
    page = Page(to_html(f"| a | b | c |\n| --- | --- | --- |\n{row}", "t", {}))
    assert [cell.get("class") for cell in page.all("td")] == ["long", None, None]


def test_alerts_become_boxes(page: Page):
    titles = [data for path, data in page.said if path[-3:] == ("blockquote", "p", "strong")]
    assert titles == ["Warning", "Note"]  # the style sheet makes a box of them; the third is a quote
    said = page.text_in("blockquote")
    assert "[!" not in said
    expected = "Warning 6 scores are missing, named under Design. a note Note Plain words. A quote."
    assert " ".join(said.split()) == expected


def test_images_are_embedded_with_their_alt_text(page: Page):
    (image,) = page.all("img")
    assert image["alt"] == 'Forest "plot", <blimp>'
    kind, data = image["src"].split(",", 1)
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).decode() == SVG


def test_an_image_that_is_not_there_is_told_and_not_fetched():
    page = Page(to_html("![a plot](https://example.org/x.png)", "t", {}))
    assert not page.all("img")
    assert page.text_in("em") == "a plot"


HOSTILE = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<details onclick=x>", "<b>"]
HOSTILE += ["[x](javascript:alert(1))", "$title ${body} {{x}}"]
PLACES = ["| task |\n| --- |\n| {} |", "{}", "- {}", "# {}", "`{}`"]


@pytest.mark.parametrize(("name", "markdown"), diagonal_is_fast(HOSTILE, PLACES))
def test_names_are_shown_and_never_run(name: str, markdown: str):
    page = Page(to_html(markdown.replace("{}", name), name, {}))
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "b", "details", "a"}
    assert name in page.text_in("main")
    assert page.text_in("title") == name


BETWEEN = Comparison(
    benchmark=Benchmark("x"),
    metric=Metric(name="x"),
    digits=1,
    contrast=Contrast(("a",), ("b",)),
    family="f",
    families=("f",),
    num_runs_plus=3,
    num_runs_minus=3,
)


def test_what_rounds_to_zero_has_no_sign():
    signs = [signed(value, 1) for value in (-0.04, 0.04, -0.06, 0.0, None)]
    assert signs == ["0.0", "0.0", "-0.1", "0.0", "-"]


def test_what_few_runs_leave_open_is_no_row_of_digits():
    percent = replace(BETWEEN, low=-38_968.9, high=7_359_932_210_872.9)
    assert interval(percent) == "[-38968.9, +7e+12]"
    assert [amount(x, percent) for x in (99.96, 100.0, 7e12)] == ["100.0 points", "any size", "any size"]
    assert [amount(x, percent) for x in (0.0, 0.0004)] == ["0.0 points", "0.0004 points"]
    assert amount(120.0, replace(percent, metric=Metric(name="x", unit="nats"))) == "120.0 nats"


@pytest.mark.parametrize(("low", "high", "text"), listed(__file__, "intervals"))
def test_an_interval_without_zero_does_not_end_at_zero(low: float, high: float, text: str):
    assert interval(replace(BETWEEN, low=low, high=high)) == text
