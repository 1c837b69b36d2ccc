"""Metrics of classification in percent, and what a constant answer would score.

Shapes: N examples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ffn_variants.files import write_atomically

BASELINES = "baselines.json"


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the share of right predictions, in percent."""
    from sklearn.metrics import accuracy_score

    return 100 * float(accuracy_score(labels.tolist(), predictions.tolist()))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the F1 of label 1, in percent; 0 where neither labels nor predictions have it."""
    from sklearn.metrics import f1_score

    return 100 * float(f1_score(labels.tolist(), predictions.tolist(), pos_label=1, zero_division=0))


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
    "matthews_correlation": matthews_correlation,
    "mean_accuracy_f1": mean_accuracy_f1,
    "mean_f1_matthews": mean_f1_matthews,
}
BINARY_METRICS = ("f1", "mean_accuracy_f1", "mean_f1_matthews")


def majority_scores(metrics: Sequence[str], train_labels: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Score the constant answer that does best on the training set under each metric.

    For accuracy that is the majority class, as the BabyLM pipelines publish it; for F1 it is label 1, which
    their published baselines answer too. Matthews correlation of a constant is 0.

    Args:
        metrics: Names in ``METRICS``.
        train_labels: Choose the constant; among equals the lowest label.
        labels: (N,) of the validation file, scored.
    """
    scores = {}
    for name in metrics:
        on_train = {
            int(label): METRICS[name](train_labels, np.full_like(train_labels, label))
            for label in np.unique(train_labels)
        }
        constant = max(on_train, key=on_train.__getitem__)
        scores[name] = METRICS[name](labels, np.full_like(labels, constant))
    return scores


def write_baselines(folder: Path, baselines: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Path:
    """Write what constant answers score, beside ``rows.parquet``.

    Args:
        folder: ``<run>/eval``.
        baselines: Of each benchmark and task, the metrics in percent. What the file says of others stays.
    """
    known = read_baselines(folder)
    for benchmark, tasks in baselines.items():
        known[benchmark] = known.get(benchmark, {}) | {task: dict(scores) for task, scores in tasks.items()}
    text = json.dumps(known, indent=1, sort_keys=True) + "\n"
    path = folder / BASELINES
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def read_baselines(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Read ``baselines.json``: benchmark, task, metric, score in percent; empty where there is none."""
    path = folder / BASELINES
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
