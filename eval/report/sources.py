"""What a report is made from: a study's folder, a rows file, or a CSV of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from base.errors import UsageError
from eval.report.design import Asked, Design, design_from, read_design
from eval.report.history import History, read_history
from eval.report.run_facts import SHOWN, RunFacts, cut_notes, held_out_rows
from eval.report.run_files import broken_notes, read_all_facts, read_tables
from eval.report.study_checks import (
    FailedRun,
    diverged_notes,
    failed_notes,
    failed_runs,
    protocol_notes,
)
from eval.report.variant_sources import source_notes
from eval.results.baselines import read_baselines
from eval.results.contamination import Contamination, read_contamination
from eval.results.csv_text import unmark
from eval.results.decisions import read_decisions
from eval.results.declarations import declared_by_columns
from eval.results.graded import graded_rows
from eval.results.outcome import Declared
from eval.results.published import shipped_table
from eval.results.rows import RunKey, some_of
from eval.results.run_scores import normalise_rows
from eval.significance.axes import Benchmark
from eval.significance.factor import Factor
from eval.suites.registry import HELD_OUT, SUITES
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.manifest import mixed_up


@dataclass(frozen=True, kw_only=True)
class Source:
    """Scores with their origin."""

    path: Path
    kind: str
    title: str
    rows: pd.DataFrame
    design: Design
    run_order: tuple[RunKey, ...]
    """The runs as they stand in the source."""
    facts: tuple[RunFacts, ...] = ()
    failed: tuple[FailedRun, ...] = ()
    """The runs of a study that ended without a result."""
    other_sources: tuple[str, ...] = ()
    """Sentences on variants whose runs were trained through different sources."""
    notes: tuple[str, ...] = field(default=())
    baselines: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """Benchmark, task and metric to what the best constant answer scores, in percent."""
    contamination: Mapping[str, Contamination] = field(default_factory=dict)
    """Benchmark to how many of its texts stand in the training text."""
    declared: Declared = field(default_factory=Declared)
    """What the table or the study says of its outcomes."""
    factor: Factor = "ffn"
    """Whose levels the variants are."""
    remarks: tuple[str, ...] = ()
    """What stands behind the names of variants, families and benchmarks."""
    history: History | None = None
    """What is remembered of a study; None for a file."""

    @property
    def is_table(self) -> bool:
        """Whether somebody wrote the scores down, who may have meant fractions."""
        return self.kind == "CSV"


def read_source(path: Path) -> Source:
    """Read scores from a study's folder, a parquet file of rows, a CSV, or a published table.

    Raises:
        UsageError: If there is nothing at ``path``, it holds no scores, or the table is unusable.
    """
    path = Path(path)
    if path.is_dir():
        return _read_study(path)
    file = shipped_table(path)
    if not file.exists():
        raise UsageError(f"{path} does not exist; give a study's folder, a rows.parquet or a CSV of scores")
    if file.suffix == ".csv":
        table, kind = _read_csv(file), "CSV"
    elif file.suffix == ".parquet":
        table, kind = _read_parquet(file), "rows file"
    else:
        raise UsageError(f"{path} is neither a folder nor a .csv or .parquet file; name one of those")
    rows = normalise_rows(table, str(path))
    return Source(
        path=path,
        kind=kind,
        title=path.stem,
        rows=rows,
        design=design_from(rows),
        run_order=_run_order(table),
        declared=declared_by_columns(table, str(path)),
    )


def _run_order(table: pd.DataFrame) -> tuple[RunKey, ...]:
    """Name the runs of a table that was found usable, first come first."""
    runs = table[["family", "variant", "seed"]].drop_duplicates()
    return tuple((str(f).strip(), str(v).strip(), int(float(s))) for f, v, s in runs.itertuples(index=False))


def _read_csv(path: Path) -> pd.DataFrame:
    try:
        # Text throughout: a variant may be called "none", and the checks want to quote what was written.
        table = pd.read_csv(
            path, dtype=str, keep_default_na=False, skipinitialspace=True, encoding="utf-8-sig"
        )
        names = pd.read_csv(path, dtype=str, nrows=1, header=None, encoding="utf-8-sig").iloc[0].str.strip()
        if names.duplicated().any():  # pandas calls the second one score.1
            twice = names[names.duplicated()].iloc[0]
            raise UsageError(f"{path} has the column {twice!r} twice; name each once")
        return unmark(table)
    except pd.errors.EmptyDataError:
        raise UsageError(f"{path} is empty; a CSV needs family,variant,seed,benchmark,score") from None
    except UsageError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a readable CSV: {' '.join(str(error).split())}") from None


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a parquet file: {' '.join(str(error).split())}") from None


def _read_study(folder: Path) -> Source:
    study = StudyFolder(folder)
    folders = study.run_folders()
    runs = {x.run_id: x for x in folders if x.is_scored or x.is_complete or x.ledger_file.is_file()}
    if not runs:
        hint = (
            "it is one run: give its study's folder"
            if RunFolder(folder).is_run
            else "train some: python -m slurm.submit STUDY.yaml"
        )
        raise UsageError(f"{folder} holds no finished and no scored run (<family>/<variant>/<run>); {hint}")
    asked, history = read_design(study.study_file), read_history(folder)
    written, notes = asked.design, [*asked.notes, *history.notes]
    if written is not None and written.run_ids is not None:
        file = study.study_file.name
        if foreign := sorted(set(runs) - written.run_ids):
            notes.append(f"left out, not a cell of {file}: {', '.join(foreign)}")
        runs = {run_id: run for run_id, run in runs.items() if run_id in written.run_ids}
        if not runs:
            raise UsageError(f"{folder}: no cell of {file} is finished or scored; run the study first")
    mixed = {run_id: said for run_id, run in runs.items() if (said := mixed_up(run))}
    notes += [f"left out: {said}" for said in mixed.values()]
    runs = {run_id: run for run_id, run in runs.items() if run_id not in mixed}
    tables, unreadable = read_tables(runs)
    notes += unreadable
    facts, unknown = read_all_facts(runs, tables)
    notes += unknown
    losses = held_out_rows(facts)
    parts = [part for part in (losses, *tables.values()) if len(part)]
    if not parts:
        raise UsageError(
            f"{folder}: no run has a score or a held-out loss; score runs: python -m eval RUN..."
        )
    table = pd.concat(parts, ignore_index=True)
    graded, without = graded_rows(folder, table)
    rows = normalise_rows(pd.concat([table, graded], ignore_index=True), str(folder))
    run_ids = written.run_ids if written else None
    notes += diverged_notes(folder, run_ids) + failed_notes(folder, run_ids)
    notes += protocol_notes(runs) + cut_notes(facts) + without
    design = replace(written, decisions=read_decisions(folder)) if written else design_from(rows)
    notes += _record_notes(study, design) + _unknown_names(study, asked, rows)
    baselines = _last_known(read_baselines(run.path) for run in runs.values())
    contamination = _last_known(read_contamination(run.path) for run in runs.values())
    notes += broken_notes(runs)  # of what was read just now, too
    if len(losses):  # every run has a held-out loss, whatever it was to be scored on
        wanted = dict.fromkeys((Benchmark(HELD_OUT), *design.benchmarks))
        design = replace(design, benchmarks=tuple(wanted))
    return Source(
        path=folder,
        kind="study folder",
        title=folder.resolve().name,
        rows=rows,
        design=design,
        run_order=_run_order(table),
        facts=facts,
        failed=failed_runs(folder, run_ids),
        other_sources=source_notes(facts, runs),
        notes=tuple(notes),
        baselines=baselines,
        contamination=contamination,
        declared=asked.declared,
        history=history,
    )


def _record_notes(study: StudyFolder, design: Design) -> list[str]:
    """Say where the record of what looks decided is gone, or that of another study."""
    planned = set(design.decisions.plan.get("cells") or ()) if design.decisions else set()
    if planned and (others := sorted((design.run_ids or frozenset()) - planned)):
        return [
            f"{study.decisions_file.name} is of a study without {some_of(others, SHOWN)}, which "
            f"{study.study_file.name} has: one of both was edited or damaged"
        ]
    looks = design.looks if isinstance(design.looks, tuple) else ()
    if not design.is_until_decided or design.decisions or len(design.seeds) <= max(looks[:1], default=0):
        return []
    return [
        f"{study.decisions_file.name} is not there, so comparisons decided with fewer seeds are shown with "
        "all their runs; restore it, or run the study's command again"
    ]


def _unknown_names(study: StudyFolder, asked: Asked, rows: pd.DataFrame) -> list[str]:
    """Name outcomes in a study's file that it has not: nothing follows from them."""
    if asked.design is None:
        return []
    benchmarks = {HELD_OUT, *(str(name) for name in asked.design.benchmarks)}
    graded = {
        str(Benchmark(name, metric=metric.name))
        for name in benchmarks & SUITES.keys()
        for metric in SUITES[name].graded
    }
    known = benchmarks | graded | set(rows.benchmark) | set(rows.metric)
    return [
        f"{study.study_file.name}: report.{section} names {name}, which is no outcome of this study"
        for section, names in (("margins", asked.declared.margins), ("primary", asked.design.primary))
        for name in names
        if name not in known
    ]


def _last_known(of_runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What any run's file says of each benchmark; runs of a study have the same tests and training text."""
    return {name: value for of_run in of_runs for name, value in of_run.items()}
