"""The sufficiency test where it is known what decides, and shares of attention against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from eval.classification.prediction import Predictions
from eval.interpretation.sufficiency import (
    Documents,
    compare_selections,
    select_random,
    select_top,
)

NEUTRAL = [
    "the cat sat",
    "a long road",
    "he opened the door",
    "it was late",
    "they went on",
    "some rain fell",
]
DECISIVE = {
    0: ["a bad film", "awful and bad"],
    1: ["a good film", "truly good"],
    2: ["so so film", "it is so so"],
}


def make_documents(
    size: int, num_labels: int, seed: int
) -> tuple[Documents, list[np.ndarray], list[np.ndarray]]:
    """Documents of six segments of which one decides, scores that find it and scores that avoid it."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, num_labels, size)
    segments, good, poor = [], [], []
    for label in labels:
        own = list(generator.choice(NEUTRAL, 6))
        place = generator.integers(6)
        own[place] = str(generator.choice(DECISIVE[int(label)]))
        segments.append(own)
        good.append(np.where(np.arange(6) == place, 2.0, generator.random(6)))
        poor.append(-good[-1])
    return Documents(segments, labels), good, poor


@pytest.mark.parametrize("num_labels", [2, 3])
def test_the_decisive_segment_is_enough(num_labels: int) -> None:
    train, train_good, train_poor = make_documents(400, num_labels, seed=1)
    validation, good, poor = make_documents(200, num_labels, seed=2)
    scores = {"top": (train_good, good), "attention": (train_poor, poor)}
    found = {
        result.selection: result
        for result in compare_selections(train, validation, scores, kept=1, draws=5, seed=0)
    }
    assert list(found) == ["top", "attention", "random", "all"]
    assert found["top"].accuracy == 100
    assert found["top"].macro_f1 == 100
    assert found["all"].accuracy > 97
    chance = 100 / num_labels
    assert abs(found["attention"].accuracy - chance) < 12
    # The deciding segment is drawn once in six, and else there is nothing to go by.
    assert abs(found["random"].accuracy - (100 / 6 + chance * 5 / 6)) < 10
    assert found["random"].difference == pytest.approx(100 - found["random"].accuracy)
    low, high = found["random"].difference_interval
    assert 0 < low < found["random"].difference < high
    assert found["top"].difference_interval == (0, 0)


def test_intervals_and_scores_are_those_of_scipy_and_sklearn() -> None:
    train, train_good, _ = make_documents(60, 3, seed=3)
    validation, good, _ = make_documents(50, 3, seed=4)
    generator = np.random.default_rng(5)
    shuffled = [generator.permutation(own) for own in good]  # most miss
    trained = [generator.permutation(own) for own in train_good]
    scores = {"top": (train_good, good), "shuffled": (trained, shuffled)}
    found = compare_selections(train, validation, scores, kept=1, draws=1, seed=0)[1]
    right = round(found.accuracy / 2)  # of 50
    interval = binomtest(right, 50).proportion_ci(method="wilson")
    assert found.accuracy_interval == pytest.approx((100 * interval.low, 100 * interval.high))
    # Right on all with the deciding segment, so that the difference is that of a share from 1.
    wrong = np.repeat([0.0, 1.0], [right, 50 - right])
    half = 2.0095752 * wrong.std(ddof=1) / np.sqrt(50)  # Student's quantile with 49 degrees of freedom
    expected = (100 * (wrong.mean() - half), 100 * (wrong.mean() + half))
    assert found.difference_interval == pytest.approx(expected, abs=1e-4)


def test_scores_of_known_predictions() -> None:
    train = Documents([["good"], ["bad"]] * 20, np.array([1, 0] * 20))
    validation = Documents([["good"], ["good"], ["good"], ["bad"]], np.array([1, 1, 0, 0]))
    scores = ([np.zeros(1)] * 40, [np.zeros(1)] * 4)
    result = compare_selections(train, validation, {"top": scores}, 1, 1, 0)[0]
    assert result.accuracy == 75
    assert result.macro_f1 == pytest.approx(100 * (4 / 5 + 2 / 3) / 2)  # 2PR / (P + R) of both labels


def test_several_labels_at_once() -> None:
    generator = np.random.default_rng(6)
    words = np.array(["red", "green", "blue"])

    def make(size: int) -> tuple[Documents, list[np.ndarray]]:
        labels = generator.integers(0, 2, (size, 3))
        segments = [[" ".join(words[own == 1]) or "none", *generator.choice(NEUTRAL, 3)] for own in labels]
        return Documents(segments, labels), [np.array([1.0, 0, 0, 0])] * size

    (train, train_scores), (validation, scores) = make(300), make(100)
    top, _, whole = compare_selections(train, validation, {"top": (train_scores, scores)}, 1, 2, 0)
    assert top.accuracy == 100
    assert whole.accuracy > 90
    assert top.macro_f1 == 100


def test_results_repeat_with_the_seed_and_change_with_it() -> None:
    train, train_good, _ = make_documents(100, 2, seed=1)
    validation, good, _ = make_documents(100, 2, seed=2)
    scores = {"top": (train_good, good)}
    first, again, other = (compare_selections(train, validation, scores, 1, 2, seed) for seed in (0, 0, 1))
    assert first == again
    assert first[0] == other[0]
    assert first[1] != other[1]


def test_selections() -> None:
    scores = [np.array([1.0, 3.0, 2.0, 3.0]), np.array([5.0])]
    assert [own.tolist() for own in select_top(scores, 2)] == [[1, 3], [0]]
    assert [own.tolist() for own in select_top(scores, 3)] == [[1, 2, 3], [0]]
    drawn = [select_random([5, 2], 3, np.random.default_rng(seed)) for seed in range(300)]
    assert all(
        own[1].tolist() == [0, 1] and len(set(own[0])) == 3 and sorted(own[0]) == list(own[0])
        for own in drawn
    )
    counts = np.bincount(np.concatenate([own[0] for own in drawn]), minlength=5)
    assert (abs(counts / 300 - 3 / 5) < 0.12).all()
    documents = Documents([["a", "b", "c", "d"], ["e"]], np.array([0, 1]))
    assert documents.read(select_top(scores, 2)) == ["b d", "e"]


def test_contributions_are_those_to_the_likeliest_label() -> None:
    segment_scores = [np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0]])]
    predictions = Predictions(np.array([[0.1, 0.2], [0.9, 0.2]]), segment_scores)
    assert [own.tolist() for own in predictions.contributions()] == [[2.0, 4.0], [5.0]]
