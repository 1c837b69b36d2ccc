"""The metrics of lm-eval as rows have them, whether this project ran it or another did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scores.suites import HARNESS_METRICS, RAW_PREFIX

# Metrics of lm-eval that are a share from 0 to 1 or a correlation, and their names in rows, in percent.
PERCENT_METRICS = {
    "acc": "accuracy",
    "acc_norm": "accuracy_by_length",
    "acc_bytes": "accuracy_by_bytes",
    "acc_mutual_info": "accuracy_by_mutual_information",
    "exact_match": "exact_match",
    "f1": "f1",
    "mcc": "matthews_correlation",
}
# Metrics of rows that count how often the right one of several choices is preferred.
CHOICE_METRICS = tuple(name for metric, name in PERCENT_METRICS.items() if metric.startswith("acc"))
PERPLEXITIES = tuple(metric.name for metric in HARNESS_METRICS if metric.better == "lower")


def metrics_of(results: Mapping[str, Any], is_masked: bool = False) -> dict[str, float]:
    """Return lm-eval's metrics under the names that rows have for them, shares in percent.

    Args:
        results: One task's part of ``results``: ``{"acc,none": 0.58, "acc_stderr,none": 0.01, ..}``.
        is_masked: Whether scores are pseudo-log-likelihoods.
    """
    metrics = {}
    for key, value in results.items():
        name, _, pipeline = key.partition(",")
        if not pipeline or name.endswith("_stderr") or not is_number(value):
            continue
        factor = 100 if name in PERCENT_METRICS else 1
        metrics[row_metric(name, pipeline, is_masked)] = factor * float(value)
    return metrics


def directions_of(higher_is_better: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, bool]:
    """Return of each metric under its name in rows whether lower scores are better, where lm-eval says it.

    Args:
        higher_is_better: One task's part of ``higher_is_better``: ``{"perplexity": false}``.
        results: The same task's part of ``results``.
    """
    keys = (key.partition(",") for key in results)
    return {
        row_metric(name, pipeline): not higher_is_better[name]
        for name, _, pipeline in keys
        if isinstance(higher_is_better.get(name), bool)
    }


def row_metric(metric: str, pipeline: str = "none", is_masked: bool = False) -> str:
    """Name a metric of lm-eval as rows do; one without a known unit is raw."""
    suffix = "" if pipeline == "none" else f"_{pipeline}"
    if metric in PERCENT_METRICS:
        return PERCENT_METRICS[metric] + suffix
    if metric in PERPLEXITIES:
        return ("pseudo_" if is_masked else "") + metric + suffix
    return f"{RAW_PREFIX}{metric}{suffix}"


def is_number(value: object) -> bool:
    """Whether a value is a number that a mean can hold."""
    return isinstance(value, (int, float)) and math.isfinite(value)
