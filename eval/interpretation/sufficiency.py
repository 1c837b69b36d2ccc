"""Are the segments that a classifier points at enough to tell the label?

A small classifier is trained on the selected segments of each training document and nothing else, and judged
on the selected segments of the validation documents: if the selection holds what decides, it does as well as
on whole documents, and better than on segments drawn at random. It is a bag of words like fastText (Joulin et
al. 2017, arXiv:1607.01759): how often words and pairs of neighbours occur, then one linear layer and a
softmax. FastText has a narrow layer of word vectors between the two, so that its weights have low rank; here
they have full rank and an L2 penalty, which leaves nothing to the order of the examples or a learning rate.

Beside the highest-scored segments stand those with most attention (the weights of ``segment-attention``),
with most of LIME's keywords, and random ones, as in Wang et al. 2023 (arXiv:2304.01638, Table 3).

Shapes: n documents, m segments of one, C labels.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from scipy.stats import binomtest, ttest_rel
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from base.progress import Tell
from eval.classification.heads.registry import HeadChoice, check_head
from eval.classification.inputs.data import segmentation_of
from eval.classification.metrics import METRICS
from eval.classification.prediction import Predictions, decide
from eval.interpretation.arguments import ExplainArguments
from eval.interpretation.classifiers import (
    ATTENTION_HEAD,
    Subject,
    frame,
    like_cut,
    note_few_segments,
    segment_texts,
    table,
)
from eval.interpretation.lime import WordForest
from eval.report.document.document import Document, Drawing
from eval.report.document.markdown import figure
from eval.report.figures.style import (
    AVERAGE_COLOUR,
    DASHES,
    GREY,
    STYLE,
    add_legend,
    label_log_axis,
    panels,
)

CONFIDENCE = 0.95
NUM_FEATURES = 2**18
"""Of the most frequent words and pairs."""
# Weak, for fastText has no penalty; without any the weights of separable data have no limit.
_INVERSE_PENALTY = 10.0

ENOUGH = 0.97
"""Of the best accuracy: the shortest segments that reach it are the sweet spot of Wang et al. 2023."""

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


@dataclass(frozen=True)
class Measured:
    """What one head and its segments do.

    Attributes:
        head: Which one.
        window: Tokens of its longest segment.
        accuracy: Of the head itself on the validation documents, in percent.
        accuracy_interval: Wilson's, over documents.
        train_seconds: What its fine-tuning took.
        predict_seconds: What the validation documents took.
        held_out: Its scores on the held-out part after each epoch, in percent: how fast it converges.
        results: Of bags of words on selected segments, those of this head first.
    """

    head: str
    window: int
    accuracy: float
    accuracy_interval: tuple[float, float]
    train_seconds: float
    predict_seconds: float
    held_out: tuple[float, ...]
    results: list[Sufficiency]


def measure(subject: Subject, asked: ExplainArguments) -> Document:
    """Measure the head that is asked for, at every length that is asked for.

    Raises:
        UsageError: For a head without segments, or data or a run that cannot be used.
    """
    (head,) = subject.heads
    subject.check_segments(head)
    lengths = sorted(set(asked.lengths))
    forests: list[WordForest] = []
    measured = [
        _measure(subject, asked, choice, forests)
        for choice in [_of_length(head, length) for length in lengths] or [head]
    ]
    return document(measured, asked, f"{head} points at in {subject.task.name}")


def document(measured: Sequence[Measured], asked: ExplainArguments, subject: str) -> Document:
    """Make the page of what was measured.

    Args:
        measured: One, or one for each length from the shortest on.
        asked: Of the command.
        subject: Behind "Do the segments suffice that".
    """
    names = ("segments_kept", "draws", "seed", "train_documents")
    results = [{"head": one.head, **asdict(result)} for one in measured for result in one.results]
    whole = Document(
        title=f"Do the segments suffice that {subject}?",
        blocks=(table([asdict(result) for result in measured[0].results]),),
        figures={},
        tables={"results": frame(results)},
        record={name: getattr(asked, name) for name in names},
        command=asked.command,
    )
    return _with_lengths(whole, measured) if asked.lengths else whole


def _with_lengths(whole: Document, measured: Sequence[Measured]) -> Document:
    """The page of several lengths: what each does, and from which on the accuracy is nearly the best."""
    enough = sweet_spot(measured).window
    closing = f"{ENOUGH:.0%} of the best accuracy is reached from {enough} tokens on."
    drawing = draw_lengths(measured, closing)
    rows = [{"head": one.head, **_length_row(one)} for one in measured]
    held_out = {one.head: one.held_out for one in measured}
    return replace(
        whole,
        blocks=(f"{table(list(map(_length_row, measured)))}\n\n{closing}", figure("lengths", drawing[1])),
        figures={"lengths": drawing},
        tables={**whole.tables, "lengths": frame(rows)},
        record={**whole.record, "enough_from": enough, "held_out": held_out},
    )


def sweet_spot(measured: Sequence[Measured]) -> Measured:
    """Return the one with the shortest segments whose accuracy is 97% of the best."""
    best = max(one.accuracy for one in measured)
    return min((one for one in measured if one.accuracy >= ENOUGH * best), key=lambda one: one.window)


def _of_length(choice: HeadChoice, length: int) -> HeadChoice:
    options = dict(choice.options) | {"window": length}
    return check_head(HeadChoice(choice.name, tuple(options.items()), choice.is_frozen))


def _measure(
    subject: Subject, asked: ExplainArguments, head: HeadChoice, forests: list[WordForest]
) -> Measured:
    """Measure one head; ``forests`` holds the forest, once it is made, for all lengths."""
    classifier = subject.load(head)
    note_few_segments(classifier, asked.segments_kept)
    train_texts, train_data = subject.training_documents(classifier, asked.train_documents)
    data: Any = classifier.validation
    train = Documents(segment_texts(train_texts, train_data), train_data.labels)
    validation = Documents(segment_texts(classifier.texts, data), data.labels)
    subject.tell(f"scoring segments of {head}")
    begin = time.monotonic()
    predicted = classifier.predict(data)
    seconds = time.monotonic() - begin
    subject.tell("fine-tuning the head whose attention is read, unless it is there")
    rival = subject.load(like_cut(head, ATTENTION_HEAD))
    subject.tell("a forest's keywords by LIME")
    if not forests:
        forests.append(WordForest(train_texts, train.labels, asked.seed))
    scores = {
        "highest": (classifier.predict(train_data).contributions(), predicted.contributions()),
        "attention": (rival.predict(train_data).contributions(), rival.predict(data).contributions()),
        "LIME": (
            _by_lime(forests[0], train_texts, train),
            _by_lime(forests[0], classifier.texts, validation),
        ),
    }
    results = compare_selections(
        train, validation, scores, asked.segments_kept, asked.draws, asked.seed, subject.tell
    )
    accuracy, interval = _accuracy(data.labels, predicted)
    cut = segmentation_of(classifier.settings)
    assert cut is not None
    return Measured(
        str(head), cut.window, accuracy, interval, classifier.seconds, seconds, classifier.scores, results
    )


def _by_lime(forest: WordForest, texts: list[str], documents: Documents) -> list[np.ndarray]:
    """Return for each document how many keywords of the likeliest label its segments have."""
    likeliest = forest.probabilities(texts).argmax(1)
    pairs = zip(documents.segments, likeliest, strict=True)
    return [forest.segment_scores(segments)[:, label] for segments, label in pairs]


def _accuracy(labels: np.ndarray, predicted: Predictions) -> tuple[float, tuple[float, float]]:
    accuracy = METRICS["accuracy"](labels, decide(predicted.logits, labels.ndim == 2))
    return accuracy, _wilson(round(accuracy / 100 * len(labels)), len(labels))


def _wilson(right: int, total: int) -> tuple[float, float]:
    interval = binomtest(right, total).proportion_ci(CONFIDENCE, method="wilson")
    return 100 * float(interval.low), 100 * float(interval.high)


def _length_row(one: Measured) -> dict[str, Any]:
    return {
        "tokens": one.window,
        "accuracy": one.accuracy,
        "interval": one.accuracy_interval,
        **{f"words of: {result.selection}": result.accuracy for result in one.results},
        "seconds of training": one.train_seconds,
        "of reading": one.predict_seconds,
    }


def draw_lengths(measured: Sequence[Measured], closing: str) -> Drawing:
    """Draw accuracy and seconds against the length of segments."""
    rows = pd.DataFrame([_length_row(one) for one in measured]).set_index("tokens").drop(columns="interval")
    seconds = ["seconds of training", "of reading"]
    with matplotlib.rc_context(STYLE):
        plot, (left, right) = panels(2, 2.7, columns=2)
        lines = left.plot(rows.drop(columns=seconds), marker="o", label=list(rows.drop(columns=seconds)))
        for name, colour, dashes in zip(seconds, (AVERAGE_COLOUR, GREY), DASHES, strict=False):
            lines += right.plot(rows[name], marker="s", label=name, color=colour, ls=dashes)
        right.set_yscale("log")
        label_log_axis(right.yaxis)
        left.set_ylabel("percent right")
        right.set_ylabel("seconds")
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_xticks(rows.index, rows.index.astype(str))
            axes.set_xlabel("tokens of a segment")
        add_legend(plot, lines)
    return plot, f"Accuracy and seconds against the length of segments: {closing}"


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
    differences = best - right
    if total > 1 and np.ptp(differences) > 0:
        around = ttest_rel(best, right).confidence_interval(CONFIDENCE)
        interval = (100 * float(around.low), 100 * float(around.high))
    else:
        interval = (100 * float(differences.mean()),) * 2
    return Sufficiency(
        selection=name,
        accuracy=100 * float(right.mean()),
        accuracy_interval=_wilson(round(right.sum()), total),
        macro_f1=macro_f1,
        difference=100 * float(differences.mean()),
        difference_interval=interval,
    )
