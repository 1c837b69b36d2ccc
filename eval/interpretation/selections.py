"""Are the segments that a classifier points at enough to tell the label?

A small classifier is trained on the selected segments of each training document and nothing else, and judged
on the selected segments of the validation documents: if the selection holds what decides, it does as well as
on whole documents, and better than on segments drawn at random. It is a bag of words like fastText (Joulin et
al. 2017, arXiv:1607.01759): how often words and pairs of neighbours occur, then one linear layer and a
softmax. FastText has a narrow layer of word vectors between the two, so that its weights have low rank; here
they have full rank and an L2 penalty, which leaves nothing to the order of the examples or a learning rate.

Shapes: n documents, m segments of one, C labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, ttest_rel
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from base.progress import Tell

CONFIDENCE = 0.95
NUM_FEATURES = 2**18
"""Of the most frequent words and pairs."""
# Weak, for fastText has no penalty; without any the weights of separable data have no limit.
_INVERSE_PENALTY = 10.0

Selection = list[np.ndarray]
"""For each document the numbers of the selected segments, ascending."""


@dataclass(frozen=True)
class Documents:
    """Documents in segments.

    Attributes:
        segments: n lists of texts.
        labels: (n,), or (n, C) of 0 and 1.
    """

    segments: Sequence[Sequence[str]]
    labels: np.ndarray

    def read(self, selection: Selection) -> list[str]:
        """Return n texts of the selected segments, in their order."""
        pairs = zip(self.segments, selection, strict=True)
        return [" ".join(own[number] for number in chosen) for own, chosen in pairs]


@dataclass(frozen=True)
class Sufficiency:
    """How well a bag of words does on one kind of selection.

    Attributes:
        selection: Which kind.
        accuracy: In percent; all labels of a document must be right.
        accuracy_interval: Wilson's, over documents.
        macro_f1: In percent.
        difference: Accuracy on the highest-scored segments minus this one, in points.
        difference_interval: Student's, over documents, paired.
    """

    selection: str
    accuracy: float
    accuracy_interval: tuple[float, float]
    macro_f1: float
    difference: float
    difference_interval: tuple[float, float]


def select_top(scores: Sequence[np.ndarray], kept: int) -> Selection:
    """Select the segments with the highest scores, the earlier of equal ones.

    Args:
        scores: n arrays (m,).
        kept: How many of each document; all of one that has fewer.
    """
    return [np.sort(np.argsort(-own, kind="stable")[:kept]) for own in scores]


def select_random(counts: Sequence[int], kept: int, generator: np.random.Generator) -> Selection:
    """Select segments at random, without repetition."""
    return [np.sort(generator.permutation(count)[:kept]) for count in counts]


def compare_selections(
    train: Documents,
    validation: Documents,
    scores: Mapping[str, tuple[Sequence[np.ndarray], Sequence[np.ndarray]]],
    kept: int,
    draws: int,
    seed: int,
    tell: Tell = lambda message: None,
) -> list[Sufficiency]:
    """Judge segments selected by scores, segments drawn at random, and all segments.

    Args:
        train: What bags of words are trained on.
        validation: What they are judged on.
        scores: By name, for each training and each validation document the scores to select by; the others
            are compared with the first.
        kept: Segments of each document.
        draws: How many times segments are drawn at random; what is said of them is the mean.
        seed: Of the draws.
        tell: Told what is being done.
    """
    generator = np.random.default_rng(seed)
    selections: list[tuple[str, Selection, Selection]] = [
        (name, select_top(own[0], kept), select_top(own[1], kept)) for name, own in scores.items()
    ]
    in_train, in_validation = ([len(own) for own in part.segments] for part in (train, validation))
    for _ in range(draws):
        drawn = select_random(in_train, kept, generator), select_random(in_validation, kept, generator)
        selections.append(("random", drawn[0], drawn[1]))
    selections.append(("all", [*map(np.arange, in_train)], [*map(np.arange, in_validation)]))
    right: dict[str, list[np.ndarray]] = {}
    macro_f1: dict[str, list[float]] = {}
    for number, (name, for_train, for_validation) in enumerate(selections, start=1):
        tell(f"bag of words {number}/{len(selections)}: {name}")
        predictions = _predict(train.read(for_train), train.labels, validation.read(for_validation))
        right.setdefault(name, []).append(_is_right(validation.labels, predictions))
        macro_f1.setdefault(name, []).append(_macro_f1(validation.labels, predictions))
    best = np.mean(right[next(iter(scores))], axis=0)
    return [
        _summary(name, np.mean(right[name], axis=0), float(np.mean(macro_f1[name])), best) for name in right
    ]


def _predict(texts: list[str], labels: np.ndarray, unseen: list[str]) -> np.ndarray:
    """Train a bag of words and return its predictions, of the shape of the labels."""
    counts = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]", max_features=NUM_FEATURES)
    linear = LogisticRegression(C=_INVERSE_PENALTY, max_iter=200)
    classifier = OneVsRestClassifier(linear) if labels.ndim == 2 else linear
    model = make_pipeline(counts, Normalizer(), classifier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # after 200 steps predictions no longer change
        # A label that all documents have, or none, is predicted as such.
        warnings.filterwarnings("ignore", message="Label .* is present in all training examples")
        model.fit(texts, labels)
    return np.asarray(model.predict(unseen))


def _is_right(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    same = labels == predictions
    return (same.all(1) if same.ndim == 2 else same).astype(float)


def _macro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    return 100 * float(f1_score(labels, predictions, average="macro", zero_division=0))


def _summary(name: str, right: np.ndarray, macro_f1: float, best: np.ndarray) -> Sufficiency:
    total = len(right)
    found = binomtest(round(right.sum()), total).proportion_ci(CONFIDENCE, method="wilson")
    differences = best - right
    if total > 1 and np.ptp(differences) > 0:
        around = ttest_rel(best, right).confidence_interval(CONFIDENCE)
        interval = (100 * float(around.low), 100 * float(around.high))
    else:
        interval = (100 * float(differences.mean()),) * 2
    return Sufficiency(
        selection=name,
        accuracy=100 * float(right.mean()),
        accuracy_interval=(100 * float(found.low), 100 * float(found.high)),
        macro_f1=macro_f1,
        difference=100 * float(differences.mean()),
        difference_interval=interval,
    )


def table(results: Sequence[Sufficiency]) -> str:
    """Return the results as a table of text, with 95% intervals over documents."""
    names = ("accuracy", "interval", "macro F1", "the first's lead", "interval")
    widths = (8, 14, 9, 17, 16)
    heading = " ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    lines = [f"{'segments':12} {heading}"]
    for result in results:
        low, high = result.accuracy_interval
        under, over = result.difference_interval
        lines.append(
            f"{result.selection:12} {result.accuracy:8.1f} {f'[{low:.1f}, {high:.1f}]':>14} "
            f"{result.macro_f1:9.1f} {result.difference:17.1f} {f'[{under:.1f}, {over:.1f}]':>16}"
        )
    return "\n".join(lines)
