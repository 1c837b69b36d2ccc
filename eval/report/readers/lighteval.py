"""Result files of lighteval: ``results/<model>/results_<timestamp>.json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from eval.report.readers.json_files import damaged, read_json
from eval.report.readers.results import Result
from eval.report.readers.spec import ReaderSpec
from eval.suites.lm_eval_metrics import is_number, primary_metric, row_metric, row_score

LABEL = "lighteval's results"
PREFIX = "lighteval-"
_NAMES = {"em": "exact_match", "extractive_match": "exact_match"}
"""Metrics of lighteval that lm-eval has under another name."""


def read_results(path: Path) -> Iterable[Result] | None:
    """Read one file: every task, without lighteval's own means (``all`` and ``_average``).

    Returns:
        A benchmark is a task's name before its colon. None if the file is not lighteval's.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not {"results", "config_general"} <= content.keys():
        return None
    try:
        return list(_results(content, path))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise damaged(path, LABEL, error) from None


def _results(content: Mapping[str, Any], path: Path) -> Iterator[Result]:
    general = content["config_general"]
    name = general.get("model_name") or (general.get("model_config") or {}).get("model_name")
    if not name:
        raise KeyError("model_name")
    setting = f"limit {general['max_samples']}" if general.get("max_samples") else ""
    for key, values in content["results"].items():
        task, shots = _task(key)
        if key == "all" or ":_average" in key:
            continue
        metrics = {
            row_metric(_NAMES.get(metric, metric)): row_score(_NAMES.get(metric, metric), float(value))
            for metric, value in values.items()
            if not metric.endswith("_stderr") and is_number(value)
        }
        chosen = primary_metric(task, metrics) if metrics else ""
        for metric, score in metrics.items():
            yield Result(
                name=str(name),
                benchmark=PREFIX + task.partition(":")[0],
                task=task,
                metric=metric,
                score=score,
                primary=metric == chosen,
                when=path.stem,
                setting=", ".join(filter(None, (shots, setting))),
                path=path,
            )


def _task(key: str) -> tuple[str, str]:
    """Read ``leaderboard|arc:challenge|25|0``, ``lighteval|arc:challenge|25`` or ``arc:challenge|25``."""
    parts = key.split("|")
    if len(parts) == 1:
        return key, ""
    place = next((place for place, part in enumerate(parts) if part.isdecimal()), len(parts))
    return parts[max(0, place - 1)], f"{parts[place]} shots" if place < len(parts) else ""


RESULTS = ReaderSpec(
    name="lighteval",
    label=LABEL,
    patterns=("results_*.json",),
    read=read_results,
    docs="https://huggingface.co/docs/lighteval/saving-and-reading-results",
)
