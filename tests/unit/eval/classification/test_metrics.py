"""Metrics of classification against their formulas in numpy, and what constant answers score."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from eval.classification.score_task import METRICS, majority_scores
from eval.finetuning import (
    BINARY_METRICS,
    METRIC_NAMES,
    MULTI_LABEL_METRICS,
    unfit_metric,
)


def f1_of(true: np.ndarray, predicted: np.ndarray) -> float:
    """2 TP / (2 TP + FP + FN) of decisions 0 and 1; 0 where there are none."""
    both, either = (true & predicted).sum(), true.sum() + predicted.sum()
    return float(2 * both / either) if either else 0.0


@pytest.fixture(params=[2, 5])
def answers(request) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions that agree more often than by chance."""
    rng = np.random.default_rng(request.param)
    labels = rng.integers(0, request.param, 200)
    return labels, np.where(rng.random(200) < 0.6, labels, rng.integers(0, request.param, 200))


def test_shares_and_means_of_f1_are_their_formulas(answers):
    labels, predictions = answers
    each = [f1_of(labels == c, predictions == c) for c in np.unique(labels)]
    right = pytest.approx(100 * (labels == predictions).mean())
    assert set(METRICS) == set(METRIC_NAMES)
    assert METRICS["macro_f1"](labels, predictions) == pytest.approx(100 * np.mean(each))
    assert METRICS["micro_f1"](labels, predictions) == right
    assert METRICS["accuracy"](labels, predictions) == right
    if len(each) == 2:
        assert METRICS["f1"](labels, predictions) == pytest.approx(100 * each[1])


def test_agreement_beyond_chance_is_its_formula(answers):
    labels, predictions = answers
    num = labels.max() + 1
    table = np.zeros((num, num))
    np.add.at(table, (labels, predictions), 1)
    share = table / table.sum()
    chance = (share.sum(0) * share.sum(1)).sum()
    kappa = (np.trace(share) - chance) / (1 - chance)
    assert METRICS["cohen_kappa"](labels, predictions) == pytest.approx(100 * kappa)
    one_hot = [np.eye(num)[x] for x in (labels, predictions)]
    first, second = (x - x.mean(0) for x in one_hot)
    root = np.sqrt((first * first).sum() * (second * second).sum())
    correlation = (first * second).sum() / root  # R_K of Gorodkin (2004)
    assert METRICS["matthews_correlation"](labels, predictions) == pytest.approx(100 * correlation)


def test_agreement_of_one_answer_is_zero():
    ones = np.ones(4, dtype=int)
    assert METRICS["cohen_kappa"](ones, ones) == METRICS["matthews_correlation"](ones, ones) == 0
    assert METRICS["cohen_kappa"](np.array([0, 1, 0, 1]), ones) == 0


def test_with_several_labels_an_example_is_right_as_a_whole_and_f1_counts_decisions():
    rng = np.random.default_rng(0)
    labels = (rng.random((50, 4)) < (0.5, 0.3, 0.6, 0.0)).astype(np.int64)
    predictions = np.where(rng.random((50, 4)) < 0.8, labels, 1 - labels)
    predictions[:, 3] = 0
    right = (labels == predictions).all(1)
    each = [f1_of(labels[:, c] == 1, predictions[:, c] == 1) for c in range(4)]
    assert each[3] == 0
    assert METRICS["accuracy"](labels, predictions) == pytest.approx(100 * right.mean())
    assert METRICS["macro_f1"](labels, predictions) == pytest.approx(100 * np.mean(each))
    assert METRICS["micro_f1"](labels, predictions) == pytest.approx(
        100 * f1_of(labels == 1, predictions == 1)
    )


@pytest.mark.parametrize("several", [False, True])
def test_no_constant_answer_does_better_on_the_training_set(several):
    rng = np.random.default_rng(1)
    if several:
        labels = (rng.random((60, 4)) < (0.7, 0.45, 0.2, 0.05)).astype(np.int64)
        constants = [np.array(answer) for answer in itertools.product([0, 1], repeat=4)]
        names = MULTI_LABEL_METRICS
    else:
        labels, constants = rng.choice(3, 60, p=[0.2, 0.5, 0.3]), [np.array(c) for c in range(3)]
        names = tuple(name for name in METRICS if name not in BINARY_METRICS)
    found = majority_scores(names, labels, labels)
    for name in names:
        best = max(METRICS[name](labels, np.broadcast_to(c, labels.shape)) for c in constants)
        assert found[name] == pytest.approx(best), name


@pytest.mark.parametrize(
    ("metric", "num_labels", "several", "message"),
    [
        ("f1", 3, False, "f1 is for two labels and there are 3; choose accuracy, macro_f1, micro_f1, cohen"),
        ("f1", 2, True, "f1 is for one label an example; with several choose accuracy, macro_f1, micro_f1"),
        ("matthews_correlation", 5, True, "matthews_correlation is for one label an example"),
        ("f1", 2, False, ""),
        ("f1", None, False, ""),
        ("cohen_kappa", 9, False, ""),
        ("micro_f1", 9, True, ""),
    ],
)
def test_a_metric_fits_a_task_or_says_which_do(metric, num_labels, several, message):
    reason = unfit_metric(metric, num_labels, several)
    assert reason.startswith(message) if message else reason is None


def test_constant_answers_by_hand():
    train, labels = np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1, 0])
    scores = majority_scores(("accuracy", "f1", "matthews_correlation", "mean_accuracy_f1"), train, labels)
    assert list(scores.values()) == pytest.approx([40, 100 * 2 * 3 / (2 * 3 + 2), 0, (0 + 40) / 2])
