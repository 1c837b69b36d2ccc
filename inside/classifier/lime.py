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

Shapes: N samples, the whole text included, W distinct words of a text, C labels, m segments of a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import Ridge

from eval.classification.prediction import Predictions
from inside.classifier.classifiers import Documents

NUM_KEYWORDS = 6
NUM_WORDS = 5_000
NUM_SAMPLES = 500
KERNEL_WIDTH = 25.0


def word_weights(
    predict: Callable[[np.ndarray], np.ndarray], num_words: int, generator: np.random.Generator
) -> np.ndarray:
    """Say how much each word of a text speaks for each label.

    Args:
        predict: From (N, W) of 0 and 1, which words are there, to (N, C) probabilities.
        num_words: W.
        generator: Of the words left out.

    Returns:
        (W, C) weights of the linear model.
    """
    ranks = generator.random((NUM_SAMPLES, num_words)).argsort(1).argsort(1)
    num_absent = generator.integers(1, num_words + 1, NUM_SAMPLES)
    num_absent[0] = 0
    present = (ranks >= num_absent[:, None]).astype(float)
    # The cosine of a rest and the whole, both of 0 and 1.
    distances = 100 * (1 - np.sqrt(present.mean(1)))
    kernel = np.sqrt(np.exp(-((distances / KERNEL_WIDTH) ** 2)))
    return Ridge(alpha=1.0).fit(present, predict(present), sample_weight=kernel).coef_.T


class WordForest:
    """A random forest on which words occur in a text, and its keywords.

    Args:
        texts: n texts to train it on.
        labels: (n,), or (n, C) of 0 and 1.
        seed: Of the forest, and of the words that are left out.
    """

    def __init__(self, texts: Sequence[str], labels: np.ndarray, seed: int = 0) -> None:
        self._counter: Any = CountVectorizer(token_pattern=r"\w+", binary=True, max_features=NUM_WORDS)
        self._forest = RandomForestClassifier(random_state=seed, n_jobs=1)
        self._forest.fit(self._counter.fit_transform(texts), labels)
        self._is_multi_label = labels.ndim == 2
        self._generator = np.random.default_rng(seed)

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Return (n, C) probabilities; of several labels each by itself."""
        return self._judge(self._counter.transform(texts))

    def explain(self, documents: Documents) -> Predictions:
        """Return what the forest says of documents, and how many keywords their segments have."""
        probabilities = self.probabilities(documents.texts)
        with np.errstate(divide="ignore"):
            logits = logit(probabilities) if self._is_multi_label else np.log(probabilities)
        return Predictions(logits, [self.segment_scores(parts) for parts in documents.segments])

    def segment_scores(self, segments: Sequence[str]) -> np.ndarray:
        """Return (m, C): of the keywords of a text for each label, how many occur in each of its segments.

        Args:
            segments: The text in m parts, which may overlap.
        """
        words = self._counter.transform([" ".join(segments)]).indices
        if not len(words):
            return np.zeros((len(segments), self.probabilities([""]).shape[1]))
        columns = self._counter.transform(self._counter.get_feature_names_out()[words])
        weights = word_weights(lambda present: self._judge(present @ columns), len(words), self._generator)
        ranks = (-weights).argsort(0, kind="stable").argsort(0)
        is_keyword = (ranks < NUM_KEYWORDS) & (weights > 0)
        return self._counter.transform(segments)[:, words].toarray() @ is_keyword.astype(float)

    def _judge(self, counts: Any) -> np.ndarray:
        shares = self._forest.predict_proba(counts)
        if not self._is_multi_label:
            return shares
        # A label that all texts have, or none, has a single column.
        pairs = zip(shares, self._forest.classes_, strict=True)
        return np.column_stack([share @ (classes == 1) for share, classes in pairs])
