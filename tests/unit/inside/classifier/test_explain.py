"""Explanations of a classifier: what is measured of them, LIME, the page and the plot of spaces."""

import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.metrics.pairwise import cosine_distances

from base.errors import UsageError
from eval.classification.classification_task import ClassificationTask
from eval.classification.prediction import Predictions, decide
from eval.classification.schema import TaskFile, shipped_task
from eval.config import EvalConfig
from inside.classifier.classifiers import Documents
from inside.classifier.explain import ExplainArguments
from inside.classifier.lime import NUM_SAMPLES, WordForest, word_weights
from inside.classifier.measures import (
    compare_selections,
    explained_labels,
    highest,
    labels_of_segments,
    turn_labels,
)
from inside.classifier.page import (
    Explained,
    choose_examples,
    document,
    draw_concept_space,
    explained,
    spaces_document,
)
from report.document.html import to_html
from scores.head_descriptions import HeadChoice
from tests.cases import listed

# What is measured of explanations where it is known what decides, and LIME by its normal equations.
# What is measured of explanations, where it is known what decides: sufficiency, and the labels of turns.
NEUTRAL = ["the cat sat", "a long road", "he opened the door", "it was late", "they went on"]
DECISIVE = ["a bad film", "a good film", "so so film"]


def documents(segments: list[list[str]], labels: np.ndarray) -> Documents:
    """Documents of which each segment stands on a line of its own."""
    ends = [np.cumsum([len(text) + 1 for text in parts]) for parts in segments]
    spans = np.concatenate([np.column_stack([[0, *end[:-1]], end - 1]) for end in ends])
    counts = np.array(list(map(len, segments)))
    data: Any = SimpleNamespace(labels=labels, spans=spans, starts=np.cumsum(counts) - counts, counts=counts)
    made = Documents(["\n".join(parts) for parts in segments], data)
    assert made.segments == segments
    return made


def scored(scores: list[np.ndarray]) -> Predictions:
    """Predictions of one label, with these scores of segments."""
    return Predictions(np.zeros((len(scores), 1)), [own[:, None] for own in scores])


def make_documents(size: int, num_labels: int, seed: int) -> tuple[Documents, Predictions, Predictions]:
    """Documents of six segments of which one decides, scores that find it and scores that avoid it."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, num_labels, size)
    segments, good = [], []
    for label in labels:
        own = list(map(str, generator.choice(NEUTRAL, 6)))
        place = generator.integers(6)
        own[place] = DECISIVE[label]
        segments.append(own)
        good.append(np.where(np.arange(6) == place, 2.0, generator.random(6)))
    return documents(segments, labels), scored(good), scored([-own for own in good])


@pytest.mark.parametrize("num_labels", [2, 3])
def test_the_decisive_segment_is_enough(num_labels: int) -> None:
    train, train_good, train_poor = make_documents(200, num_labels, seed=1)
    validation, good, poor = make_documents(200, num_labels, seed=2)
    explained = {"highest": (train_good, good), "attention": (train_poor, poor)}
    first, again, other = (compare_selections(train, validation, explained, seed) for seed in (0, 0, 1))
    assert first == again
    assert [one == another for one, another in zip(first, other, strict=True)] == [True, True, False, True]
    rows = {row["selection"]: row for row in first}
    assert list(rows) == ["highest", "attention", "random", "all"]
    assert rows["highest"]["accuracy"] == rows["highest"]["macro_f1"] == 100
    assert rows["all"]["accuracy"] > 97
    chance = 100 / num_labels
    assert abs(rows["attention"]["accuracy"] - chance) < 12
    # The deciding segment is drawn once in six, and else there is nothing to go by.
    assert abs(rows["random"]["accuracy"] - (100 / 6 + chance * 5 / 6)) < 10


def test_scores_of_known_predictions() -> None:
    train = documents([["good"], ["bad"]] * 20, np.array([1, 0] * 20))
    validation = documents([["good"], ["good"], ["good"], ["bad"]], np.array([1, 1, 0, 0]))
    explained = {"highest": (scored([np.zeros(1)] * 40), scored([np.zeros(1)] * 4))}
    row = compare_selections(train, validation, explained, 0)[0]
    assert row["accuracy"] == 75
    assert row["macro_f1"] == pytest.approx(100 * (4 / 5 + 2 / 3) / 2)  # 2PR / (P + R) of both labels


def test_several_labels_at_once() -> None:
    generator = np.random.default_rng(6)
    words = np.array(["red", "green", "blue"])

    def make(size: int) -> tuple[Documents, Predictions]:
        labels = generator.integers(0, 2, (size, 3))
        segments = [
            [" ".join(words[own == 1]) or "none", *map(str, generator.choice(NEUTRAL, 3))] for own in labels
        ]
        return documents(segments, labels), scored([np.array([1.0, 0, 0, 0])] * size)

    (train, train_scores), (validation, scores) = make(300), make(100)
    top, _, whole = compare_selections(train, validation, {"highest": (train_scores, scores)}, 0)
    assert top["accuracy"] == top["macro_f1"] == 100
    assert whole["accuracy"] > 90


def test_the_segment_is_that_of_the_likeliest_label() -> None:
    segment_scores = [np.array([[4.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0]])]
    predictions = Predictions(np.array([[0.1, 0.2], [0.9, 0.2]]), segment_scores)
    assert [own.tolist() for own in predictions.contributions()] == [[2.0, 4.0], [5.0]]
    assert highest(documents([["a", "b"], ["c"]], np.array([0, 1])), predictions) == ["b", "c"]
    tied = Predictions(np.zeros((1, 1)), [np.array([[1.0], [1.0]])])
    assert highest(documents([["a", "b"]], np.array([0])), tied) == ["a"]


def test_segments_have_the_labels_of_their_turns() -> None:
    turns = ["Hello.", "", "A room, please. For two.", "Yes"]  # "Hello.  A room, please. For two. Yes"
    data: Any = SimpleNamespace(spans=np.array([[0, 6], [8, 23], [24, 32], [33, 36], [0, 6]]), starts=[0, 4])
    labels = [np.array([[1, 0], [0, 0], [0, 1], [1, 1]]), np.array([[0, 1]])]
    expected = [[1, 0], [0, 1], [0, 1], [1, 1], [0, 1]]
    assert labels_of_segments([turns, ["Hello."]], labels, data).tolist() == expected


def test_attention_gives_a_document_s_labels_to_segments_of_more_than_average_weight() -> None:
    weights = np.repeat([[0.5], [0.26], [0.04], [0.2]], 3, axis=1)
    predictions = Predictions(np.array([[2.0, -1.0, 0.5]]), [weights])
    given = explained_labels(HeadChoice("segment-attention"), predictions)
    assert given.tolist() == [[1, 0, 1]] * 2 + [[0] * 3] * 2


def test_swipe_gives_a_segment_the_labels_with_a_score_above_zero() -> None:
    predictions = Predictions(np.zeros((2, 2)), [np.array([[1.0, -1.0], [0.0, 2.0]]), np.array([[0.5, 0.5]])])
    given = explained_labels(HeadChoice("swipe"), predictions)
    assert given.tolist() == [[1, 0], [0, 1], [1, 1]]


def make_task(**changes: object) -> ClassificationTask:
    values = {"name": "mine", "text": "turns", "labels": ("a", "b"), "segment_labels": "o"}
    values |= {"multi_label": True, "metrics": "micro_f1"}
    return ClassificationTask(TaskFile.model_validate(values | changes), ("a", "b"))


def test_labels_of_turns_are_read() -> None:
    rows = [{"turns": ["x", "y", "z"], "o": [["b"], [], ["a", "b"]]}]
    assert turn_labels(make_task(), rows)[0].tolist() == [[0, 1], [0, 0], [1, 1]]


def test_multiwoz_has_the_domains_of_each_turn() -> None:
    definition = shipped_task("multiwoz")
    task = ClassificationTask(definition, definition.labels or ())
    # As the Parquet files have it: a struct of lists, in which frames are such structs again.
    frames = [{"service": ["hotel"]}, {"service": []}, {"service": ["hotel", "taxi"]}]
    row = {"services": ["hotel", "taxi"], "turns": {"utterance": ["a", "b", "c"], "frames": frames}}
    named = [[task.labels[i] for i in np.flatnonzero(own)] for own in turn_labels(task, [row])[0]]
    assert named == [["hotel"], [], ["hotel", "taxi"]]


@pytest.mark.parametrize("row", listed(__file__, "what does not fit"))
def test_what_does_not_fit_is_told(row: dict) -> None:
    message = r"mine, row 1: o is .* needs a list of the task's labels for each turn of turns"
    with pytest.raises(UsageError, match=message):
        turn_labels(make_task(), [row])


def test_a_task_must_name_them() -> None:
    with pytest.raises(UsageError, match="task mine names no labels of turns"):
        turn_labels(make_task(segment_labels=None), [])
    with pytest.raises(ValidationError, match="segment_labels needs multi_label: true"):
        make_task(multi_label=False, metrics="accuracy")


# LIME where the weights are known, against the normal equations, and a forest's keywords.
def test_it_is_the_weighted_ridge_regression_of_the_authors_package() -> None:
    seen: list[np.ndarray] = []

    def predict(rests: np.ndarray) -> np.ndarray:
        seen.append(rests)
        return np.stack([rests[:, 0] * rests[:, 2], 1 - rests[:, 1]], 1)

    fitted = word_weights(predict, 7, np.random.default_rng(2))
    (rests,) = seen
    assert rests.shape == (NUM_SAMPLES, 7)
    assert (rests[0] == 1).all()  # the whole text
    assert set(rests[1:].sum(1)) == set(range(7))  # from one word left out to all
    # Of the empty rest, whose cosine has no value, scikit-learn says that it is as far as can be.
    distances = 100 * cosine_distances(rests, np.ones((1, 7)))[:, 0]
    kernel = np.sqrt(np.exp(-((distances / 25) ** 2)))
    # The normal equations, with an intercept that has no penalty.
    design, penalty = np.column_stack([rests, np.ones(len(rests))]), np.diag([1.0] * 7 + [0.0])
    expected = np.linalg.solve(design.T @ (kernel[:, None] * design) + penalty,
                               design.T @ (kernel[:, None] * predict(rests)))  # fmt: skip
    np.testing.assert_allclose(fitted, expected[:-1], rtol=0, atol=1e-10)


WORDS = ["the", "a", "road", "house", "cat", "dog", "ran", "sat", "late", "rain", "came", "went", "old"]


def make_texts(size: int, seed: int) -> tuple[list[list[str]], list[str], np.ndarray]:
    """Texts of three segments, and as a whole; label i is there where ``key<i>`` is, in segment i."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, (size, 2))
    texts = []
    for own in labels:
        words = [list(generator.choice(WORDS, 6)) for _ in range(3)]
        for label in np.flatnonzero(own):
            words[label][generator.integers(6)] = f"key{label}"
        texts.append([" ".join(segment) for segment in words])
    return texts, [" ".join(segments) for segments in texts], labels


def test_keywords_are_in_the_segment_that_decides() -> None:
    texts, joined, labels = make_texts(300, seed=3)
    forest = WordForest(joined, labels, seed=0)
    assert ((forest.probabilities(joined) > 0.5) == labels).mean() > 0.98
    words = next(words for words, own in zip(texts, labels, strict=True) if own.all())
    scores = forest.segment_scores(["key0", *(word for word in words if "key" not in word), "key1"])
    assert scores[0, 0] >= 1
    assert scores[-1, 1] >= 1
    assert (scores.sum(0) <= 6 * len(scores)).all()
    np.testing.assert_array_equal(forest.segment_scores(["unheard", "of"]), np.zeros((2, 2)))


def test_labels_that_are_always_there() -> None:
    _, joined, labels = make_texts(50, seed=4)
    constant = np.stack([np.ones(50, int), np.zeros(50, int), labels[:, 0]], 1)
    probabilities = WordForest(joined, constant).probabilities(joined[:4])
    np.testing.assert_array_equal(probabilities[:, :2], [[1, 0]] * 4)


def test_what_is_said_of_documents_is_decided_as_a_classifier_s_logits_are() -> None:
    texts, joined, labels = make_texts(20, seed=6)
    for answers in (labels, labels[:, 0]):
        forest = WordForest(joined, answers)
        predictions = forest.explain(documents(texts, labels))
        probabilities = forest.probabilities(["\n".join(parts) for parts in texts])
        expected = probabilities > 0.5 if answers.ndim == 2 else probabilities.argmax(1)
        np.testing.assert_array_equal(decide(predictions.logits, answers.ndim == 2), expected)
        assert [scores.shape for scores in predictions.segment_scores or []] == [(3, 2)] * 20


# The page that explains predictions and the plot of concept spaces, from made-up data.
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
    page = to_page([EXAMPLE._replace(labels="<script>")], "Title <x>", "Intro & more.")
    assert ">Title &lt;x&gt;</h1>" in page
    assert "is &lt;script&gt;, predicted good; good has probability 90.0%" in page
    # Other hues, and strength in proportion to the score.
    assert against == (TEXT[:20], "against", pytest.approx(favour[2] / 4, abs=0.001), "segment 1: -0.500")
    assert favour == (TEXT[21:], "favour", 1.0, "segment 2: +2.000")
    rows = document([EXAMPLE], "i", "t").tables["segments"].to_dict("records")
    expected = [("7", 1, TEXT[:20], -0.5), ("7", 2, TEXT[21:], 2.0)]
    assert [tuple(row[name] for name in ("example", "segment", "text", "score")) for row in rows] == expected


def test_a_text_is_shown_as_it_stands() -> None:
    marks = ["- no list", "1. no list", "# no heading", "a | b", "*a* _b_ `c` ~d~", "> c", "a\n\nb"]
    for text in (*marks, "&lt; [x](y) ![z](w)"):
        example = EXAMPLE._replace(text=text, spans=np.array([[0, len(text)]]), scores=np.array([1.0]))
        assert read(to_page([example], "t", "i"))[0] == text


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
