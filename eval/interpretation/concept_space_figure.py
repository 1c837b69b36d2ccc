"""Where texts lie in the spaces of the head ``space``: a panel for each class's space, coloured by label.

Shapes: n examples, C classes, m dimensions of a space.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.figures.style import (
    GREY,
    SMALL,
    STYLE,
    VariantStyle,
    add_legend,
    filled,
    new_figure,
    settle,
    variant_styles,
)

MOST_PANELS = 12
"""With more classes there is one panel, of the spaces side by side as the classifier reads them."""
PANEL_IN = {1: 1.6, 2: 2.1, 3: 2.9}
ONE_PANEL_IN = 3.6
ZOOM = 0.95  # of a cube in its panel, so that its labels are inside


@dataclass(frozen=True)
class _Space:
    """One panel.

    Attributes:
        title: Whose space it is.
        points: (n, 1), (n, 2) or (n, 3).
        axes: What each column of the points is.
    """

    title: str
    points: np.ndarray
    axes: tuple[str, ...]


def draw_concept_space(
    concepts: np.ndarray, labels: np.ndarray, names: Sequence[str], title: str
) -> tuple[Figure, str]:
    """Draw the centroids of texts: as they are up to three dimensions, of more the first two components.

    Args:
        concepts: (n, C, m) centroid of each text in each class's space.
        labels: (n,) from 0.
        names: C names of the labels.
        title: What is drawn: the task, the head, the run.

    Returns:
        The figure, laid out, and its alt text.
    """
    spaces = _spaces(np.asarray(concepts, dtype=np.float64), names)
    drawn = len(spaces[0].axes)
    projection = {"projection": "3d"} if drawn == 3 else {}
    with matplotlib.rc_context(STYLE):
        columns = 3 if len(spaces) not in (1, 2, 4) and drawn < 3 else min(2, len(spaces))
        lines = math.ceil(len(spaces) / columns)
        figure = new_figure(PANEL_IN[drawn] * lines + 0.8 if len(spaces) > 1 else ONE_PANEL_IN)
        styles = dict(zip(names, variant_styles(names).values(), strict=True))
        for place, space in enumerate(spaces, start=1):
            axes = figure.add_subplot(lines, columns, place, **projection)
            _panel(axes, space, labels, styles)
        caption = _caption(title, concepts.shape, len(spaces) < len(names))
        figure.supxlabel(filled(caption, 98), fontsize=SMALL, color=GREY)
        shown = [name for label, name in enumerate(names) if (labels == label).any()]
        add_legend(figure, [_handle(name, styles[name]) for name in shown])
        settle(figure)
    return figure, _alt(caption, spaces, labels)


def principal_components(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Project (n, K) points on their first two principal components.

    Returns:
        (n, 2) coordinates, a component's largest weight positive so that its sign is settled, and (2,) shares
        of the variance.
    """
    centred = points - points.mean(0)
    _, sizes, components = np.linalg.svd(centred, full_matrices=False)
    components = components[:2]
    largest = abs(components).argmax(1)
    components = components * np.sign(components[range(len(components)), largest])[:, None]
    coordinates = np.zeros((len(points), 2))
    coordinates[:, : len(components)] = centred @ components.T
    shares = np.zeros(2)
    shares[: len(components)] = (sizes**2 / max((sizes**2).sum(), np.finfo(float).tiny))[:2]
    return coordinates, shares


def share_between(points: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of the points' variance that lies between the labels' means: 0 none, 1 all of it."""
    centred = points - points.mean(0)
    total = (centred**2).sum()
    of_labels = [centred[labels == label] for label in np.unique(labels)]
    between = sum(len(one) * (one.mean(0) ** 2).sum() for one in of_labels)
    return float(between / total) if total else 0.0


def _spaces(concepts: np.ndarray, names: Sequence[str]) -> list[_Space]:
    n, num_classes, dimensions = concepts.shape
    if num_classes > MOST_PANELS:
        return [_reduced("all spaces", concepts.reshape(n, num_classes * dimensions))]
    titles = [f"space of {name}" for name in names]
    if dimensions > 3:
        return [_reduced(title, concepts[:, k]) for k, title in enumerate(titles)]
    axes = tuple(f"dimension {j + 1}" for j in range(dimensions))
    return [_Space(title, concepts[:, k], axes) for k, title in enumerate(titles)]


def _reduced(title: str, points: np.ndarray) -> _Space:
    coordinates, shares = principal_components(points)
    axes = tuple(f"component {j + 1} ({share:.0%})" for j, share in enumerate(shares))
    return _Space(title, coordinates, axes)


def _panel(axes, space: _Space, labels: np.ndarray, styles: dict[str, VariantStyle]) -> None:
    """Draw the texts of every label, then over all of them the labels' means."""
    points = space.points
    if len(space.axes) == 1:  # a line a label
        points = np.column_stack([points, labels])
    looks = list(styles.values())
    present = np.unique(labels)
    for label in present:
        look = looks[label]
        axes.plot(
            *points[labels == label].T, look.marker, color=look.colour, ms=3, alpha=0.45, zorder=2,
            mfc="none" if look.hollow else look.colour, mew=0.7 if look.hollow else 0, ls="none",
        )  # fmt: skip
    for label in present:
        look = looks[label]
        axes.plot(
            *points[labels == label].mean(0)[:, None], look.marker, ms=9, mec="black", mew=1.3, zorder=5,
            mfc="white" if look.hollow else look.colour, ls="none",
        )  # fmt: skip
    axes.set_title(f"{filled(space.title, 28)}\n{share_between(space.points, labels):.0%} between labels")
    for axis, name in zip("xyz", space.axes, strict=False):
        getattr(axes, f"set_{axis}label")(name)
        axes.locator_params(axis=axis, nbins=4)
    if len(space.axes) == 1:
        axes.set_yticks(present, [list(styles)[label] for label in present])
        axes.margins(y=0.4)
    if len(space.axes) == 3:
        axes.set_box_aspect(None, zoom=ZOOM)
        axes.tick_params(labelsize=7, pad=-2)
        for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
            axis.labelpad = -5
            axis.label.set_size(SMALL)


def _handle(name: str, look: VariantStyle) -> Line2D:
    return Line2D(
        [], [], marker=look.marker, color=look.colour, ls="none", ms=5.5, label=name,
        mfc="white" if look.hollow else look.colour,
    )  # fmt: skip


def _caption(title: str, shape: tuple[int, ...], is_one_panel: bool) -> str:
    num_examples, _, dimensions = shape
    components = "the first two principal components, with their share of the variance,"
    if is_one_panel:
        shown = f"{components} of all spaces side by side"
    elif dimensions > 3:
        shown = f"{components} of each class's {dimensions} dimensions"
    else:
        shown = "each class's space as it is"
    return (
        f"{title}. {num_examples:,} examples, each the centroid of its tokens; {shown}. Large marks: the "
        f"mean of a label. Above each panel: the share of the drawn variance that lies between those means."
    )


def _alt(caption: str, spaces: Sequence[_Space], labels: np.ndarray) -> str:
    shares = ", ".join(f"{space.title} {share_between(space.points, labels):.0%}" for space in spaces)
    return f"Scatter plots of the concept space, one colour and marker per label: {caption} It is: {shares}."
