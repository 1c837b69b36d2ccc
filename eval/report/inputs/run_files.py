"""Which files of a study's runs a report may believe, and what it says of the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from base.errors import UsageError
from base.records import BROKEN
from eval.report.inputs.run_facts import SHOWN, RunFacts, read_facts
from eval.results.ledger import look
from eval.results.rows import read_rows, some_of
from pretrain.run.folders import RunFolder

Runs = Mapping[str, RunFolder]


def read_tables(runs: Runs) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Read the scores of each run whose files are as its ledger says.

    Args:
        runs: By run id.

    Returns:
        The rows of each run that has usable ones, and sentences that name what is damaged. Rows without any
        ledger are somebody's who keeps none, unless other runs of the study have one.
    """
    tables: dict[str, pd.DataFrame] = {}
    notes, unchecked = [], []
    for run_id, run in runs.items():
        ledger, wrong = look(run)
        # A run is told by its place: rows of a named run may say what it would be called without the name.
        try:
            if run.rows_file.name in wrong:
                raise UsageError(f"{run.rows_file} {wrong[run.rows_file.name]}")
            if run.is_scored:
                tables[run_id] = read_rows(run.rows_file).assign(run_id=run_id)
                unchecked += [run_id] if ledger is None else []
        except UsageError as error:
            notes.append(f"scores left out, evaluate {run_id} again: {error}")
            continue
        damaged = [f"{name} {why}" for name, why in sorted(wrong.items()) if name != run.rows_csv_file.name]
        notes += [f"items left out, evaluate {run_id} again: {each}" for each in damaged]
    if unchecked and len(unchecked) < len(tables):
        said = "scores that cannot be checked, as eval/done.json is gone or damaged; evaluate again"
        notes.append(f"{said}: {some_of(unchecked, SHOWN)}")
    return tables, notes


def read_all_facts(runs: Runs, tables: Mapping[str, pd.DataFrame]) -> tuple[tuple[RunFacts, ...], list[str]]:
    """Read what each run's folder tells beside its scores.

    Args:
        runs: By run id.
        tables: The rows of those that have any.

    Returns:
        The facts, and sentences that name the runs that say nowhere what they are, and what is not used.
    """
    facts, notes = [], []
    for run_id, run in runs.items():
        try:
            facts.append(read_facts(run, run_id, tables.get(run_id)))
        except UsageError as error:
            notes.append(f"run left out: {error}")
    return tuple(facts), [*notes, *_unusable_notes(facts)]


def _unusable_notes(facts: Sequence[RunFacts]) -> Iterable[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for run in facts:
        for reason in run.unusable:
            by_reason[reason].append(run.run_id)
    for reason, run_ids in by_reason.items():
        yield f"not used, as {reason}, while their scores count: {some_of(run_ids, SHOWN)}"


def broken_notes(runs: Runs) -> list[str]:
    """Name the files of runs that were found damaged, now or before, and are not made again yet."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for run_id, run in runs.items():
        for path in (*run.path.glob(f"*{BROKEN}"), *run.eval_dir.glob(f"*{BROKEN}")):
            whole = path.with_name(path.name.removesuffix(BROKEN))
            if not whole.exists():
                by_name[whole.relative_to(run.path).as_posix()].append(run_id)
    return [
        f"{name} was damaged and set aside, the study's command makes it again: {some_of(run_ids, SHOWN)}"
        for name, run_ids in by_name.items()
    ]
