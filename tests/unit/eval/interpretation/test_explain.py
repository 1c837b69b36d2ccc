"""The page that explains predictions, from made-up data, and what the command reads and refuses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from eval.config import EvalConfig
from eval.interpretation.arguments import ExplainArguments
from eval.interpretation.page import Explained, Segment, blocks, choose_examples
from eval.report.document.document import Document
from eval.report.document.html import to_html

TEXT = "A <b>dull</b> start. But what an end & how!"
EXAMPLE = Explained(
    idx="7",
    text=TEXT,
    labels=("bad",),
    predictions=("good",),
    shown="good",
    probabilities={"bad": 0.1, "good": 0.9},
    segments=[
        Segment(0, 20, TEXT[:20], {"bad": 1.5, "good": -0.5}),
        Segment(21, 43, TEXT[21:], {"bad": -2.0, "good": 2.0}),
    ],
)


def to_page(examples: Sequence[Explained], title: str, intro: str) -> str:
    page = blocks(examples, intro)
    document = Document(title=title, blocks=page, figures={}, tables={}, record={}, command="")
    return to_html(document.markdown, title, {})


class Reader(HTMLParser):
    """Collects the last text with shades, its shades and every address that a browser would ask for."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.spans, self.addresses = "", list[tuple[str, str, str]](), list[str]()
        self._paragraph, self._shades, self._look = "", list[tuple[str, str, str]](), ("", "")
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.addresses += [values[name] for name in ("src", "href") if name in values]
        if tag == "p":
            self._paragraph, self._shades = "", []
        elif tag == "mark":
            self._look = (f"{values['class']} {values['style']}", values.get("title", ""))
        elif tag == "br":
            self._paragraph += "\n"

    def handle_endtag(self, tag: str) -> None:
        if tag == "p" and self._shades:
            self.text, self.spans = self._paragraph, self._shades
        self._look = ("", "")

    def handle_data(self, data: str) -> None:
        self._paragraph += data
        if self._look[0]:
            self._shades.append((data, *self._look))


def alpha(style: str) -> float:
    return float(style.rpartition("--strength:")[2])


def test_the_page_shows_the_text_and_its_segments() -> None:
    reader = Reader(to_page([EXAMPLE], "Title <x>", "Intro & more."))
    assert reader.text == "A <b>dull</b> start. But what an end & how!"
    against, favour = reader.spans
    assert against[0] == "A <b>dull</b> start."
    assert against[2] == "segment 1: -0.500"
    assert favour[2] == "segment 2: +2.000"
    # Other hues, and strength in proportion to the score.
    assert (against[1].split()[0], favour[1].split()[0]) == ("against", "favour")
    assert alpha(favour[1]) == pytest.approx(4 * alpha(against[1]), abs=0.002)
    assert reader.addresses == []


@pytest.mark.parametrize(
    "text",
    [
        "- no list",
        "1. no list",
        "# no heading",
        "a | b",
        "*a* _b_ `c` ~d~",
        "&lt; [x](y) \\* ![z](w)",
        "a\n\nb",
        "> c",
    ],
)
def test_a_text_is_shown_as_it_stands(text: str) -> None:
    segments = [Segment(0, len(text), text, {"good": 1.0})]
    assert Reader(to_page([replace(EXAMPLE, text=text, segments=segments)], "t", "i")).text == text


def test_the_page_is_one_safe_file_for_narrow_screens_too() -> None:
    example = replace(EXAMPLE, labels=("<script>",))
    page = to_page([example], "Title <x>", "Intro & more.")
    assert "<script" not in page
    assert "<b>dull" not in page
    assert ">Title &lt;x&gt;</h1>" in page
    assert "is &lt;script&gt;, predicted good; good has probability 90.0%" in page
    assert ">7: wrong<" in page
    assert "width=device-width" in page
    assert not re.search(r"https?:|url\(|@import", page)
    assert page == to_page([example], "Title <x>", "Intro & more.")


def test_overlapping_windows_are_shaded_by_their_mean() -> None:
    spans = [(0, 6, 2.0), (4, 10, 1.0), (12, 14, 0.0)]
    text = "0123456789abcdef"
    segments = [Segment(start, stop, text[start:stop], {"good": score}) for start, stop, score in spans]
    reader = Reader(to_page([replace(EXAMPLE, text=text, segments=segments)], "t", "i"))
    assert reader.text == text
    assert [text for text, _, _ in reader.spans] == ["0123", "45", "6789", "cd"]
    strengths = [alpha(style) for _, style, _ in reader.spans]
    np.testing.assert_allclose(np.array(strengths) / strengths[0], [1, 0.75, 0.5, 0], atol=0.01)
    assert reader.spans[1][2] == "segment 1: +2.000; segment 2: +1.000"


def test_scores_of_zero_alone_make_a_page() -> None:
    segments = [Segment(0, 2, "A ", {"good": 0.0})]
    assert 'class="against" style="--strength:0.000"' in to_page(
        [replace(EXAMPLE, segments=segments)], "t", "i"
    )
    assert "Title" in to_page([replace(EXAMPLE, segments=[])], "Title", "i")
    assert "Title" in to_page([], "Title", "i")


def test_several_labels() -> None:
    several = replace(EXAMPLE, predictions=("bad", "good"), labels=("bad", "good"))
    assert several.is_right
    assert "is bad, good, predicted bad, good" in to_page([several], "t", "i")
    assert "predicted none" in to_page([replace(EXAMPLE, predictions=())], "t", "i")


@pytest.mark.parametrize(
    ("num_right", "num_wrong", "number", "expected"),
    [(90, 10, 8, (4, 4)), (90, 2, 8, (6, 2)), (1, 90, 8, (1, 7)), (0, 5, 9, (0, 5)), (5, 5, 3, (2, 1))],
)
def test_right_and_wrong_examples_are_chosen(
    num_right: int, num_wrong: int, number: int, expected: tuple[int, int]
) -> None:
    is_right = np.random.default_rng(0).permutation(np.arange(num_right + num_wrong) < num_right)
    chosen = choose_examples(is_right, number)
    assert (is_right[chosen].sum(), (~is_right[chosen]).sum()) == expected
    assert (np.diff(chosen) > 0).all()
    assert np.array_equal(chosen, choose_examples(is_right, number))


def settings(run: Path, **given: object) -> EvalConfig:
    return ExplainArguments.model_validate({"run": run, "task": "sst2", **given}).settings()


def test_the_study_of_a_run_says_how_and_flags_replace_it(tmp_path: Path) -> None:
    run = tmp_path / "study" / "gpt_neo" / "gelu" / "seed1-0"
    run.mkdir(parents=True)
    (tmp_path / "study" / "study.yaml").write_text(
        "evaluation:\n  embedded_seed: 5\n  finetune:\n    weight_decay: 0.1\n    num_train_epochs: 3\n"
        '    head: ["linear", "swipe pooling=sum", "swipe"]\n'
    )
    config = settings(run, num_train_epochs=7, device="cpu")
    assert (config.embedded_seed, config.device) == (5, "cpu")
    assert (config.finetune.weight_decay, config.finetune.num_train_epochs) == (0.1, 7)
    assert config.finetune.head == ("swipe pooling=sum",)
    assert settings(run, plot="spaces").finetune.head == ("space",)
    assert settings(run, head=["swipe window=8"]).finetune.head == ("swipe window=8",)
    assert settings(tmp_path, measure="segments").finetune.head == ("swipe segments=turns",)
    assert settings(tmp_path, head=["swipe"]) == EvalConfig.model_validate({"finetune": {"head": ["swipe"]}})
