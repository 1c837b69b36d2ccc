"""Result files of HELM: ``runs/<suite>/<run>/stats.json`` with ``run_spec.json`` beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from base.errors import UsageError
from base.json_text import read_json
from eval.report.readers.json_files import damaged
from eval.report.readers.results import Result
from eval.report.readers.spec import ReaderSpec

LABEL = "HELM's stats.json"
PREFIX = "helm-"
# Metrics that measure what a model answers, and their names in rows; shares are times 100.
_SHARES = {
    "exact_match": "exact_match",
    "quasi_exact_match": "quasi_exact_match",
    "prefix_exact_match": "prefix_exact_match",
    "quasi_prefix_exact_match": "quasi_prefix_exact_match",
    "f1_score": "f1",
    "classification_macro_f1": "macro_f1",
    "classification_micro_f1": "micro_f1",
}
_BITS = {"bits_per_byte": "bits_per_byte"}
_SPLITS = ("test", "valid")
"""Of a run's splits the first that it has."""


def read_results(path: Path) -> Iterable[Result] | None:
    """Read one run: what it scored on its test split, without perturbations.

    Returns:
        A benchmark is the scenario of the run, its other arguments are the task. None if it is not HELM's.

    Raises:
        UsageError: If ``run_spec.json`` is not beside it.
    """
    content = read_json(path)
    if not isinstance(content, list) or not all(isinstance(x, dict) and "name" in x for x in content):
        return None
    spec_file = path.with_name("run_spec.json")
    if not spec_file.is_file():
        raise UsageError(f"{path} has no run_spec.json beside it, which names the model; copy the whole run")
    try:
        return list(_results(content, read_json(spec_file), path))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise damaged(path, LABEL, error) from None


def _results(stats: list[Any], spec: Mapping[str, Any], path: Path) -> Iterator[Result]:
    adapter = spec["adapter_spec"]
    scenario, _, arguments = str(spec["name"]).partition(":")
    arguments = ",".join(x for x in arguments.split(",") if x and not re.match(r"model(_deployment)?=", x))
    found: dict[tuple[str, str], tuple[float, int]] = {}
    for stat in stats:
        name = stat["name"]
        if name.get("perturbation") or not stat.get("count") or "mean" not in stat:
            continue
        found[name["name"], name.get("split", "")] = float(stat["mean"]), int(stat["count"])
    split = next((x for x in _SPLITS if any(kind == x for _, kind in found)), "")
    chosen = next((x for x in (*_SHARES, *_BITS) if (x, split) in found), "")
    for metric, row_name in (*_SHARES.items(), *_BITS.items()):
        if (metric, split) not in found:
            continue
        mean, count = found[metric, split]
        yield Result(
            name=str(adapter["model"]),
            benchmark=PREFIX + scenario,
            task=arguments or scenario,
            metric=row_name,
            score=100 * mean if metric in _SHARES else mean,
            primary=metric == chosen,
            n_items=int(adapter.get("max_eval_instances") or 0) if count == 1 else count,
            setting=f"{adapter.get('max_train_instances', 0)} shots, {split} split",
            path=path,
        )


RESULTS = ReaderSpec(
    name="HELM",
    label=LABEL,
    patterns=("stats.json",),
    read=read_results,
    docs="https://crfm-helm.readthedocs.io/en/latest/get_helm_rank/",
)
