"""What a report is made from: a study's folder, a rows file, a table, or other tools' result files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from pathlib import Path

import pandas as pd

from base.config_input import near_study, studies_in
from base.errors import UsageError, near_file, unexpanded
from base.printing import first_few
from base.run.folder_names import RunFolder, StudyFolder
from base.run.manifest import mixed_up
from report.inputs.logged_runs import SUMMARY, read_logged_runs
from report.inputs.run_facts import RunFacts, held_out_rows, read_all_facts, read_tables
from report.inputs.study_checks import (
    FailedRun,
    failed_notes,
    failed_runs,
    of_newest_sources,
    overlap_notes,
    precision_notes,
    protocol_notes,
)
from report.inputs.study_design import Design, StudyAxes, design_from, read_design
from report.readers.lm_eval import SUFFIX, read_results
from report.readers.reading import TABLE, TableOfRows
from report.readers.tables import EXCEL, SUFFIXES, read_table, to_rows
from report.request import Request
from report.significance.axes import Axes, Benchmark, Settings, plain, with_settings
from report.significance.factor import FACTORS, Factor
from scores.declarations import declared_by_columns
from scores.items import graded_rows
from scores.metrics import Declared
from scores.published import shipped_table
from scores.run_scores import normalise_rows
from scores.stages import MAIN
from scores.store import read_baselines
from scores.suites import HELD_OUT

FRAME = "data frame"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Scores with their origin."""

    path: Path
    kind: str
    title: str
    rows: pd.DataFrame
    design: Design
    facts: tuple[RunFacts, ...] = ()
    stages: Mapping[str, tuple[RunFacts, ...]] = field(default_factory=dict)
    """What else runs of a study are for, ``tune`` or ``shared``, to those runs: their families by name, and
    all of their places. A run that is compared, too, is among ``facts`` as well."""
    axes: Axes = field(default_factory=dict)
    """Axes beside the variant to their levels, in order; the families of rows and facts are then settings."""
    failed: tuple[FailedRun, ...] = ()
    """The runs of a study that ended without a result."""
    notes: tuple[str, ...] = field(default=())
    baselines: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """Benchmark, task and metric to what the best constant answer scores, in percent."""
    declared: Declared = field(default_factory=Declared)
    """What the table or the study says of its outcomes."""
    factor: Factor = "ffn"
    """Whose levels the variants are."""
    remarks: tuple[str, ...] = ()
    """What stands behind the names of variants, families and benchmarks."""

    @property
    def is_table(self) -> bool:
        """Whether somebody wrote the scores down, who may have meant fractions."""
        return self.kind in (TABLE, FRAME)


def read_source(path: Path, request: Request | None = None) -> Source:
    """Read scores from a study's folder, a table, other tools' result files, or a published table.

    Args:
        path: Which one; a folder with result files may hold those of many models.
        request: What the user said of a table or of result files; a study's file names its own axes.

    Raises:
        UsageError: If there is nothing at ``path``, it holds no scores, or the table is unusable.
    """
    path, request = Path(path), request or Request()
    if path.is_dir():
        if not _is_study(path) and (
            results := read_results(path, request) or read_logged_runs(path, request)
        ):
            return _of_table(results, path, request.axis)
        if flags := request.table_flags:
            raise UsageError(f"{flags[0]} is about a table, and {path} is a folder of runs; leave it out")
        return _read_study(path)
    file = shipped_table(path)
    if not file.exists():
        wanted = f"give a study's folder, a rows.parquet or a CSV of scores{unexpanded(path)}"
        raise UsageError(f"{path} does not exist; {near_file(path) or f'{wanted}; '}{near_study(path)}")
    if file.suffix == SUFFIX and (results := read_results(file, request)):
        return _of_table(results, path, request.axis)
    if request.sheet is not None and file.suffix != EXCEL:
        raise UsageError(f"--sheet is about an Excel file ({EXCEL}), and {path} is none; leave it out")
    if file.suffix not in SUFFIXES:
        kinds = ", ".join((*SUFFIXES, SUFFIX))
        raise UsageError(
            f"{path} is neither a folder nor a file of a known kind ({kinds}): save a sheet as {EXCEL}, "
            "call a table of text .csv, and of lm-eval give results_*.json, not samples_*.jsonl"
        )
    return _of_table(read_table(file, request), path, request.axis)


def _is_study(path: Path) -> bool:
    study = StudyFolder(path)
    return study.study_file.is_file() or any(
        (x.is_run or x.is_scored) and not (x.path / SUMMARY).exists()
        for x in (RunFolder(path), *study.run_folders())
    )


def source_of_frame(table: pd.DataFrame, request: Request | None = None) -> Source:
    """Take scores from a data frame, as from a CSV with its columns.

    Args:
        table: At least variant, seed, benchmark and score; its index says nothing.
        request: What the user said of it.

    Raises:
        UsageError: If it is unusable.
    """
    path, request = Path("the data frame"), request or Request()
    rows = to_rows(table.reset_index(drop=True), request, str(path), delimiter=";")
    return replace(_of_table(replace(rows, kind=FRAME), path, request.axis), title="scores")


def _of_table(table: TableOfRows, path: Path, axes: Sequence[str]) -> Source:
    rows = normalise_rows(table.table, str(path), axes)
    repeated = _repeated_at_levels(rows, axes) if "run_id" not in table.table.columns else []
    rows, levels = with_settings(rows, axes)
    for column in ("variant", "benchmark"):
        names = rows[column].drop_duplicates()
        if (alike := names[names.str.lower().duplicated(keep=False)]).size:
            pair = " and ".join(sorted(alike, key=lambda name: (name.lower(), name))[:2])
            raise UsageError(f"{path}: the {column}s {pair} differ in capitals only; write them alike")
    return Source(
        path=path,
        kind=table.kind,
        title=path.resolve().stem if path.is_dir() else path.stem,
        rows=rows,
        design=design_from(rows),
        notes=(*repeated, *table.notes),
        axes=levels,
        declared=declared_by_columns(table.table, str(path)),
        failed=() if axes else tuple(starmap(_failed_in_a_cell, table.failed)),
    )


def _failed_in_a_cell(family: str, variant: str, seed: str) -> FailedRun:
    run_id = f"{family}/{variant}/seed{seed}"  # as rows of a table have it
    return FailedRun(run_id=run_id, family=family, variant=variant, has_diverged=True)


def _repeated_at_levels(rows: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Warn of axes at whose levels the same seeds stand, which may be one run scored several times."""
    runs = rows[["family", "variant", "seed", *axes]].drop_duplicates()
    return [
        f"--axis {axis} counts scores of one seed at its levels as runs trained apart; if they are of one "
        f"run, intervals are far too narrow: write --columns {shlex.quote(f'task={axis}')} instead"
        for axis in axes
        if runs.drop(columns=axis).duplicated().any()
    ]


def _read_study(folder: Path) -> Source:
    study = StudyFolder(folder)
    written = read_design(study.study_file)
    placed, compared = (written.placed, written.compared) if written else (StudyAxes(), None)
    runs, apart, left_out = _compared_and_apart(study, written, placed)
    tables, unreadable = read_tables(runs)
    every, unknown = read_all_facts(runs, tables)
    facts, of_earlier_source = of_newest_sources(every)
    earlier = {run.run_id for run in every} - {run.run_id for run in facts}
    tables = {run_id: table for run_id, table in tables.items() if run_id not in earlier}
    facts_apart, unknown_apart = read_all_facts(apart, {})
    losses = held_out_rows(facts)
    scores, without_items = _scores(folder, [losses, *tables.values()])
    table = placed.rows(scores)
    rows = Settings(placed.families, placed.axes).of_rows(
        normalise_rows(table, str(folder), tuple(placed.axes))
    )
    facts, design = tuple(map(placed.facts, facts)), written or design_from(rows)
    if len(losses):  # every run has a held-out loss, whatever it was to be scored on
        benchmarks = dict.fromkeys((Benchmark(HELD_OUT), *design.benchmarks))
        design = replace(design, benchmarks=tuple(benchmarks))
    scored, failed = {run_id: runs[run_id] for run_id in tables}, failed_runs(folder, compared)
    alike = facts if design.report.factor == FACTORS[0] else every  # else settings are compared
    notes = [
        *(*of_earlier_source, *precision_notes(alike), *left_out, *unreadable, *unknown, *unknown_apart),
        *(*failed_notes(failed), *protocol_notes(scored, placed.family), *overlap_notes(every)),
        *without_items,
    ]
    if written is None and study.cell_files():  # a folder of single trainings has neither
        notes.append(
            f"{study.study_file.name} is not there, so nothing that the study declares is used, as margins "
            "or its primary benchmark; run the study's command again, which writes it anew"
        )
    return Source(
        path=folder,
        kind="study folder",
        title=folder.resolve().name,
        rows=rows,
        design=design,
        facts=facts,
        stages=_stages(placed, [*facts, *map(placed.apart, facts_apart)]),
        axes=placed.axes,
        failed=tuple(map(placed.failed, failed)),
        notes=tuple(notes),
        # What any run's file says of each benchmark; runs of a study have the same tests and training text.
        baselines={
            name: levels for run in scored.values() for name, levels in read_baselines(run.path).items()
        },
        declared=design.report.declared,
    )


def _compared_and_apart(
    study: StudyFolder, written: Design | None, placed: StudyAxes
) -> tuple[dict[str, RunFolder], dict[str, RunFolder], list[str]]:
    """Return the runs that are compared and those of other stages, by id, and notes on what is left out."""
    runs, notes = _runs_of(study), list[str]()
    if written is not None and written.run_ids is not None:
        if foreign := sorted(set(runs) - written.run_ids):
            notes.append(f"left out, not a cell of {study.study_file.name}: {first_few(foreign, 3)}")
        runs = {run_id: run for run_id, run in runs.items() if run_id in written.run_ids}
    mixed = {run_id: problem for run_id, run in runs.items() if (problem := mixed_up(run))}
    notes += [f"left out: {problem}" for problem in mixed.values()]
    compared = {run_id: run for run_id, run in runs.items() if run_id not in {*placed.aside, *mixed}}
    apart = {run_id: run for run_id, run in runs.items() if run_id in placed.aside - mixed.keys()}
    return compared, apart, notes


def _scores(folder: Path, parts: Sequence[pd.DataFrame]) -> tuple[pd.DataFrame, list[str]]:
    """Join the rows of all runs, graded ones behind them, and say which have no items to be graded by."""
    filled = [part for part in parts if len(part)]
    if not filled:
        raise UsageError(
            f"{folder}: no run that is to be compared has a score or a held-out loss; run the study first, "
            "or score runs: ffn-ablations eval RUN..."
        )
    table = pd.concat(filled, ignore_index=True)
    graded, without_items = graded_rows(folder, table)
    return pd.concat([table, graded], ignore_index=True), without_items


def _runs_of(study: StudyFolder) -> dict[str, RunFolder]:
    """Return the runs that have a result, by id."""
    folders = study.run_folders()
    runs = {x.run_id: x for x in folders if x.is_scored or x.has_marker or x.ledger_file.is_file()}
    if not runs:
        files = [file.name for file in sorted(study.path.glob("*.csv"))]
        studies = studies_in(study.path)
        hint = "train some: ffn-ablations study run STUDY.yaml"
        if RunFolder(study.path).is_run:
            hint = "it is one run: give its study's folder"
        elif studies:
            hint = f"give one of its studies: {first_few([*map(str, studies)], 3)}"
        elif files:
            hint = f"it has {first_few(files, 3)}: give one table, joined from all, with a column seed"
        raise UsageError(f"{study.path} holds no finished or scored run (<family>/<variant>/<run>); {hint}")
    return runs


def _stages(placed: StudyAxes, facts: Iterable[RunFacts]) -> dict[str, tuple[RunFacts, ...]]:
    """Tell of the runs of each stage beside the main one, their families by name."""
    by_id = {run.run_id: replace(run, family=plain(run.family)) for run in facts}
    return {
        name: tuple(by_id[run_id] for run_id in run_ids if run_id in by_id)
        for name, run_ids in placed.stages.items()
        if name != MAIN
    }
