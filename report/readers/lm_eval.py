"""Result files of lm-eval, ``results_<date>.json``, as rows: each model's last measurement of each task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from base.errors import UsageError, first_line
from base.printing import first_few
from base.records import read_json
from report.readers.reading import SHOWN, TableOfRows
from report.readers.tables import to_rows
from report.request import Request
from scores.lm_eval_metrics import directions_of, metrics_of
from scores.rows import primary_metric
from scores.suites import HARNESS_PREFIX

LABEL = "lm-eval's results"
SUFFIX = ".json"
_PARTS = ("config", "group_subtasks", "higher_is_better", "n-shot", "n-samples", "versions")
_KEY = ["run_id", "benchmark", "task", "metric"]


def read_results(path: Path, request: Request) -> TableOfRows | None:
    """Read lm-eval's result files.

    Args:
        path: One of them, or a folder with any number of them at any depth.
        request: What the user said of them; ``names`` is how a model's name is read.

    Returns:
        None for a folder that holds none.

    Raises:
        UsageError: For a damaged file, flags of tables, or names that do not fit.
    """
    measured, notes = _read_all(path)
    if not measured:
        if path.is_dir():
            return None
        raise UsageError(f"{path} is no result file that is known here; those of lm-eval are")
    if flags := [flag for flag in request.table_flags if flag in ("--columns", "--scores")]:
        raise UsageError(f"{flags[0]} is about a table, and {path} holds result files; leave it out")
    results = _last(pd.DataFrame(measured), notes).drop(columns=["date", "setting"])
    rows = to_rows(results.assign(name=results["run_id"]), request, str(path))
    return TableOfRows(table=rows.table, notes=(*notes, *rows.notes), kind=LABEL)


def _read_all(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Read a file, or those of a folder: one that only might be lm-eval's may be anything."""
    measured: list[dict[str, Any]] = []
    notes: list[str] = []
    for file in sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]:
        if not file.is_file() or file.name.startswith("._"):  # what macOS puts beside a file
            continue
        try:
            content = read_json(file)
            if isinstance(content, dict) and {"results", "versions"} <= content.keys():
                if "configs" not in content:
                    raise KeyError("configs")
                measured += _scores(content, file)
        except UsageError as error:
            if file == path or file.match("results_*.json"):
                raise
            notes.append(f"not read: {error}")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else first_line(error)
            raise UsageError(f"{file} is not as {LABEL} of 0.4 are ({what}); too old, or edited?") from None
    return measured, notes


def _scores(content: Mapping[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """Yield every score of a file, without the means that lm-eval makes of groups."""
    parts = {name: content.get(name) or {} for name in _PARTS}
    config, groups = parts["config"], parts["group_subtasks"]
    arguments = config.get("model_args") or ""
    if isinstance(arguments, dict):
        arguments = ",".join(f"{name}={value}" for name, value in arguments.items())
    options = dict(re.findall(r"(?:^|,)(pretrained|path|revision)=([^,]+)", arguments))
    name = str(content.get("model_name") or options.get("pretrained") or options["path"])
    if name.startswith("."):  # a folder on a disk; lm-eval makes one more of its name, `.__model`
        *_, above, folder, _ = path.resolve().parts
        name = above if "__" in folder else folder
    name += f"@{options['revision']}" if options.get("revision", "main") != "main" else ""
    for task, values in content["results"].items():
        metrics = {} if groups.get(task) else metrics_of(values)
        directions = directions_of(parts["higher_is_better"].get(task) or {}, values)
        group, inner = _groups_of(task, groups)
        setting = f"{parts['n-shot'].get(task, 0)} shots, version {parts['versions'].get(task, 'unknown')}"
        setting += f", limit {config['limit']}" if config.get("limit") else ""
        for metric, score in metrics.items():
            yield {
                "run_id": name,
                "benchmark": HARNESS_PREFIX + group,
                "task": task,
                "group": inner,
                "metric": metric,
                "score": score,
                "primary": metric == primary_metric(task, metrics),
                "lower_is_better": directions.get(metric),
                "n_items": int((parts["n-samples"].get(task) or {}).get("effective", 0)),
                "date": str(content.get("date") or path.name),
                "setting": setting,
            }


def _groups_of(task: str, groups: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return the outermost group of a task, else the task, and the group next to it where groups nest."""
    chain = [task]
    while parent := next((x for x, tasks in groups.items() if chain[-1] in tasks and x not in chain), None):
        chain.append(parent)
    return chain[-1], chain[1] if len(chain) > 2 else ""


def _last(results: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Keep what was measured last, and name tasks that were measured again, or not alike for all models."""
    results = results.sort_values("date", kind="stable")
    again = results[results.duplicated(_KEY)]
    if models := sorted({*(again["task"] + " of " + again["run_id"])}):
        notes.append(f"measured more than once, the last one counts: {first_few(models, SHOWN)}")
    results = results.drop_duplicates(_KEY, keep="last").reset_index(drop=True)
    for task, ways in results.drop_duplicates(["task", "setting"]).groupby("task"):
        if len(ways) > 1:
            listed = " and ".join(ways["run_id"] + " " + ways["setting"])
            notes.append(f"{task}: models were measured in different ways, {listed}; measure all alike")
    return results
