"""Pages of a classifier: texts shaded by what segments contribute, or placed in the spaces of ``space``.

Shapes: n examples, m segments of one or dimensions of a space, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.special import expit, softmax
from sklearn.decomposition import PCA

from base.errors import UsageError
from base.run.folder_names import RunFolder
from eval.classification.classification_task import ClassificationTask
from eval.classification.classifier import Batch, Classifier, HeadClassifier
from eval.classification.heads import SpaceHead
from eval.classification.prediction import Predictions, decide
from eval.zero_shot.text_task import evenly_spaced
from inside.classifier.classifiers import Documents, Subject
from inside.classifier.lime import WordForest
from report.document import markdown
from report.document.document import Document
from report.document.markdown import plain, shaded
from report.figures.style import STYLE, add_legend, filled, panels, variant_styles


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
        forest = WordForest(train.texts, train.data.labels, classifier.settings.seeds[0])
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


BATCH_SIZE = 64


def show_spaces(subject: Subject) -> Document:
    """Fine-tune if need be, and draw where validation examples lie.

    Raises:
        UsageError: For another head than ``space``, or a run or data that cannot be used.
    """
    if subject.head.name != "space":
        raise UsageError(f"--head {subject.head}: only space has concept spaces; give --head space")
    classifier = subject.load()
    data = classifier.documents.data
    title = f"{subject.task.name}, head {subject.head}, {RunFolder(subject.run.resolve()).run_id}"
    return spaces_document(
        concept_vectors(classifier.classifier, data), data.labels, subject.task.label_names, title
    )


def spaces_document(concepts: np.ndarray, labels: np.ndarray, names: Sequence[str], title: str) -> Document:
    """Make the page of texts in concept spaces.

    Args:
        concepts: (n, C, m) centroid of each text in each class's space.
        labels: (n,) from 0.
        names: C names of the labels.
        title: What the spaces are of.
    """
    alt = f"Scatter plots of {len(labels):,} examples in the concept spaces of {title}, a colour a label."
    intro = f"{len(labels):,} validation examples, each the mean of its tokens, and the mean of each label."
    columns = [f"{name} {place}" for name in names for place in range(1, concepts.shape[2] + 1)]
    places = pd.DataFrame(concepts.reshape(len(labels), -1), columns=columns)
    places.insert(0, "label", [names[label] for label in labels])
    return Document(
        title=f"Concept spaces of {title}",
        blocks=(intro, markdown.figure("spaces", alt)),
        figures={"spaces": (draw_concept_space(concepts, labels, names), alt)},
        tables={"places": places},
    )


@torch.inference_mode()
def concept_vectors(classifier: Classifier, data: Batch) -> np.ndarray:
    """Return (n, C, m), where each example lies in each class's space; the head is a ``SpaceHead``."""
    assert isinstance(classifier, HeadClassifier)
    assert isinstance(classifier.head, SpaceHead)
    centroids = []
    for start in range(0, len(data), BATCH_SIZE):
        vectors, mask = classifier.embed(data.take(range(start, min(start + BATCH_SIZE, len(data)))))
        assert mask is not None
        centroids.append(classifier.head.concept_vectors(vectors, mask))
    return torch.cat(centroids).float().cpu().numpy()


def draw_concept_space(concepts: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> Figure:
    """Draw the centroids of texts: one or two dimensions as they are, of more the first two components.

    Args:
        concepts: (n, C, m) centroid of each text in each class's space.
        labels: (n,) from 0.
        names: C names of the labels.
    """
    looks = list(variant_styles(names).values())
    num_dimensions = concepts.shape[2]
    axis = "dimension" if num_dimensions < 3 else "component"
    with matplotlib.rc_context(STYLE):
        figure, axes = panels(len(names), 2.4, columns=2 if len(names) in (2, 4) else 3)
        for panel, name, space in zip(axes, names, concepts.swapaxes(0, 1), strict=True):
            points = space[:, [0, -1]] if num_dimensions < 3 else PCA(2).fit_transform(space)
            keys = []
            for label in np.unique(labels):
                texts, look = points[labels == label], looks[label]
                panel.plot(*texts.T, look.marker, color=look.colour, ms=3, alpha=0.45)
                keys += panel.plot(*texts.mean(0)[:, None], look.marker, color=look.colour, ms=9, mec="black",
                                   label=names[label], zorder=5)  # fmt: skip
            panel.set_title(filled(f"space of {name}", 28))
            panel.set(xlabel=f"{axis} 1", ylabel=f"{axis} {min(2, num_dimensions)}")
        add_legend(figure, keys)
    return figure
