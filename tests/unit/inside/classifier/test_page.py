"""The page that explains predictions, from made-up data, and what the command reads and refuses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from eval.classification.classification_task import ClassificationTask
from eval.classification.prediction import Predictions
from eval.classification.schema import TaskFile
from eval.config import EvalConfig
from inside.classifier.classifiers import Documents
from inside.classifier.explain import ExplainArguments
from inside.classifier.page import Explained, choose_examples, document, explained
from report.document.html import to_html

TEXT = "A <b>dull</b> start. But what an end & how!"
EXAMPLE = Explained(
    example="7",
    labels="bad",
    predictions="good",
    likeliest="good",
    probability=0.9,
    text=TEXT,
    spans=np.array([[0, 20], [21, 43]]),
    scores=np.array([-0.5, 2.0]),
)


def to_page(examples: Sequence[Explained], title: str, intro: str) -> str:
    return to_html(document(examples, intro, title).markdown, title, {})


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
    example = EXAMPLE._replace(text=text, spans=np.array([[0, len(text)]]), scores=np.array([1.0]))
    assert Reader(to_page([example], "t", "i")).text == text


def test_the_page_is_one_safe_file_for_narrow_screens_too() -> None:
    example = EXAMPLE._replace(labels="<script>")
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
    text, spans = "0123456789abcdef", np.array([[0, 6], [4, 10], [12, 14]])
    example = EXAMPLE._replace(text=text, spans=spans, scores=np.array([2.0, 1.0, 0.0]))
    reader = Reader(to_page([example], "t", "i"))
    assert reader.text == text
    assert [text for text, _, _ in reader.spans] == ["0123", "45", "6789", "cd"]
    strengths = [alpha(style) for _, style, _ in reader.spans]
    np.testing.assert_allclose(np.array(strengths) / strengths[0], [1, 0.75, 0.5, 0], atol=0.01)
    assert reader.spans[1][2] == "segment 1: +2.000; segment 2: +1.000"


def test_scores_of_zero_alone_make_a_page() -> None:
    zero = EXAMPLE._replace(spans=np.array([[0, 2]]), scores=np.array([0.0]))
    assert 'class="against" style="--strength:0.000"' in to_page([zero], "t", "i")
    none = EXAMPLE._replace(spans=np.empty((0, 2), int), scores=np.empty(0))
    assert "Title" in to_page([none], "Title", "i")
    assert "Title" in to_page([], "Title", "i")


def test_the_table_has_every_segment() -> None:
    rows = document([EXAMPLE], "i", "t").tables["segments"].to_dict("records")
    assert [row["text"] for row in rows] == [TEXT[:20], TEXT[21:]]
    assert [(row["example"], row["segment"], row["score"]) for row in rows] == [("7", 1, -0.5), ("7", 2, 2.0)]


def test_labels_are_named_where_there_are_several() -> None:
    definition = TaskFile.model_validate(
        {"name": "mine", "text": "x", "labels": ("bad", "good"), "multi_label": True, "metrics": "micro_f1"}
    )
    task = ClassificationTask(definition, ("bad", "good"))
    data = SimpleNamespace(
        idx=["a", "b"],
        labels=np.array([[1, 1], [0, 0]]),
        spans=np.array([[0, 1]] * 2),
        starts=np.array([0, 1]),
    )
    logits = np.array([[0.5, 2.0], [-1.0, -2.0]])
    scores = [np.array([[0.5, 2.0]]), np.array([[-1.0, -2.0]])]
    both, none = explained(task, Documents(["x", "y"], data), Predictions(logits, scores))
    assert (both.labels, both.predictions, both.likeliest) == ("bad, good", "bad, good", "good")
    assert both.probability == pytest.approx(1 / (1 + np.exp(-2)))
    assert both.scores.tolist() == [2.0]
    assert (none.labels, none.predictions, none.likeliest) == ("", "", "bad")
    page = to_page([both, none], "t", "i")
    assert "is bad, good, predicted bad, good" in page
    assert "is none, predicted none" in page


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
    assert settings(run, head="swipe window=8").finetune.head == ("swipe window=8",)
    assert settings(tmp_path, measure="segments").finetune.head == ("swipe segments=turns",)
    assert settings(tmp_path, head="swipe") == EvalConfig.model_validate({"finetune": {"head": ["swipe"]}})
