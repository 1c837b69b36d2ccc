"""Where texts lie in the spaces of the head ``space``: a panel for each class's space, coloured by label.

Shapes: n examples, C classes, m dimensions of a space.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.decomposition import PCA

from base.errors import UsageError
from eval.classification.classifier import Batch, Classifier, HeadClassifier
from eval.classification.heads.segment_heads import SpaceHead
from eval.interpretation.arguments import ExplainArguments
from eval.interpretation.classifiers import Subject
from eval.report.document import markdown
from eval.report.document.document import Document
from eval.report.figures.style import STYLE, add_legend, filled, panels, variant_styles
from eval.zero_shot.task import evenly_spaced
from pretrain.run.folders import RunFolder

BATCH_SIZE = 64
NUM_EXAMPLES = 1000


def draw(subject: Subject, asked: ExplainArguments) -> Document:
    """Fine-tune if need be, and draw where validation examples lie.

    Raises:
        UsageError: For another head than ``space``, fewer than two examples, or a run or data that cannot be
            used.
    """
    (head,) = subject.heads
    if head.name != "space":
        raise UsageError(
            f"--head {head}: only space has concept spaces; give --head space or --head "
            '"space num_dimensions=2"'
        )
    classifier = subject.load(head)
    examples = range(len(classifier.validation))
    data = classifier.validation.take(evenly_spaced(list(examples), asked.examples or NUM_EXAMPLES))
    if len(data) < 2:
        raise UsageError(f"--examples: {len(data)} is drawn of {len(examples)}; a plot needs 2 or more")
    concepts = concept_vectors(classifier.classifier, data)
    title = f"{subject.task.name}, head {head}, {RunFolder(subject.run.resolve()).run_id}"
    return document(concepts, data.labels, subject.task.label_names, asked, title)


def document(
    concepts: np.ndarray, labels: np.ndarray, names: Sequence[str], asked: ExplainArguments, title: str
) -> Document:
    """Make the page of texts in concept spaces.

    Args:
        concepts: (n, C, m) centroid of each text in each class's space.
        labels: (n,) from 0.
        names: C names of the labels.
        asked: Of the command.
        title: What the spaces are of.
    """
    shares = [
        (f"space of {name}", share_between(concepts[:, place], labels)) for place, name in enumerate(names)
    ]
    alt = f"Scatter plots of {len(labels):,} examples in the concept spaces of {title}, a colour a label."
    intro = (
        f"{len(labels):,} validation examples, each the centroid of its tokens, and the mean of each label. "
        "The share of the variance that lies between the labels' means says how far a space parts them."
    )
    return Document(
        title=f"Concept spaces of {title}",
        blocks=(intro, markdown.figure("spaces", alt)),
        figures={"spaces": (draw_concept_space(concepts, labels, names), alt)},
        tables={"shares": pd.DataFrame(shares, columns=["space", "share_between_labels"])},
        record={"examples": len(labels)},
        command=asked.command,
    )


def concept_vectors(classifier: Classifier, data: Batch) -> np.ndarray:
    """Return (n, C, m), where each example lies in each class's space; the head is a ``SpaceHead``."""
    assert isinstance(classifier, HeadClassifier)
    head = classifier.head
    assert isinstance(head, SpaceHead)
    parts = []
    with torch.no_grad():
        for start in range(0, len(data), BATCH_SIZE):
            vectors, mask = classifier.embed(data.take(range(start, min(start + BATCH_SIZE, len(data)))))
            assert mask is not None
            parts.append(head.concept_vectors(vectors, mask).float().cpu().numpy())
    return np.concatenate(parts)


def draw_concept_space(concepts: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> Figure:
    """Draw the centroids of texts: one or two dimensions as they are, of more the first two components.

    Args:
        concepts: (n, C, m) centroid of each text in each class's space.
        labels: (n,) from 0.
        names: C names of the labels.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = panels(len(names), 2.4, columns=2 if len(names) in (2, 4) else 3)
        looks = list(variant_styles(names).values())
        for place, (own, name) in enumerate(zip(axes, names, strict=True)):
            _draw_panel(own, concepts[:, place].astype(np.float64), labels, looks)
            share = share_between(concepts[:, place], labels)
            own.set_title(f"{filled(f'space of {name}', 28)}\n{share:.0%} between labels")
        keys = [
            Line2D(
                [], [], color=looks[label].colour, marker=looks[label].marker, ls="none", label=names[label]
            )
            for label in np.unique(labels)
        ]
        add_legend(figure, keys)
    return figure


def _draw_panel(axes: Axes, points: np.ndarray, labels: np.ndarray, looks: Sequence) -> None:
    """Draw the texts of every label, then over all of them the labels' means."""
    titles = [f"dimension {place + 1}" for place in range(points.shape[1])]
    if points.shape[1] == 1:
        points, titles = np.column_stack([points, labels]), [*titles, "label"]
    if points.shape[1] > 2:
        points, shares = principal_components(points)
        titles = [f"component {place + 1} ({share:.0%})" for place, share in enumerate(shares)]
    axes.set_xlabel(titles[0])
    axes.set_ylabel(titles[1])
    groups = [(points[labels == label], looks[label]) for label in np.unique(labels)]
    for texts, look in groups:
        axes.plot(*texts.T, look.marker, color=look.colour, ms=3, alpha=0.45, zorder=2)
    for texts, look in groups:
        axes.plot(*texts.mean(0)[:, None], look.marker, color=look.colour, ms=9, mec="black", zorder=5)


def principal_components(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Project (n, m) points on their first two principal components.

    Returns:
        (n, 2) coordinates, and (2,) shares of the variance, 0 of points that all lie in one place.
    """
    with np.errstate(invalid="ignore"):
        components = PCA(2, svd_solver="full").fit(points)
    return components.transform(points), np.nan_to_num(components.explained_variance_ratio_)


def share_between(points: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of the points' variance that lies between the labels' means: 0 none, 1 all of it."""
    centred = np.asarray(points, dtype=np.float64)
    centred = centred - centred.mean(0)
    total = (centred**2).sum()
    groups = [centred[labels == label] for label in np.unique(labels)]
    between = sum(len(group) * (group.mean(0) ** 2).sum() for group in groups)
    return float(between / total) if total else 0.0
