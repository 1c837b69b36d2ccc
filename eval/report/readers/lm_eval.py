"""Result files of lm-eval: ``results_<date>.json``, and items of ``--log_samples`` where these are alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from base.errors import UsageError, first_line
from base.json_text import parse_json, read_json
from eval.report.readers.results import Result
from eval.report.readers.spec import ReaderSpec
from eval.suites.lm_eval_metrics import (
    directions_of,
    is_number,
    metrics_of,
    primary_metric,
    row_metric,
    row_score,
)
from eval.suites.registry import HARNESS_PREFIX

LABEL = "lm-eval's results"
_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)")
_MASKED = "ffn-mlm"
"""The model of lm-eval's command line that scores by pseudo-log-likelihood."""


def read_results(path: Path) -> Iterable[Result] | None:
    """Read one ``results_<date>.json``: every task, without the means that lm-eval makes of groups.

    Args:
        path: The file.

    Returns:
        A benchmark is the outermost group of a task, or the task itself. None if the file is not lm-eval's.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not {"results", "configs", "versions"} <= content.keys():
        return None
    try:
        return list(_results(content, path))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _damaged(path, error) from None


def _results(content: Mapping[str, Any], path: Path) -> Iterator[Result]:
    config = content.get("config") or {}
    subtasks = {name: tasks for name, tasks in (content.get("group_subtasks") or {}).items() if tasks}
    sizes, shots = content.get("n-samples") or {}, content.get("n-shot") or {}
    name = content.get("model_name") or _model_name(config)
    if not name:
        raise KeyError("model_name")
    when, is_masked = str(content.get("date") or path.name), config.get("model") == _MASKED
    for task, values in content["results"].items():
        if task in subtasks:
            continue
        metrics = metrics_of(values, is_masked)
        if not metrics:
            continue
        benchmark, group = _place(task, subtasks)
        chosen = primary_metric(task, metrics)
        directions = directions_of((content.get("higher_is_better") or {}).get(task) or {}, values, is_masked)
        setting = f"{shots.get(task, 0)} shots, version {content['versions'].get(task, 'unknown')}"
        setting += f", limit {config['limit']}" if config.get("limit") else ""
        for metric, score in metrics.items():
            yield Result(
                name=str(name) + _revision(config),
                benchmark=HARNESS_PREFIX + benchmark,
                task=task,
                group=group,
                metric=metric,
                score=score,
                primary=metric == chosen,
                lower_is_better=directions.get(metric),
                n_items=int((sizes.get(task) or {}).get("effective", 0)),
                when=when,
                setting=setting,
                path=path,
            )


def _model_name(config: Mapping[str, Any]) -> str | None:
    found = re.search(r"(?:pretrained|path)=([^,]+)", str(config.get("model_args") or ""))
    return found[1] if found else None


def _revision(config: Mapping[str, Any]) -> str:
    """Return what tells checkpoints of one repository apart."""
    args = config.get("model_args")
    text = ",".join(f"{k}={v}" for k, v in args.items()) if isinstance(args, dict) else str(args or "")
    found = re.search(r"(?:^|,)revision=([^,]+)", text)
    return f"@{found[1]}" if found and found[1] != "main" else ""


def _place(task: str, subtasks: Mapping[str, list[str]]) -> tuple[str, str]:
    """Return the outermost group of a task, else the task, and the group next to it where groups nest."""
    inner = next((group for group, tasks in subtasks.items() if task in tasks), None)
    if inner is None:
        return task, ""
    outer, seen = inner, {inner}
    while parent := next((group for group, tasks in subtasks.items() if outer in tasks), None):
        if parent in seen:
            break
        outer = parent
        seen.add(parent)
    return outer, "" if inner == outer else inner


def read_samples(path: Path) -> Iterable[Result] | None:
    """Read one ``samples_<task>_<date>.jsonl``: the means of its items, where a metric is a mean.

    The model is named by the folder, as lm-eval names it.
    """
    if not (found := _SAMPLES.fullmatch(path.stem)):
        return None
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for item in read_items(path):
        for metric in item["metrics"]:
            if is_number(item[metric]):
                values[metric, item.get("filter", "none")].append(float(item[metric]))
    means = {
        row_metric(metric, pipeline): row_score(metric, sum(found) / len(found))
        for (metric, pipeline), found in values.items()
    }
    return [
        Result(
            name=path.parent.name,
            benchmark=HARNESS_PREFIX + found["task"],
            task=found["task"],
            metric=metric,
            score=score,
            primary=metric == primary_metric(found["task"], means),
            n_items=max(map(len, values.values())),
            when=found["date"],
            path=path,
        )
        for metric, score in means.items()
    ]


def read_items(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the items of a file of ``--log_samples``.

    Raises:
        UsageError: For a line that is none.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                item = parse_json(line)
                if not isinstance(item, dict) or not {"doc_id", "metrics"} <= item.keys():
                    raise UsageError(f"{path} line {number} is no item of lm-eval; was it edited?")
                if missing := [metric for metric in item["metrics"] if metric not in item]:
                    raise UsageError(f"{path} line {number} has no {missing[0]}; was it edited?")
                yield item
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(f"{path} is not JSON lines ({first_line(error)}); was it cut off?") from None


RESULTS = ReaderSpec(name="lm-eval", label=LABEL, patterns=("results_*.json", "*.json"), read=read_results)
SAMPLES = ReaderSpec(
    name="lm-eval samples",
    label="lm-eval's samples",
    patterns=("samples_*.jsonl",),
    read=read_samples,
)


def _damaged(path: Path, error: Exception) -> UsageError:
    what = f"no {error}" if isinstance(error, KeyError) else first_line(error)
    return UsageError(f"{path} is not as {LABEL} are ({what}); was it edited?")
