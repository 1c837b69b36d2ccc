"""What a report is made from: a study's folder, a rows file, or a CSV of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import yaml

from base.errors import UsageError, unknown_name
from base.files import mapping
from eval.report.history import History, read_history
from eval.report.run_facts import RunFacts, cut_notes, held_out_rows, read_facts
from eval.report.study_checks import (
    FailedRun,
    diverged_notes,
    failed_notes,
    failed_runs,
    protocol_notes,
)
from eval.results.baselines import read_baselines
from eval.results.contamination import Contamination, read_contamination
from eval.results.csv_text import unmark
from eval.results.decisions import Decisions, read_decisions
from eval.results.declarations import declared_by_columns
from eval.results.graded import graded_rows
from eval.results.outcome import Declared
from eval.results.rows import LARGEST, RunKey, read_rows
from eval.results.run_scores import normalise_rows
from eval.significance.axes import Benchmark, Combination, Family, Level, Models
from eval.significance.comparison import CorrectionName, Method
from eval.significance.factor import Factor, listed_heads
from eval.significance.statistics.looks import Plan, read_plan
from eval.suites.registry import HELD_OUT
from pretrain.run.folders import RunFolder, StudyFolder


@dataclass(frozen=True)
class Design:
    """What was meant to be run: every combination is a cell. ``written``: a study file said so."""

    families: tuple[Family, ...]
    variants: tuple[Level, ...]
    seeds: tuple[int, ...]
    benchmarks: tuple[Benchmark, ...]
    written: bool
    baseline: str | None = None
    primary: tuple[str, ...] = ()
    """Outcomes that claims are made about; none means all."""
    contrasts: tuple[str, ...] = ()
    paired: bool = False
    looks: Plan | None = None
    method: Method = "welch"
    correction: CorrectionName = "holm"
    factor: Factor = "ffn"
    """Whose levels the baseline and the contrasts are."""
    heads: tuple[str, ...] = ()
    """Of classification, where a study names them."""
    run_ids: frozenset[str] | None = None
    decisions: Decisions | None = None
    is_until_decided: bool = False
    """Whether seeds are added to what is undecided, of which ``decisions`` is the record."""
    """Of looks, where seeds are added only to what is undecided."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The report section of the study's file, as it stands now."""

    def seeds_of(self, family: Family, level: Level) -> tuple[int, ...]:
        """Return the seeds that an arm was meant to have by now."""
        both = next((name for name in (family, level) if isinstance(name, Models | Combination)), None)
        num_seeds = self.decisions.num_seeds(both.variant if both else str(level)) if self.decisions else None
        return self.seeds[:num_seeds]


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
    """Read scores from a study's folder, a parquet file of rows, or a CSV.

    Raises:
        UsageError: If there is nothing at ``path``, it holds no scores, or the table is unusable.
    """
    path = Path(path)
    if path.is_dir():
        return _read_study(path)
    if not path.exists():
        raise UsageError(f"{path} does not exist; give a study's folder, a rows.parquet or a CSV of scores")
    if path.suffix == ".csv":
        table, kind = _read_csv(path), "CSV"
    elif path.suffix == ".parquet":
        table, kind = _read_parquet(path), "rows file"
    else:
        raise UsageError(f"{path} is neither a folder nor a .csv or .parquet file; name one of those")
    rows = normalise_rows(table, str(path))
    return Source(
        path=path,
        kind=kind,
        title=path.stem,
        rows=rows,
        design=_design_from(rows),
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
        return unmark(table)
    except pd.errors.EmptyDataError:
        raise UsageError(f"{path} is empty; a CSV needs family,variant,seed,benchmark,score") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a readable CSV: {' '.join(str(error).split())}") from None


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a parquet file: {' '.join(str(error).split())}") from None


def _read_study(folder: Path) -> Source:
    study = StudyFolder(folder)
    runs = {run.run_id: run for run in study.run_folders() if run.is_scored or run.is_complete}
    if not runs:
        hint = (
            "it is one run: give its study's folder"
            if RunFolder(folder).is_run
            else "train some: python -m slurm.submit STUDY.yaml"
        )
        raise UsageError(f"{folder} holds no finished and no scored run (<family>/<variant>/<run>); {hint}")
    written, declared = _read_design(study.study_file)
    history = read_history(folder)
    notes = list(history.notes)
    if written is not None and written.run_ids is not None:
        file = study.study_file.name
        if foreign := sorted(set(runs) - written.run_ids):
            notes.append(f"left out, not a cell of {file}: {', '.join(foreign)}")
        runs = {run_id: run for run_id, run in runs.items() if run_id in written.run_ids}
        if not runs:
            raise UsageError(f"{folder}: no cell of {file} is finished or scored; run the study first")
    # A run is told by its place: rows of a named run may say what it would be called without the name.
    tables, unreadable = _read_tables(runs)
    notes += unreadable
    facts, unknown = _read_facts(runs, tables)
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
    design = replace(written, decisions=read_decisions(folder)) if written else _design_from(rows)
    notes += _record_notes(study, design)
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
        notes=tuple(notes),
        baselines=_last_known(read_baselines(run.path) for run in runs.values()),
        contamination=_last_known(read_contamination(run.path) for run in runs.values()),
        declared=declared,
        history=history,
    )


def _record_notes(study: StudyFolder, design: Design) -> list[str]:
    """Say where seeds were added and the record of what was decided before is gone."""
    looks = design.looks if isinstance(design.looks, tuple) else ()
    if not design.is_until_decided or design.decisions or len(design.seeds) <= max(looks[:1], default=0):
        return []
    return [
        f"{study.decisions_file.name} is not there, so comparisons decided with fewer seeds are shown with "
        "all their runs; restore it, or run the study's command again"
    ]


def _read_tables(runs: Mapping[str, RunFolder]) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Read the scores of each run that has any; sentences name the runs whose scores are damaged."""
    tables, notes = {}, []
    for run_id, run in runs.items():
        try:
            if run.is_scored:
                tables[run_id] = read_rows(run.rows_file).assign(run_id=run_id)
        except UsageError as error:
            notes.append(f"scores left out, evaluate {run_id} again: {error}")
    return tables, notes


def _read_facts(
    runs: Mapping[str, RunFolder], tables: Mapping[str, pd.DataFrame]
) -> tuple[tuple[RunFacts, ...], list[str]]:
    """Read what each run's folder tells; sentences name the runs that say nowhere what they are."""
    facts, notes = [], []
    for run_id, run in runs.items():
        try:
            facts.append(read_facts(run, run_id, tables.get(run_id)))
        except UsageError as error:
            notes.append(f"run left out: {error}")
    return tuple(facts), notes


def _last_known(of_runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What any run's file says of each benchmark; runs of a study have the same tests and training text."""
    return {name: value for of_run in of_runs for name, value in of_run.items()}


def _design_from(rows: pd.DataFrame) -> Design:
    """Without a study file, expect every variant in every family at every seed that occurs anywhere."""
    names = {column: tuple(sorted(rows[column].unique())) for column in ("family", "variant", "benchmark")}
    seeds = tuple(int(seed) for seed in sorted(rows.seed.unique()))
    benchmarks = tuple(map(Benchmark, names["benchmark"]))
    return Design(names["family"], names["variant"], seeds, benchmarks, written=False)


def _read_design(path: Path) -> tuple[Design | None, Declared]:
    """Read what a study's file says was to be run, and of its outcomes; None where there is no file."""
    if not path.is_file():
        return None, Declared()
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a YAML file: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path} holds no mapping; it needs families, variants and seeds")
    lists = {name: _listed(path, content, name) for name in ("families", "variants", "seeds")}
    report, cells = mapping(content.get("report")), content.get("cells")
    evaluation = mapping(content.get("evaluation"))
    benchmarks = content.get("benchmarks") or evaluation.get("suites") or ()
    finetune = mapping(evaluation.get("finetune"))
    try:
        seeds = tuple(int(seed) for seed in lists["seeds"])
        margin = None if report.get("margin") is None else float(report["margin"])
        margins = {str(name): float(value) for name, value in dict(report.get("margins") or {}).items()}
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{path}: seeds and the report's margins must be numbers: {error}") from None
    for value in (margin, *margins.values()):
        if value is not None and not 0 < value < LARGEST:
            raise UsageError(f"{path}: margin {value:g} is not a positive number")
    design = Design(
        families=tuple(map(str, lists["families"])),
        variants=tuple(map(str, lists["variants"])),
        seeds=seeds,
        benchmarks=tuple(map(Benchmark, _texts(benchmarks))),
        written=True,
        baseline=report.get("baseline"),
        primary=_texts(report.get("primary")),
        contrasts=_texts(report.get("contrasts")),
        paired=bool(report.get("paired", False)),
        looks=read_plan(report.get("looks"), f"{path}: report.looks"),
        is_until_decided=content.get("until") == "decided",
        method=_choice(path, report, "method", get_args(Method)),
        correction=_choice(path, report, "correction", get_args(CorrectionName)),
        factor=_choice(path, report, "factor", get_args(Factor)),
        heads=_listed_heads(content, finetune),
        run_ids=frozenset(map(str, cells)) if isinstance(cells, list) else None,
        asked=report,
    )
    return design, Declared(margin=margin, margins=margins)


def _listed_heads(content: Mapping[str, Any], finetune: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the heads of a study as rows do; none where its file is from before there was a choice."""
    if isinstance(content.get("heads"), list):  # written by this project, without options that are defaults
        return tuple(map(str, content["heads"]))
    return listed_heads(finetune) if "head" in finetune else ()


def _choice(path: Path, report: Mapping[str, Any], name: str, names: Sequence[Any]) -> Any:
    """One of so many names in a report's section; the first where it says none."""
    value = report.get(name, names[0])
    if value not in names:
        raise unknown_name(f"report.{name} in {path}", str(value), names)
    return value


def _texts(value: object) -> tuple[str, ...]:
    """A list as texts, and one text for itself; of anything else there is none."""
    if isinstance(value, str):
        return (value,)
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def _listed(path: Path, content: Mapping[str, Any], name: str) -> list[Any]:
    value = content.get(name)
    if isinstance(value, dict):  # a study as its author writes it maps each family to a base config
        return list(value)
    if not isinstance(value, list) or not value:
        raise UsageError(f"{path}: {name} must be a list with at least one entry, not {value!r}")
    return value
