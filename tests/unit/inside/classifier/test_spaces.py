"""The plot of concept spaces: what is drawn, against plain numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest

from inside.classifier.page import draw_concept_space, spaces_document


def make_concepts(n, num_classes, dimensions, seed=0):
    """Texts whose own class pulls them to one side of its space."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, n)
    concepts = rng.normal(0, 0.25, (n, num_classes, dimensions))
    concepts[np.arange(n), labels] += 0.6
    return np.tanh(concepts), labels


def points_of(axes):
    """What a panel shows: coordinates of the texts of every label, then of the labels' means."""
    lines = [np.array(line.get_data()) for line in axes.lines]
    return zip(lines[::2], lines[1::2], strict=True)


def plane(space):
    """Two dimensions as they are, the only one twice, or the components of the greatest singular values."""
    if space.shape[1] < 3:
        return space[:, [0, -1]]
    centred = space - space.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    return centred @ directions[:2].T


@pytest.mark.parametrize(("num_classes", "dimensions"), [(2, 1), (4, 2), (3, 3), (20, 16)])
def test_a_panel_shows_the_texts_of_every_label_and_their_means(num_classes, dimensions):
    concepts, labels = make_concepts(300, num_classes, dimensions)
    labels[labels == 1] = 0  # a label without texts is left out
    names = [f"class {letter}" for letter in "abcdefghijklmnopqrst"[:num_classes]]
    figure = draw_concept_space(concepts, labels, names)
    present = [0, *range(2, num_classes)]
    for k, axes in enumerate(figure.axes):
        expected = plane(concepts[:, k])
        for label, (texts, mean) in zip(present, points_of(axes), strict=True):
            # The sign of a component is anybody's.
            np.testing.assert_allclose(abs(texts), abs(expected[labels == label].T), atol=1e-12)
            np.testing.assert_allclose(mean[:, 0], texts.mean(1))
        assert axes.get_title() == f"space of {names[k]}"
        assert axes.get_xlabel() == ("component 1" if dimensions > 2 else "dimension 1")
        assert axes.get_ylabel().endswith(" 1" if dimensions == 1 else " 2")
    assert len(figure.axes) == num_classes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [names[k] for k in present]


def test_the_table_has_every_place():
    concepts, labels = make_concepts(30, 2, 3)
    table = spaces_document(concepts, labels, ["a", "b"], "sst2").tables["places"]
    np.testing.assert_array_equal(table[["b 1", "b 2", "b 3"]], concepts[:, 1])
    assert table["label"].tolist() == ["ab"[label] for label in labels]
