"""The page and the JSON that explain predictions, from made-up data, and the command's mistakes."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from base.errors import UsageError
from eval.interpretation.arguments import ExplainArgs, config_with_head
from eval.interpretation.explanation_files import explain
from eval.interpretation.explanations import Explained, choose_examples, to_json, to_page

NAMES = ["bad", "good"]


def example(**changes: object) -> Explained:
    values: dict = {
        "idx": "7",
        "text": "A <b>dull</b> start. But what an end & how!",
        "spans": np.array([[0, 20], [21, 43]]),
        "scores": np.array([[1.5, -0.5], [-2.0, 2.0]]),
        "probabilities": np.array([0.1, 0.9]),
        "predicted": 1,
        "predictions": (1,),
        "labels": (0,),
    }
    values.update(changes)
    return Explained(**values)


class Reader(HTMLParser):
    """Collects the text of the shaded document, its spans and every address that a browser would ask for."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.spans, self.addresses = "", list[tuple[str, str, str]](), list[str]()
        self._in_document, self._style = False, ("", "")
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.addresses += [values[name] for name in ("src", "href") if name in values]
        if values.get("class") == "document":
            self._in_document = True
        elif tag == "span" and self._in_document:
            self._style = (values["style"], values["title"])

    def handle_endtag(self, tag: str) -> None:
        if tag == "div":
            self._in_document = False
        self._style = ("", "")

    def handle_data(self, data: str) -> None:
        if self._in_document:
            self.text += data
            if self._style[0]:
                self.spans.append((data, *self._style))


def alpha(style: str) -> float:
    return float(re.findall(r"[\d.]+(?=\))", style)[0])


def test_the_page_shows_the_text_and_its_segments() -> None:
    reader = Reader(to_page([example()], NAMES, "Title <x>", "Intro & more."))
    assert reader.text == "A <b>dull</b> start. But what an end & how!"
    against, favour = reader.spans
    assert against[0] == "A <b>dull</b> start."
    assert against[2] == "segment 1: -0.500"
    assert favour[2] == "segment 2: +2.000"
    # Other hues, and strength in proportion to the score.
    assert against[1].split(",")[0] != favour[1].split(",")[0]
    assert alpha(favour[1]) == pytest.approx(4 * alpha(against[1]), abs=0.002)
    assert reader.addresses == []


def test_the_page_is_one_safe_file_for_narrow_screens_too() -> None:
    page = to_page([example()], ["<script>", "good"], "Title <x>", "Intro & more.")
    assert "<script" not in page
    assert "<b>dull" not in page
    assert "Title &lt;x&gt;" in page
    assert "is &lt;script&gt;, predicted good; good has probability 90.0%" in page
    assert ">wrong<" in page
    assert "width=device-width" in page
    assert not re.search(r"https?:|url\(|@import", page)
    assert page == to_page([example()], ["<script>", "good"], "Title <x>", "Intro & more.")


def test_overlapping_windows_are_shaded_by_their_mean() -> None:
    spans, scores = np.array([[0, 6], [4, 10], [12, 14]]), np.array([[0, 2.0], [0, 1.0], [0, 0.0]])
    reader = Reader(to_page([example(text="0123456789abcdef", spans=spans, scores=scores)], NAMES, "t", "i"))
    assert reader.text == "0123456789abcdef"
    assert [text for text, _, _ in reader.spans] == ["0123", "45", "6789", "cd"]
    strengths = [alpha(style) for _, style, _ in reader.spans]
    np.testing.assert_allclose(np.array(strengths) / strengths[0], [1, 0.75, 0.5, 0], atol=0.01)
    assert reader.spans[1][2] == "segment 1: +2.000; segment 2: +1.000"


def test_scores_of_zero_alone_make_a_page() -> None:
    assert "rgba" in to_page([example(scores=np.zeros((2, 2)))], NAMES, "t", "i")
    assert "Title" in to_page([], NAMES, "Title", "i")


def test_json_holds_every_score() -> None:
    (found,) = json.loads(json.dumps(to_json([example()], NAMES)))
    assert found["labels"] == ["bad"]
    assert found["predictions"] == ["good"]
    assert found["probabilities"] == {"bad": 0.1, "good": 0.9}
    assert not found["is_right"]
    assert [part["scores"] for part in found["segments"]] == [
        {"bad": 1.5, "good": -0.5},
        {"bad": -2.0, "good": 2.0},
    ]
    assert [part["text"] for part in found["segments"]] == ["A <b>dull</b> start.", "But what an end & how!"]


def test_several_labels() -> None:
    several = example(predictions=(0, 1), labels=(0, 1))
    assert several.is_right
    assert "is bad, good, predicted bad, good" in to_page([several], NAMES, "t", "i")
    assert "predicted none" in to_page([example(predictions=())], NAMES, "t", "i")


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


def test_mistakes_are_told(tmp_path: Path) -> None:
    config = config_with_head([tmp_path], "swipe")
    assert config.finetune.head == ("swipe",)
    with pytest.raises(UsageError, match="--examples is 0; it must be 1 or more"):
        explain(ExplainArgs(run=tmp_path, task="sst2", examples=0, config=config))
    linear = config.model_copy(update={"finetune": config.finetune.model_copy(update={"head": ("linear",)})})
    with pytest.raises(UsageError, match="head 'linear' does not read segments; choose for example --head"):
        explain(ExplainArgs(run=tmp_path, task="sst2", config=linear))
    with pytest.raises(UsageError, match=r"unknown classification task .*'sst'; did you mean 'sst"):
        explain(ExplainArgs(run=tmp_path, task="sst", config=config))


def test_the_study_of_a_run_says_which_head(tmp_path: Path) -> None:
    run = tmp_path / "study" / "gpt_neo" / "gelu" / "seed1-0"
    run.mkdir(parents=True)
    heads = '["linear", "swipe pooling=sum", "swipe"]'
    (tmp_path / "study" / "study.yaml").write_text(f"evaluation:\n  finetune:\n    head: {heads}\n")
    assert config_with_head([run], "swipe").finetune.head == ("swipe pooling=sum",)
