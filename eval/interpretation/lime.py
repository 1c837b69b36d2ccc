"""Keywords of a text after LIME (Ribeiro et al. 2016, arXiv:1602.04938), for a random forest on its words.

What Wang et al. 2023 set beside SWIPE: a random forest reads which words occur in a text, LIME finds the
words that speak most for a label, and the segment with most of them explains the label. They took 6
keywords, the best number of 1 to 10. They do not say the forest's size; here it has scikit-learn's 100 trees
and the 5,000 most frequent words.

LIME leaves words out at random, as many as drawn from 1 to all, lets the classifier judge what is left, and
fits a linear model to its probabilities: a ridge regression on which words are there, weighted by how near a
rest is to the whole text. As in the authors' package the kernel is exponential with width 25 on 100 times the
cosine distance, and the ridge's penalty is 1. The package first selects features; here the regression has all
words of the text, and its greatest weights are the keywords.

Shapes: N samples, W distinct words of a text, C labels, m segments of a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer

NUM_KEYWORDS = 6
NUM_WORDS = 5_000
NUM_SAMPLES = 500
KERNEL_WIDTH = 25.0
PENALTY = 1.0
_WORD = r"\w+"


def word_weights(
    predict: Callable[[np.ndarray], np.ndarray],
    num_words: int,
    num_samples: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Say how much each word of a text speaks for each label.

    Args:
        predict: From (N, W) of 0 and 1, which words are there, to (N, C) probabilities.
        num_words: W.
        num_samples: N, the whole text included.
        generator: Of the words left out.

    Returns:
        (W, C) weights of the linear model.
    """
    ranks = generator.random((num_samples, num_words)).argsort(1).argsort(1)
    left_out = generator.integers(1, num_words + 1, num_samples)
    left_out[0] = 0
    present = (ranks >= left_out[:, None]).astype(float)
    probabilities = predict(present)
    # The cosine of a rest and the whole, both of 0 and 1.
    distances = 100 * (1 - np.sqrt(present.mean(1)))
    kernel = np.sqrt(np.exp(-((distances / KERNEL_WIDTH) ** 2)))
    centred = present - np.average(present, axis=0, weights=kernel)
    targets = probabilities - np.average(probabilities, axis=0, weights=kernel)
    weighted = centred * kernel[:, None]
    return np.linalg.solve(weighted.T @ centred + PENALTY * np.eye(num_words), weighted.T @ targets)


class WordForest:
    """A random forest on which words occur in a text, and its keywords.

    Args:
        texts: n texts to train it on.
        labels: (n,), or (n, C) of 0 and 1.
        seed: Of the forest, and of the words that are left out.
        num_samples: Rests of each text that is explained.
    """

    def __init__(
        self, texts: Sequence[str], labels: np.ndarray, seed: int = 0, num_samples: int = NUM_SAMPLES
    ) -> None:
        self._counter = CountVectorizer(token_pattern=_WORD, binary=True, max_features=NUM_WORDS)
        self._forest = RandomForestClassifier(random_state=seed, n_jobs=1)
        self._forest.fit(self._counter.fit_transform(texts), labels)
        self._is_multi_label = labels.ndim == 2
        self._generator = np.random.default_rng(seed)
        self._num_samples = num_samples
        self._known: dict[bytes, np.ndarray] = {}

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Return (n, C) probabilities; of several labels each by itself."""
        return self._judge(self._occurrences(texts))

    def segment_scores(self, segments: Sequence[str]) -> np.ndarray:
        """Return (m, C): of the keywords of a text for each label, how many occur in each of its segments.

        Args:
            segments: The text in m parts, which may overlap.
        """
        words = self._occurrences([" ".join(segments)]).indices
        if not len(words):
            return np.zeros((len(segments), self.probabilities([""]).shape[1]))
        return self._occurrences(segments).toarray()[:, words].astype(float) @ self._keywords(words)

    def _keywords(self, words: np.ndarray) -> np.ndarray:
        """Return (W, C), 1 for the keywords of each label; what was asked before is kept."""
        key = words.tobytes()
        if key not in self._known:
            weights = word_weights(lambda rests: self._judge_rests(words, rests), len(words),
                                   self._num_samples, self._generator)  # fmt: skip
            greatest = np.argsort(-weights, axis=0, kind="stable")[:NUM_KEYWORDS]
            is_keyword = np.zeros_like(weights)
            np.put_along_axis(is_keyword, greatest, 1.0, axis=0)
            self._known[key] = is_keyword * (weights > 0)
        return self._known[key]

    def _occurrences(self, texts: Sequence[str]) -> csr_matrix:
        return csr_matrix(self._counter.transform(texts))

    def _judge_rests(self, words: np.ndarray, rests: np.ndarray) -> np.ndarray:
        rows, places = np.nonzero(rests)
        size = (len(rests), len(self._counter.vocabulary_))
        return self._judge(csr_matrix((np.ones(len(rows)), (rows, words[places])), size))

    def _judge(self, counts: csr_matrix) -> np.ndarray:
        found = self._forest.predict_proba(counts)
        if not self._is_multi_label:
            return np.asarray(found)
        # A label that all texts have, or none, has a single column.
        return np.stack(
            [own[:, -1] if own.shape[1] == 2 else np.full(len(own), float(known[0])) for own, known in
             zip(found, self._forest.classes_, strict=True)], axis=1)  # fmt: skip
