"""The page that explains predictions and the plot of concept spaces, from made-up data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
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
from inside.classifier.page import (
    Explained,
    choose_examples,
    document,
    draw_concept_space,
    explained,
    spaces_document,
)
from report.document.html import to_html

# The page that explains predictions, from made-up data, and what the command reads and refuses.
TEXT = "A <b>dull</b> start. But what an end & how!"
EXAMPLE = Explained("7", "bad", "good", "good", 0.9, TEXT, np.array([[0, 20], [21, 43]]), np.array([-0.5, 2]))


def to_page(examples: Sequence[Explained], title: str, intro: str) -> str:
    return to_html(document(examples, intro, title).markdown, title, {})


def read(page: str) -> tuple[str, list[tuple[str, str, float, str]]]:
    """The last text with shades, and of each shade its words, look, strength and title."""
    paragraph = [p for p in re.findall(r"<p>(.*?)</p>", page, re.DOTALL) if "<mark" in p][-1]
    mark = r'<mark class="(.*?)" style="--strength:(.*?)"(?: title="(.*?)")?>(.*?)</mark>'
    marks = re.findall(mark, paragraph, re.DOTALL)
    text = unescape(re.sub("<.*?>", "", paragraph.replace("<br>", "\n")))
    return text, [(unescape(words), look, float(share), title) for look, share, title, words in marks]


def test_the_page_shows_the_text_and_its_segments() -> None:
    text, (against, favour) = read(to_page([EXAMPLE], "Title <x>", "Intro & more."))
    assert text == TEXT
    # Other hues, and strength in proportion to the score.
    assert against == (TEXT[:20], "against", pytest.approx(favour[2] / 4, abs=0.001), "segment 1: -0.500")
    assert favour == (TEXT[21:], "favour", 1.0, "segment 2: +2.000")
    rows = document([EXAMPLE], "i", "t").tables["segments"].to_dict("records")
    assert [(row["example"], row["segment"], row["text"], row["score"]) for row in rows] == [
        ("7", 1, TEXT[:20], -0.5),
        ("7", 2, TEXT[21:], 2.0),
    ]


def test_a_text_is_shown_as_it_stands() -> None:
    marks = [
        "- no list",
        "1. no list",
        "# no heading",
        "a | b",
        "*a* _b_ `c` ~d~",
        "> c",
        "&lt; [x](y) ![z](w)",
    ]
    for text in (*marks, "a\n\nb"):
        example = EXAMPLE._replace(text=text, spans=np.array([[0, len(text)]]), scores=np.array([1.0]))
        assert read(to_page([example], "t", "i"))[0] == text


def test_the_page_is_one_safe_file_for_narrow_screens_too() -> None:
    page = to_page([EXAMPLE._replace(labels="<script>")], "Title <x>", "Intro & more.")
    assert "<script" not in page
    assert "<b>dull" not in page
    assert ">Title &lt;x&gt;</h1>" in page
    assert "is &lt;script&gt;, predicted good; good has probability 90.0%" in page
    assert ">7: wrong<" in page
    assert "width=device-width" in page
    assert not re.search(r"https?:|url\(|@import|src=|href=", page)


def test_overlapping_windows_are_shaded_by_their_mean() -> None:
    text, spans = "0123456789abcdef", np.array([[0, 6], [4, 10], [12, 14]])
    example = EXAMPLE._replace(text=text, spans=spans, scores=np.array([2.0, 1.0, 0.0]))
    shown, shades = read(to_page([example], "t", "i"))
    assert shown == text
    words, _, strengths, titles = zip(*shades, strict=True)
    assert words == ("0123", "45", "6789", "cd")
    np.testing.assert_allclose(strengths, [1, 0.75, 0.5, 0], atol=0.01)
    assert titles[1] == "segment 1: +2.000; segment 2: +1.000"
    # Without any score above zero there is nothing to be in proportion to.
    page = to_page([example._replace(scores=np.zeros(3))], "t", "i")
    assert {strength for _, _, strength, _ in read(page)[1]} == {0}
    assert "Title" in to_page([], "Title", "i")


def test_labels_are_named_where_there_are_several() -> None:
    definition = {"name": "mine", "text": "x", "labels": ("bad", "good"), "multi_label": True}
    task = ClassificationTask(TaskFile.model_validate({**definition, "metrics": "micro_f1"}), ("bad", "good"))
    labels, spans = np.array([[1, 1], [0, 0]]), np.array([[0, 1]] * 2)
    data = SimpleNamespace(idx=["a", "b"], labels=labels, spans=spans, starts=np.array([0, 1]))
    logits = np.array([[0.5, 2.0], [-1.0, -2.0]])
    predictions = Predictions(logits, [logits[:1], logits[1:]])
    both, none = explained(task, Documents(["x", "y"], data), predictions)
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


# The plot of concept spaces: what is drawn, against plain numpy and scipy.
def make_concepts(n, num_classes, dimensions, seed=0):
    """Texts whose own class pulls them to one side of its space."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, n)
    concepts = rng.normal(0, 0.25, (n, num_classes, dimensions))
    concepts[np.arange(n), labels] += 0.6
    return np.tanh(concepts), labels


def points_of(axes):
    """What a panel shows: coordinates of the texts of every label, then of the labels' means."""
    lines = [np.array(line.get_data()) for line in axes.lines]
    return zip(lines[::2], lines[1::2], strict=True)


def plane(space):
    """Two dimensions as they are, the only one twice, or the components of the greatest singular values."""
    if space.shape[1] < 3:
        return space[:, [0, -1]]
    centred = space - space.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    return centred @ directions[:2].T


@pytest.mark.parametrize(("num_classes", "dimensions"), [(2, 1), (4, 2), (3, 3), (20, 16)])
def test_a_panel_shows_the_texts_of_every_label_and_their_means(num_classes, dimensions):
    concepts, labels = make_concepts(300, num_classes, dimensions)
    labels[labels == 1] = 0  # a label without texts is left out
    names = [f"class {letter}" for letter in "abcdefghijklmnopqrst"[:num_classes]]
    figure = draw_concept_space(concepts, labels, names)
    present = [0, *range(2, num_classes)]
    for k, axes in enumerate(figure.axes):
        expected = plane(concepts[:, k])
        for label, (texts, mean) in zip(present, points_of(axes), strict=True):
            # The sign of a component is anybody's.
            np.testing.assert_allclose(abs(texts), abs(expected[labels == label].T), atol=1e-12)
            np.testing.assert_allclose(mean[:, 0], texts.mean(1))
        assert axes.get_title() == f"space of {names[k]}"
        assert axes.get_xlabel() == ("component 1" if dimensions > 2 else "dimension 1")
        assert axes.get_ylabel().endswith(" 1" if dimensions == 1 else " 2")
    assert len(figure.axes) == num_classes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [names[k] for k in present]


def test_the_table_has_every_place():
    concepts, labels = make_concepts(30, 2, 3)
    table = spaces_document(concepts, labels, ["a", "b"], "sst2").tables["places"]
    np.testing.assert_array_equal(table[["b 1", "b 2", "b 3"]], concepts[:, 1])
    assert table["label"].tolist() == ["ab"[label] for label in labels]
