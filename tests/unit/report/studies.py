"""Tables, run folders and studies without a training, what a report says of them, and one comparison."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from base.run.folder_names import RunFolder, StudyFolder
from report.analysis import Analysis
from report.compute import analyse
from report.document.document import Document
from report.inputs.sources import Source, read_source, source_of_frame
from report.page import blocks
from report.part import Page
from report.request import Request
from report.significance.arms import ArmTable
from report.significance.axes import with_settings
from report.significance.comparison import Comparison, Inference, compare_arms, metrics
from report.significance.data_checks import clean_rows
from report.significance.factor import Factor, Relabelling, is_paired, parse_contrast
from report.write import number_tables, record_of
from scores.metrics import Declared
from scores.rows import ROW_COLUMNS, write_rows
from scores.run_scores import comparable_scores, mean_scores, normalise_rows


def analysed(source: Path | pd.DataFrame | Source, **request: Any) -> Analysis:
    """What a report says of a file, a study's folder, a frame, or what was read of one."""
    asked = Request(**request)
    if isinstance(source, Path):
        source = read_source(source, asked)
    elif isinstance(source, pd.DataFrame):
        source = source_of_frame(source, asked)
    return analyse(source, asked)


def render(analysis: Analysis, alternative_texts: Mapping[str, str] | None = None) -> str:
    """Return the page's Markdown."""
    return "\n\n".join(blocks(analysis, Page(alternative_texts=alternative_texts or {})))


def numbers(analysis: Analysis) -> dict[str, Any]:
    """Return what report.json holds."""
    empty = {"title": "", "blocks": (), "figures": {}, "command": ""}
    record = record_of(analysis, {}, "source")
    document = Document(**empty, tables=number_tables(analysis), record=record)
    return json.loads(document.json)


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
    lines = list(log)
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run.provenance_file.write_text(json.dumps(record or {}))
    results = {name: x for line in lines for name, x in line.items() if name == "eval_loss"}
    run.completion_marker.write_text(json.dumps({"results": results}))
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


def table(cells: Mapping[tuple[str, str], Sequence[float]], benchmark: str = "blimp") -> pd.DataFrame:
    """One row per run: {(family, variant): scores}, seeds counted from 1."""
    rows = [
        (family, variant, seed, benchmark, score)
        for (family, variant), scores in cells.items()
        for seed, score in enumerate(scores, start=1)
    ]
    return pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])


def compare(
    rows: pd.DataFrame,
    contrast: str,
    *,
    benchmark: str | None = None,
    family: str | None = None,
    inference: Inference | None = None,
    factor: Factor = "ffn",
    declared: Declared | None = None,
    axes: Sequence[str] = (),
) -> Comparison:
    """Compare on the benchmark, or the only one there is; ``family`` None averages over families."""
    rows, levels = with_settings(normalise_rows(rows, axes=axes), axes)
    tasks = comparable_scores(Relabelling.of_rows(rows, factor, axes=levels).rows(clean_rows(rows)[0]))
    scores, _ = mean_scores(tasks)
    (name,) = (x for x in scores.benchmark.unique() if benchmark is None or str(x) == benchmark)
    metric = metrics(tasks, declared or Declared(), [name])[name]
    arms = ArmTable.of_scores(scores[scores.benchmark == name], name, metric=metric)
    scope = next((x for x in arms.families if str(x) == family), None)
    how = inference or Inference()
    how = replace(how, paired=how.paired or is_paired(factor))
    return compare_arms(arms, parse_contrast(contrast, arms.variants(), None, factor), scope, how)
