"""Logs of Inspect: ``<date>_<task>_<id>.json``, and ``.eval`` where Python can unpack it."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from base.errors import UsageError
from base.json_text import parse_json, read_json
from eval.report.readers.json_files import damaged
from eval.report.readers.results import Result
from eval.report.readers.spec import ReaderSpec
from eval.suites.lm_eval_metrics import is_number
from eval.suites.registry import RAW_PREFIX

LABEL = "Inspect's logs"
PREFIX = "inspect-"
_DONE = "success"
_SHARES = {"accuracy": "accuracy"}
_SPREADS = ("stderr", "bootstrap_stderr", "std", "var")


def read_results(path: Path) -> Iterable[Result] | None:
    """Read one log.

    Returns:
        A benchmark is Inspect's task, its tasks are its scorers. None if the file is not Inspect's.

    Raises:
        UsageError: For an evaluation that did not end, or a log that has to be converted first.
    """
    content = _header(path) if path.suffix == ".eval" else read_json(path)
    if not isinstance(content, dict) or not {"eval", "status", "version"} <= content.keys():
        return None
    if content["status"] != _DONE:
        raise UsageError(
            f"{path} is of an evaluation that ended with {content['status']!r}; run it again, or move the "
            "log away"
        )
    try:
        return list(_results(content, path))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise damaged(path, LABEL, error) from None


def _header(path: Path) -> Any:
    try:
        with zipfile.ZipFile(path) as log:
            return parse_json(log.read("header.json"))
    except NotImplementedError:  # newer ones are packed with zstd, which Python 3.11 has not
        raise UsageError(
            f"{path} is packed as this Python cannot read; write it as JSON: inspect log convert --to json "
            f"--output-dir logs-json {path}"
        ) from None
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} is not a whole log of Inspect ({error}); was it cut off?") from None


def _results(content: Mapping[str, Any], path: Path) -> Iterator[Result]:
    about = content["eval"]
    task = str(about["task"]).rpartition("/")[2]
    limit = about.get("config", {}).get("limit")
    for score in content["results"]["scores"]:
        metrics = {
            _SHARES.get(name, f"{RAW_PREFIX}{name}"): (name, metric["value"])
            for name, metric in score["metrics"].items()
            if name not in _SPREADS and is_number(metric["value"])
        }
        chosen = "accuracy" if "accuracy" in metrics else next(iter(metrics), "")
        for metric, (name, value) in metrics.items():
            yield Result(
                name=str((about.get("model_args") or {}).get("model_path") or about["model"]),
                benchmark=PREFIX + task,
                task=str(score["name"]),
                metric=metric,
                score=100 * value if name in _SHARES else value,
                primary=metric == chosen,
                n_items=int(content["results"].get("completed_samples") or 0),
                when=str(about.get("created", "")),
                setting=f"version {about.get('task_version', 0)}" + (f", limit {limit}" if limit else ""),
                path=path,
            )


RESULTS = ReaderSpec(
    name="Inspect",
    label=LABEL,
    patterns=("*.eval", "*.json"),
    read=read_results,
    docs="https://inspect.aisi.org.uk/eval-logs.html",
)
