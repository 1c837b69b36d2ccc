"""Metrics of classification in percent, and what a constant answer would score.

Shapes: N examples, C labels. Labels and predictions are (N,) integers, or (N, C) of 0 and 1 where any number
of labels may be right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from base.files import read_json, write_text
from pretrain.run.folders import RunFolder


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the share of right predictions, in percent; right is an example with all its labels right."""
    from sklearn.metrics import accuracy_score

    return 100 * float(accuracy_score(labels.tolist(), predictions.tolist()))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the F1 of label 1, in percent; 0 where neither labels nor predictions have it."""
    from sklearn.metrics import f1_score

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
    from sklearn.metrics import f1_score

    return 100 * float(f1_score(labels.tolist(), predictions.tolist(), average=average, zero_division=0))


def cohen_kappa(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return Cohen's kappa times 100; 0 where all labels and predictions are the same one."""
    from sklearn.metrics import cohen_kappa_score

    if len(np.union1d(labels, predictions)) == 1:
        return 0.0  # scikit-learn divides 0 by 0
    return 100 * float(cohen_kappa_score(labels.tolist(), predictions.tolist()))


def matthews_correlation(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return Matthews correlation times 100; 0 where all labels or all predictions are the same."""
    from sklearn.metrics import matthews_corrcoef

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
BINARY_METRICS = ("f1", "mean_accuracy_f1", "mean_f1_matthews")
MULTI_LABEL_METRICS = ("accuracy", "macro_f1", "micro_f1")


def unfit_metric(name: str, num_labels: int | None, multi_label: bool) -> str | None:
    """Say why a metric does not fit a task, and which ones do; None where it fits.

    Args:
        name: In ``METRICS``.
        num_labels: Labels of the task; None where they are not known yet.
        multi_label: Whether any number of them may be right.
    """
    if multi_label and name not in MULTI_LABEL_METRICS:
        return f"{name} is for one label an example; with several choose {', '.join(MULTI_LABEL_METRICS)}"
    if name in BINARY_METRICS and num_labels is not None and num_labels > 2:
        fit = [metric for metric in METRICS if metric not in BINARY_METRICS]
        return f"{name} is for two labels and there are {num_labels}; choose {', '.join(fit)}"
    return None


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


def write_baselines(run_dir: Path, baselines: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Write what constant answers score beside the scores of a run.

    Args:
        run_dir: The run's folder.
        baselines: Of each benchmark and task, the metrics in percent. What the file says of others stays.
    """
    known = read_baselines(run_dir)
    for benchmark, tasks in baselines.items():
        known[benchmark] = known.get(benchmark, {}) | {task: dict(scores) for task, scores in tasks.items()}
    write_text(RunFolder(run_dir).baselines_file, json.dumps(known, indent=1, sort_keys=True) + "\n")


def read_baselines(run_dir: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Read what constant answers score: benchmark, task, metric, score in percent; empty where unknown."""
    return read_json(RunFolder(run_dir).baselines_file)
