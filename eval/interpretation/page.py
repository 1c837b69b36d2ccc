"""What segments contribute to predictions, as a page of shaded texts.

Shapes: n examples, m segments of one, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from eval.classification.prediction import decide
from eval.interpretation.arguments import ExplainArguments
from eval.interpretation.classifiers import (
    FinetunedClassifier,
    Subject,
    note_few_segments,
    segment_texts,
)
from eval.interpretation.lime import WordForest
from eval.report.document.document import Document
from eval.report.document.markdown import plain, shaded
from eval.zero_shot.task import evenly_spaced

NUM_EXAMPLES = 20


@dataclass(frozen=True)
class Segment:
    """A part of a text, from ``start`` to before ``stop``, and what it contributes to each label."""

    start: int
    stop: int
    text: str
    scores: dict[str, float]


@dataclass(frozen=True)
class Explained:
    """One example, its prediction, and what its segments say of it.

    Attributes:
        idx: Its name in its file.
        text: All of it.
        labels: What is right.
        predictions: What is predicted: one label, or any number where several may be right.
        shown: The label whose contributions are shown, the likeliest.
        probabilities: Of each label.
        segments: They may overlap.
    """

    idx: str
    text: str
    labels: tuple[str, ...]
    predictions: tuple[str, ...]
    shown: str
    probabilities: dict[str, float]
    segments: list[Segment]

    @property
    def is_right(self) -> bool:
        """Whether what is predicted is what is right."""
        return self.predictions == self.labels


def explain(subject: Subject, asked: ExplainArguments) -> Document:
    """Show what segments contribute to what a run's classifier says.

    Raises:
        UsageError: For a head without segments, or data or a run that cannot be used.
    """
    classifier = _load(subject)
    logits, scores = classifier.predict(_segments_of(classifier))
    assert scores is not None
    probabilities = expit(logits) if subject.task.multi_label else softmax(logits, axis=1)
    predictions = decide(logits, subject.task.multi_label)
    examples = _explained(classifier, scores, probabilities, predictions)
    who = f"{subject.run} under the head {classifier.settings.head}"
    return _findings(examples, subject, asked, who, "what it contributes to")


def explain_by_lime(subject: Subject, asked: ExplainArguments) -> Document:
    """Show in which segments of a run's head the keywords of a random forest are, which LIME finds.

    Raises:
        UsageError: As ``explain``.
    """
    classifier = _load(subject)
    texts, train = subject.training_documents(classifier, asked.train_documents)
    forest = WordForest(texts, train.labels, asked.seed)
    segments = segment_texts(classifier.texts, _segments_of(classifier))
    scores = [forest.segment_scores(parts) for parts in segments]
    probabilities = forest.probabilities(classifier.texts)
    predictions = probabilities > 0.5 if subject.task.multi_label else probabilities.argmax(1)
    examples = _explained(classifier, scores, probabilities, predictions)
    who = "a random forest on words"
    return _findings(examples, subject, asked, who, "how many of LIME's keywords it has for")


def _load(subject: Subject) -> FinetunedClassifier:
    (head,) = subject.heads
    subject.check_segments(head)
    classifier = subject.load(head)
    note_few_segments(classifier, 1)
    return classifier


def _segments_of(classifier: FinetunedClassifier) -> Any:
    return classifier.validation


def _explained(
    classifier: FinetunedClassifier,
    scores: Sequence[np.ndarray],
    probabilities: np.ndarray,
    predictions: np.ndarray,
) -> list[Explained]:
    """Return every validation example with what is said of it.

    Args:
        classifier: Has the examples.
        scores: n arrays (m, C).
        probabilities: (n, C).
        predictions: (n,), or (n, C) of 0 and 1 where several labels may be right.
    """
    data, names = _segments_of(classifier), classifier.task.label_names
    spans = np.split(data.spans, data.starts[1:])

    def by_name(values: np.ndarray) -> dict[str, float]:
        return dict(zip(names, values.tolist(), strict=True))

    def listed(labels: np.ndarray) -> tuple[str, ...]:
        places = np.flatnonzero(labels) if classifier.task.multi_label else [int(labels)]
        return tuple(names[place] for place in places)

    return [
        Explained(
            idx=str(data.idx[number]),
            text=text,
            labels=listed(data.labels[number]),
            predictions=listed(predictions[number]),
            shown=names[probabilities[number].argmax()],
            probabilities=by_name(probabilities[number]),
            segments=[
                Segment(int(start), int(stop), text[start:stop], by_name(contributions))
                for (start, stop), contributions in zip(spans[number], scores[number], strict=True)
            ],
        )
        for number, text in enumerate(classifier.texts)
    ]


def _findings(
    examples: list[Explained], subject: Subject, asked: ExplainArguments, who: str, shade: str
) -> Document:
    is_right = np.array([example.is_right for example in examples])
    shown = [examples[number] for number in choose_examples(is_right, asked.examples or NUM_EXAMPLES)]
    intro = (
        f"{len(shown)} of {len(examples)} validation examples of {subject.task.name}. Of all, "
        f"{who} classifies {is_right.sum()} correctly. Each segment is shaded by {shade} the likeliest "
        "label; point at it for its score."
    )
    return document(shown, intro, asked, subject.task.name)


def document(examples: Sequence[Explained], intro: str, asked: ExplainArguments, task: str) -> Document:
    """Make the page of examples; ``intro`` is plain text that says what it shows."""
    return Document(
        title=f"What decides {task}",
        blocks=blocks(examples, plain(intro)),
        figures={},
        tables={"segments": _segment_table(examples)},
        record={"examples": [{**asdict(example), "is_right": example.is_right} for example in examples]},
        command=asked.command,
    )


def _segment_table(examples: Sequence[Explained]) -> pd.DataFrame:
    """A row for each segment and label."""
    rows = [
        (example.idx, number, part.text, label, score)
        for example in examples
        for number, part in enumerate(example.segments, 1)
        for label, score in part.scores.items()
    ]
    return pd.DataFrame(rows, columns=["example", "segment", "text", "label", "score"])


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


def blocks(examples: Sequence[Explained], intro: str) -> tuple[str, ...]:
    """Write examples as Markdown, their segments shaded by what they contribute.

    Args:
        examples: What to show, in this order.
        intro: What the page shows, in a sentence or two of Markdown.
    """
    scores = [abs(part.scores[example.shown]) for example in examples for part in example.segments]
    scale = max(scores, default=0.0) or 1.0
    legend = f"{shaded(f'speaks against: {-scale:+.2f}', -1)} {shaded(f'speaks for: {scale:+.2f}', 1)}"
    return (intro, legend, *(_section(example, scale) for example in examples))


def _section(example: Explained, scale: float) -> str:
    verdict = "right" if example.is_right else "wrong"
    chance = f"{100 * example.probabilities[example.shown]:.1f}%"
    about = (
        f"is {', '.join(example.labels) or 'none'}, predicted {', '.join(example.predictions) or 'none'}; "
        f"{example.shown} has probability {chance}"
    )
    return f"## {plain(example.idx)}: {verdict}\n\n{plain(about)}\n\n{_shaded(example, scale)}"


def _shaded(example: Explained, scale: float) -> str:
    """The text in pieces between which no segment begins or ends, each with the mean of its segments."""
    ends = {0, len(example.text)}.union(*((part.start, part.stop) for part in example.segments))
    scores = [part.scores[example.shown] for part in example.segments]
    spans = np.array([(part.start, part.stop) for part in example.segments]).reshape(-1, 2)
    pieces = []
    for start, stop in pairwise(sorted(ends)):
        text = "<br>".join(map(plain, example.text[start:stop].split("\n")))
        over = np.flatnonzero((spans[:, 0] <= start) & (spans[:, 1] > start))
        if len(over):
            title = "; ".join(f"segment {place + 1}: {scores[place]:+.3f}" for place in over)
            text = shaded(text, float(np.mean([scores[place] for place in over])) / scale, title)
        pieces.append(text)
    return "".join(pieces)
