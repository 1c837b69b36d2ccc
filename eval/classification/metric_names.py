"""The names of the metrics of classification, and which of them fit a task."""

from __future__ import annotations

from typing import Literal

from scores.suites.registry import CLASSIFICATION_METRICS

METRIC_NAMES: tuple[str, ...] = tuple(metric.name for metric in CLASSIFICATION_METRICS)
Metric = Literal[METRIC_NAMES]  # type: ignore[invalid-literal]
BINARY_METRICS = ("f1", "mean_accuracy_f1", "mean_f1_matthews")
MULTI_LABEL_METRICS = ("accuracy", "macro_f1", "micro_f1")


def unfit_metric(name: str, num_labels: int | None, multi_label: bool) -> str | None:
    """Say why a metric does not fit a task, and which ones do; None where it fits.

    Args:
        name: In ``METRIC_NAMES``.
        num_labels: Labels of the task; None where they are not known yet.
        multi_label: Whether any number of them may be right.
    """
    if multi_label and name not in MULTI_LABEL_METRICS:
        return f"{name} is for one label an example; with several choose {', '.join(MULTI_LABEL_METRICS)}"
    if name in BINARY_METRICS and num_labels is not None and num_labels > 2:
        fit = [metric for metric in METRIC_NAMES if metric not in BINARY_METRICS]
        return f"{name} is for two labels and there are {num_labels}; choose {', '.join(fit)}"
    return None
