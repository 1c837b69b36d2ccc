"""LIME where the weights are known, against the normal equations, and a forest's keywords."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from sklearn.metrics.pairwise import cosine_distances

from eval.classification.prediction import decide
from inside.classifier.classifiers import Documents
from inside.classifier.lime import NUM_SAMPLES, WordForest, word_weights


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


NEUTRAL = ["the", "a", "road", "house", "cat", "dog", "ran", "sat", "late", "rain", "came", "went", "old"]


def make_texts(size: int, seed: int) -> tuple[list[list[str]], list[str], np.ndarray]:
    """Texts of three segments, and as a whole; label i is there where ``key<i>`` is, in segment i."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, (size, 2))
    texts = []
    for own in labels:
        words = [list(generator.choice(NEUTRAL, 6)) for _ in range(3)]
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
