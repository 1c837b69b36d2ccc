"""Labels of turns: how they are read, given to turns, and judged, against scikit-learn and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.metrics import f1_score

from base.errors import UsageError
from eval.classification.tasks.schema import TaskFile, shipped_task
from eval.classification.tasks.task import ClassificationTask
from eval.interpretation.segments import (
    NUM_BOOTSTRAPS,
    attended,
    by_turn,
    judge,
    most_keywords,
    turn_labels,
    turns_of_segments,
)


def make_pairs(size: int, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    generator = np.random.default_rng(seed)
    shapes = [(int(generator.integers(1, 6)), 3) for _ in range(size)]
    gold = [(generator.random(shape) < 0.3).astype(int) for shape in shapes]
    return gold, [np.where(generator.random(own.shape) < 0.2, 1 - own, own) for own in gold]


@pytest.mark.slow
def test_f1_is_scikit_learn_s_and_its_interval_a_bootstrap_over_documents() -> None:
    gold, found = make_pairs(40, seed=0)
    result = judge("swipe", gold, found, 50.0, seed=7)
    labels, said = np.concatenate(gold), np.concatenate(found)
    assert result.micro_f1 == pytest.approx(100 * f1_score(labels, said, average="micro"))
    assert result.macro_f1 == pytest.approx(100 * f1_score(labels, said, average="macro"))
    generator, scores = np.random.default_rng(1), []
    for _ in range(NUM_BOOTSTRAPS):
        drawn = generator.integers(0, 40, 40)
        resampled = [np.concatenate([part[number] for number in drawn]) for part in (gold, found)]
        scores.append([100 * f1_score(*resampled, average=kind) for kind in ("micro", "macro")])
    low, high = np.percentile(scores, [2.5, 97.5], axis=0)
    np.testing.assert_allclose(result.micro_interval, (low[0], high[0]), atol=1.0)
    np.testing.assert_allclose(result.macro_interval, (low[1], high[1]), atol=1.0)


def test_a_label_that_is_nowhere_counts_as_0() -> None:
    gold = [np.array([[1, 0], [0, 0]])]
    result = judge("x", gold, gold, 0.0, seed=0)
    assert (result.micro_f1, result.macro_f1) == (100, 50)


def test_segments_lie_in_turns() -> None:
    turns = ["Hello.", "", "A room, please. For two.", "Yes"]  # "Hello.  A room, please. For two. Yes"
    spans = np.array([[0, 6], [8, 23], [24, 32], [33, 36]])
    assert turns_of_segments(turns, spans).tolist() == [0, 2, 2, 3]
    labels = np.array([[1, 0], [0, 0], [0, 1], [0, 0]])
    expected = [[1, 0], [0, 0], [0, 1], [0, 0]]
    assert by_turn(np.array([0, 2, 2, 3]), labels, 4).tolist() == expected


def test_attention_gives_a_document_s_labels_to_segments_of_more_than_average_weight() -> None:
    logits = np.array([[2.0, -1.0, 0.5]])
    weights = np.repeat([[0.5], [0.26], [0.04], [0.2]], 3, axis=1)
    (found,) = attended(logits, [weights])
    assert found.tolist() == [[True, False, True]] * 2 + [[False] * 3] * 2


def test_most_keywords_are_in_one_segment_if_any() -> None:
    scores = np.array([[1, 0, 2], [3, 0, 5], [3, 0, 1]])
    found = most_keywords(scores, np.array([1, 1, 0]))
    assert found.tolist() == [[False] * 3, [True, False, False], [False] * 3]


def make_task(**changes: object) -> ClassificationTask:
    values = {
        "name": "mine",
        "text": "turns",
        "labels": ("a", "b"),
        "multi_label": True,
        "metrics": "micro_f1",
    }
    definition = TaskFile.model_validate(values | {"segment_labels": "own"} | changes)
    return ClassificationTask(definition, ("a", "b"))


def test_labels_of_turns_are_read() -> None:
    rows = [{"turns": ["x", "y", "z"], "own": [["b"], [], ["a", "b"]]}]
    assert turn_labels(make_task(), rows)[0].tolist() == [[0, 1], [0, 0], [1, 1]]


def test_multiwoz_has_the_domains_of_each_turn() -> None:
    definition = shipped_task("multiwoz")
    task = ClassificationTask(definition, definition.labels or ())
    # As the Parquet files have it: a struct of lists, in which frames are such structs again.
    frames = [{"service": ["hotel"]}, {"service": []}, {"service": ["hotel", "taxi"]}]
    row = {"services": ["hotel", "taxi"], "turns": {"utterance": ["a", "b", "c"], "frames": frames}}
    named = [[task.labels[i] for i in np.flatnonzero(own)] for own in turn_labels(task, [row])[0]]
    assert named == [["hotel"], [], ["hotel", "taxi"]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"turns": ["x"]}, "mine, row 1: own has no list for each turn of turns"),
        ({"turns": ["x"], "own": [["a"], ["b"]]}, "own has no list for each turn"),
        ({"turns": "x", "own": [["a"]]}, "own has no list for each turn"),
        ({"turns": ["x"], "own": ["a"]}, "own has 'a', no list of labels of the task"),
        ({"turns": ["x"], "own": [["c"]]}, "own has 'c', no list of labels of the task"),
    ],
)
def test_what_does_not_fit_is_told(row: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        turn_labels(make_task(), [row])


def test_a_task_must_name_them() -> None:
    with pytest.raises(UsageError, match="task mine does not say what labels its turns have"):
        turn_labels(make_task(segment_labels=None), [])
    with pytest.raises(ValidationError, match="segment_labels needs multi_label: true"):
        make_task(multi_label=False, metrics="accuracy")
