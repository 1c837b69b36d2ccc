"""What segments contribute to predictions, as a page of shaded texts.

Shapes: n examples, m segments of one, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from eval.classification.prediction import Predictions, decide
from eval.classification.task import ClassificationTask
from eval.zero_shot.task import evenly_spaced
from inside.classifier.classifiers import Documents, Subject
from inside.classifier.lime import WordForest
from report.document.document import Document
from report.document.markdown import plain, shaded


class Explained(NamedTuple):
    """One example, its prediction, and what its segments say of it.

    Attributes:
        example: Its name in its file.
        labels: What is right.
        predictions: What is predicted: one label, or any number where several may be right.
        likeliest: The label whose contributions are shown.
        probability: Of that label.
        text: All of it.
        spans: (m, 2) first character of each segment, and the one behind its last; they may overlap.
        scores: (m,) what each contributes to the likeliest label.
    """

    example: str
    labels: str
    predictions: str
    likeliest: str
    probability: float
    text: str
    spans: np.ndarray
    scores: np.ndarray


def show(subject: Subject, num_examples: int, num_lime: int = 0) -> Document:
    """Show what segments contribute to what a run's classifier says; or LIME's keywords of a forest in them.

    Args:
        subject: Whose classifier.
        num_examples: On the page.
        num_lime: Documents to train the forest on; 0 for the classifier's own contributions.

    Raises:
        UsageError: For a head without segments, or data or a run that cannot be used.
    """
    subject.check_segments("windows", "turns", "sentences")
    classifier = subject.load()
    predictions = classifier.predict(classifier.documents.data)
    who, shade = f"{subject.run} under the head {subject.head}", "what it contributes to"
    if num_lime:
        train = subject.training_documents(classifier, num_lime)
        forest = WordForest(train.texts, train.data.labels, classifier.seed)
        predictions = forest.explain(classifier.documents)
        who, shade = "a random forest on words", "how many of LIME's keywords it has for"
    examples = explained(subject.task, classifier.documents, predictions)
    is_right = np.array([example.predictions == example.labels for example in examples])
    shown = [examples[place] for place in choose_examples(is_right, num_examples)]
    intro = (
        f"{len(shown)} of {len(examples)} validation examples of {subject.task.name}. Of all, "
        f"{who} classifies {is_right.sum()} correctly. Each segment is shaded by {shade} the likeliest "
        "label; point at it for its score."
    )
    return document(shown, intro, f"What decides {subject.task.name}")


def explained(task: ClassificationTask, documents: Documents, predictions: Predictions) -> list[Explained]:
    """Put every example together with what is said of it."""
    data, logits = documents.data, predictions.logits

    def names(labels: np.ndarray) -> str:
        places = np.flatnonzero(labels) if task.multi_label else [int(labels)]
        return ", ".join(task.label_names[place] for place in places)

    columns = (
        map(str, data.idx),
        map(names, data.labels),
        map(names, decide(logits, task.multi_label)),
        [task.label_names[place] for place in logits.argmax(1)],
        (expit(logits) if task.multi_label else softmax(logits, axis=1)).max(1).tolist(),
        documents.texts,
        np.split(data.spans, data.starts[1:]),
        predictions.contributions(),
    )
    return [Explained(*values) for values in zip(*columns, strict=True)]


def document(examples: Sequence[Explained], intro: str, title: str) -> Document:
    """Make the page of examples, their segments shaded; ``intro`` is plain text that says what it shows."""
    scale = max((float(abs(score)) for example in examples for score in example.scores), default=0.0) or 1.0
    legend = f"{shaded(f'speaks against: {-scale:+.2f}', -1)} {shaded(f'speaks for: {scale:+.2f}', 1)}"
    segments = [
        (*example[:5], place, example.text[start:stop], score)
        for example in examples
        for place, ((start, stop), score) in enumerate(zip(example.spans, example.scores, strict=True), 1)
    ]
    columns = [*Explained._fields[:5], "segment", "text", "score"]
    return Document(
        title=title,
        blocks=(plain(intro), legend, *(_section(example, scale) for example in examples)),
        tables={"segments": pd.DataFrame(segments, columns=columns)},
    )


def choose_examples(is_right: np.ndarray, number: int) -> np.ndarray:
    """Choose examples to look at: half of them wrong where there are enough, each half evenly spaced.

    Args:
        is_right: (n,) whether each is classified correctly.
        number: How many; all if there are fewer.

    Returns:
        Their numbers, ascending.
    """
    right, wrong = np.flatnonzero(is_right).tolist(), np.flatnonzero(~is_right).tolist()
    num_wrong = min(len(wrong), max(number // 2, number - len(right)))
    return np.array(sorted(evenly_spaced(wrong, num_wrong) + evenly_spaced(right, number - num_wrong)), int)


def _section(example: Explained, scale: float) -> str:
    about = (
        f"is {example.labels or 'none'}, predicted {example.predictions or 'none'}; "
        f"{example.likeliest} has probability {100 * example.probability:.1f}%"
    )
    heading = f"## {plain(example.example)}: {'right' if example.predictions == example.labels else 'wrong'}"
    return f"{heading}\n\n{plain(about)}\n\n{_shaded(example, scale)}"


def _shaded(example: Explained, scale: float) -> str:
    """The text in pieces between which no segment begins or ends, each with the mean of its segments."""
    ends = {0, len(example.text), *example.spans.ravel().tolist()}
    pieces = []
    for start, stop in pairwise(sorted(ends)):
        text = "<br>".join(map(plain, example.text[start:stop].split("\n")))
        over = np.flatnonzero((example.spans[:, 0] <= start) & (example.spans[:, 1] > start))
        if len(over):
            title = "; ".join(f"segment {place + 1}: {example.scores[place]:+.3f}" for place in over)
            text = shaded(text, float(example.scores[over].mean()) / scale, title)
        pieces.append(text)
    return "".join(pieces)
