"""Where texts lie in the spaces of the head ``space``: a panel for each class's space, coloured by label.

Shapes: n examples, C classes, m dimensions of a space.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from sklearn.decomposition import PCA

from base.errors import UsageError
from base.run.folders import RunFolder
from eval.classification.classifier import Batch, Classifier, HeadClassifier
from eval.classification.heads import SpaceHead
from inside.classifier.classifiers import Subject
from report.document import markdown
from report.document.document import Document
from report.figures.style import STYLE, add_legend, filled, panels, variant_styles

BATCH_SIZE = 64


def draw(subject: Subject) -> Document:
    """Fine-tune if need be, and draw where validation examples lie.

    Raises:
        UsageError: For another head than ``space``, or a run or data that cannot be used.
    """
    if subject.head.name != "space":
        raise UsageError(f"--head {subject.head}: only space has concept spaces; give --head space")
    classifier = subject.load()
    data = classifier.documents.data
    title = f"{subject.task.name}, head {subject.head}, {RunFolder(subject.run.resolve()).run_id}"
    return document(
        concept_vectors(classifier.classifier, data), data.labels, subject.task.label_names, title
    )


def document(concepts: np.ndarray, labels: np.ndarray, names: Sequence[str], title: str) -> Document:
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
