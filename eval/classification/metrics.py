"""Metrics of classification in percent, and what a constant answer would score.

Shapes: N examples, C labels. Labels and predictions are (N,) integers, or (N, C) of 0 and 1 where any number
of labels may be right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, matthews_corrcoef


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the share of right predictions, in percent; right is an example with all its labels right."""
    return 100 * float(accuracy_score(labels.tolist(), predictions.tolist()))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the F1 of label 1, in percent; 0 where neither labels nor predictions have it."""
    return 100 * float(f1_score(labels.tolist(), predictions.tolist(), pos_label=1, zero_division=0))


def macro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the unweighted mean of the labels' F1, in percent, over those among labels or predictions.

    With (N, C) it is over all C; a label without any true or predicted example has an F1 of 0.
    """
    return _mean_f1(labels, predictions, "macro")


def micro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the F1 of all decisions pooled, in percent; with (N,) that is the accuracy."""
    return _mean_f1(labels, predictions, "micro")


def _mean_f1(labels: np.ndarray, predictions: np.ndarray, average: Literal["macro", "micro"]) -> float:
    return 100 * float(f1_score(labels.tolist(), predictions.tolist(), average=average, zero_division=0))


def cohen_kappa(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return Cohen's kappa times 100; 0 where all labels and predictions are the same one."""
    if len(np.union1d(labels, predictions)) == 1:
        return 0.0  # scikit-learn divides 0 by 0
    return 100 * float(cohen_kappa_score(labels.tolist(), predictions.tolist()))


def matthews_correlation(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return Matthews correlation times 100; 0 where all labels or all predictions are the same."""
    if len(np.union1d(labels, predictions)) == 1:
        return 0.0  # scikit-learn's answer too, but with a warning
    return 100 * float(matthews_corrcoef(labels.tolist(), predictions.tolist()))


def mean_accuracy_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return (accuracy + F1) / 2, as the source study averages MRPC and QQP."""
    return (accuracy(labels, predictions) + f1(labels, predictions)) / 2


def mean_f1_matthews(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return (F1 + Matthews correlation) / 2, as the source study averages MultiRC."""
    return (f1(labels, predictions) + matthews_correlation(labels, predictions)) / 2


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "micro_f1": micro_f1,
    "cohen_kappa": cohen_kappa,
    "matthews_correlation": matthews_correlation,
    "mean_accuracy_f1": mean_accuracy_f1,
    "mean_f1_matthews": mean_f1_matthews,
}


def majority_scores(metrics: Sequence[str], train_labels: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Score the constant answer that does best on the training set under each metric.

    For accuracy that is the majority class, as the BabyLM pipelines publish it; for F1 it is label 1, which
    their published baselines answer too. Matthews correlation and kappa of a constant are 0.

    Args:
        metrics: Names in ``METRICS``.
        train_labels: (N,) or (N, C), choose the constant; among equals the lowest label.
        labels: Of the validation file, scored.
    """
    constants = _constant_answers(train_labels)
    scores = {}
    for name in metrics:
        on_train = [METRICS[name](train_labels, np.broadcast_to(c, train_labels.shape)) for c in constants]
        best = constants[int(np.argmax(on_train))]
        scores[name] = METRICS[name](labels, np.broadcast_to(best, labels.shape))
    return scores


def _constant_answers(labels: np.ndarray) -> list[np.ndarray]:
    """The answers among which the best constant one is under every metric.

    With (N, C) these are the most frequent set of labels, which has the best accuracy, and the k most
    frequent labels for each k: one of them has the best micro F1, and all C the best macro F1.
    """
    if labels.ndim == 1:
        return list(np.unique(labels))
    sets, counts = np.unique(labels, axis=0, return_counts=True)
    ranks = np.argsort(np.argsort(-labels.sum(axis=0), kind="stable"))
    return [sets[counts.argmax()], *((ranks < k).astype(labels.dtype) for k in range(labels.shape[1] + 1))]
