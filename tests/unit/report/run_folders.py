"""Run folders and studies as the training and the evaluation leave them, without either."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from base.run.folder_names import RunFolder, StudyFolder
from scores.rows import ROW_COLUMNS, write_rows


def write_run(
    study: Path,
    run_id: str,
    log: Iterable[Mapping[str, Any]] = (),
    record: Mapping[str, Any] | None = None,
    scores: Iterable[tuple[str, str, str, str, float]] = (),
) -> RunFolder:
    """Write a finished run: its log, its record, and its scores by benchmark, task, group and metric."""
    run = RunFolder(study / run_id)
    run.path.mkdir(parents=True)
    family, variant, name = run_id.split("/")
    seed = int(name[4:].split("-")[0])
    run.config_file.write_text(yaml.safe_dump({"family": family, "model": {"ffn": variant}, "seed": seed}))
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in log))
    run.provenance_file.write_text(json.dumps(record or {}))
    run.completion_marker.write_text('{"results": {}}')
    if rows := [(run_id, family, variant, seed, *score, 200, "") for score in scores]:
        write_rows(pd.DataFrame(rows, columns=list(ROW_COLUMNS[:-1])), run.rows_file)
    return run


def write_plan(study: Path, run_ids: Iterable[str], **content: Any) -> Path:
    """Write a study's file: the families, variants and seeds of its runs, and what else it says."""
    families, variants, names = zip(*(run_id.split("/") for run_id in run_ids), strict=True)
    plan = {
        "families": list(dict.fromkeys(families)),
        "variants": list(dict.fromkeys(variants)),
        "seeds": sorted({int(name[4:].split("-")[0]) for name in names}),
        **content,
        "cells": list(run_ids),
    }
    study.mkdir(parents=True, exist_ok=True)
    StudyFolder(study).study_file.write_text(yaml.safe_dump(plan, sort_keys=False))
    return study


def change_plan(study: Path, **content: Any) -> None:
    """Write other content into a study's file; what it says of the report is added to that of before."""
    file = StudyFolder(study).study_file
    plan = yaml.safe_load(file.read_text())
    report = plan.get("report", {}) | content.pop("report", {})
    file.write_text(yaml.safe_dump(plan | content | {"report": report}, sort_keys=False))
