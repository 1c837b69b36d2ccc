"""What is measured of explanations where it is known what decides, and LIME by its normal equations."""

from __future__ import annotations

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
from inside.classifier.classifiers import Documents
from inside.classifier.lime import NUM_SAMPLES, WordForest, word_weights
from inside.classifier.measures import (
    compare_selections,
    explained_labels,
    highest,
    labels_of_segments,
    turn_labels,
)
from scores.head_descriptions import HeadChoice

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
    values = {"name": "mine", "text": "turns", "labels": ("a", "b"), "segment_labels": "own"}
    values |= {"multi_label": True, "metrics": "micro_f1"}
    return ClassificationTask(TaskFile.model_validate(values | changes), ("a", "b"))


def test_labels_of_turns_are_read() -> None:
    rows = [{"turns": ["x", "y", "z"], "own": [["b"], [], ["a", "b"]]}]
    assert turn_labels(make_task(), rows)[0].tolist() == [[0, 1], [0, 0], [1, 1]]


def test_multiwoz_has_the_domains_of_each_turn() -> None:
    definition = shipped_task("multiwoz")
    task = ClassificationTask(definition, definition.labels or ())
    # As the Parquet files have it: a struct of lists, in which frames are such structs again.
    frames = [{"service": ["hotel"]}, {"service": []}, {"service": ["hotel", "taxi"]}]
    row = {"services": ["hotel", "taxi"], "turns": {"utterance": ["a", "b", "c"], "frames": frames}}
    named = [[task.labels[i] for i in np.flatnonzero(own)] for own in turn_labels(task, [row])[0]]
    assert named == [["hotel"], [], ["hotel", "taxi"]]


@pytest.mark.parametrize(
    "row",
    [
        {"turns": ["x"]},
        {"turns": ["x"], "own": [["a"], ["b"]]},
        {"turns": "x", "own": [["a"]]},
        {"turns": ["x"], "own": ["a"]},
        {"turns": ["x"], "own": [["c"]]},
    ],
)
def test_what_does_not_fit_is_told(row: dict) -> None:
    message = r"mine, row 1: own is .* needs a list of the task's labels for each turn of turns"
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
    ends = [np.cumsum([len(part) + 1 for part in parts]) - 1 for parts in texts]
    spans = np.concatenate([np.column_stack([[0, *stop[:-1] + 1], stop]) for stop in ends])
    documents = Documents(joined, SimpleNamespace(spans=spans, starts=np.arange(0, 60, 3)))
    assert documents.segments == texts
    for answers in (labels, labels[:, 0]):
        forest = WordForest(joined, answers)
        predictions = forest.explain(documents)
        probabilities = forest.probabilities(joined)
        expected = probabilities > 0.5 if answers.ndim == 2 else probabilities.argmax(1)
        np.testing.assert_array_equal(decide(predictions.logits, answers.ndim == 2), expected)
        assert [scores.shape for scores in predictions.segment_scores or []] == [(3, 2)] * 20
