"""The plot of concept spaces: what is drawn, against plain numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import f_oneway

from eval.interpretation.spaces import draw_concept_space, principal_components, share_between


def make_concepts(n, num_classes, dimensions, seed=0):
    """Texts whose own class pulls them to one side of its space."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, n)
    concepts = rng.normal(0, 0.25, (n, num_classes, dimensions))
    concepts[np.arange(n), labels] += 0.6
    return np.tanh(concepts), labels


def names_of(num_classes):
    return [f"class {letter}" for letter in "abcdefghijklmnopqrstuvwxyz"[:num_classes]]


def points_of(axes):
    """What a panel shows: coordinates of the texts of every label, then of the labels' means."""
    lines = [np.array(line.get_data()) for line in axes.lines]
    return lines[: len(lines) // 2], lines[len(lines) // 2 :]


@pytest.mark.parametrize(("num_classes", "dimensions"), [(2, 1), (2, 2), (4, 2), (3, 3), (20, 16)])
def test_a_panel_shows_the_texts_of_every_label_and_their_means(num_classes, dimensions):
    concepts, labels = make_concepts(300, num_classes, dimensions)
    figure = draw_concept_space(concepts, labels, names_of(num_classes))
    assert len(figure.axes) == num_classes
    for k, axes in enumerate(figure.axes):
        space = concepts[:, k]
        if dimensions == 1:
            space = np.column_stack([space, labels])
        elif dimensions > 2:
            space, _ = principal_components(space)
        for label, (texts, mean) in enumerate(zip(*points_of(axes), strict=True)):
            np.testing.assert_allclose(texts, space[labels == label].T)
            np.testing.assert_allclose(mean[:, 0], space[labels == label].mean(0))
        assert axes.get_title().startswith(f"space of {names_of(num_classes)[k]}\n")
        assert axes.get_xlabel().startswith("component 1 (" if dimensions > 2 else "dimension 1")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == names_of(num_classes)


def test_components_are_those_of_the_singular_values():
    concepts, _ = make_concepts(200, 2, 6)
    points = concepts[:, 0]
    centred = points - points.mean(0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    coordinates, shares = principal_components(points)
    np.testing.assert_allclose(abs(coordinates), abs(centred @ directions[:2].T), atol=1e-12)
    np.testing.assert_allclose(shares, (sizes**2 / (sizes**2).sum())[:2])


def test_components_of_points_on_a_line_or_in_one_place():
    coordinates, shares = principal_components(np.outer(np.arange(5.0), [0, 3, 0, -4]))
    np.testing.assert_allclose(shares, [1, 0], atol=1e-12)
    np.testing.assert_allclose(abs(coordinates[:, 0]), 5 * abs(np.arange(5) - 2))
    coordinates, shares = principal_components(np.ones((3, 5)))
    assert not coordinates.any()
    assert not shares.any()


def test_the_share_between_labels_is_that_of_an_analysis_of_variance():
    concepts, labels = make_concepts(200, 3, 1)
    points = concepts[:, 0]
    f = f_oneway(
        *(points[labels == label, 0] for label in range(3))
    ).statistic  # (between / 2) / (within / 197)
    assert share_between(points, labels) == pytest.approx(2 * f / (2 * f + 197))
    assert share_between(np.array([[1.0], [1], [4], [4]]), np.array([0, 0, 1, 1])) == 1
    assert share_between(np.ones((4, 2)), np.array([0, 0, 1, 1])) == 0


def test_a_label_without_examples_is_left_out():
    concepts, labels = make_concepts(60, 3, 2)
    present = labels != 1
    figure = draw_concept_space(concepts[present], labels[present], names_of(3))
    assert [len(axes.lines) for axes in figure.axes] == [4, 4, 4]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["class a", "class c"]
