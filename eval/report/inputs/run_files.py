"""Which files of a study's runs a report may believe, and what it says of the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pandas as pd

from base.errors import UsageError
from eval.report.inputs.run_facts import SHOWN, RunFacts, read_facts
from eval.results.rows import some_of
from eval.results.store import read_scores
from pretrain.run.folders import RunFolder

Runs = Mapping[str, RunFolder]


def read_tables(runs: Runs) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Read the scores of each run that are its own.

    Args:
        runs: By run id.

    Returns:
        The rows of each run that has usable ones, and sentences that name what is not used. Rows without any
        ledger are somebody's who keeps none, unless other runs of the study have one.
    """
    tables: dict[str, pd.DataFrame] = {}
    notes, unchecked = [], []
    for run_id, run in runs.items():
        scores = read_scores(run)
        if run.is_scored and run.rows_file.name not in scores.wrong:
            # A run is told by its place: rows of a named run may say what it would be called without it.
            tables[run_id] = scores.rows().assign(run_id=run_id)
            unchecked += [run_id] if scores.ledger is None else []
        notes += [
            f"scores left out, evaluate {run_id} again: {run.eval_dir / name} {why}"
            for name, why in scores.wrong.items()
            if name != run.rows_csv_file.name
        ]
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
    facts: list[RunFacts] = []
    notes, by_reason = [], defaultdict[str, list[str]](list)
    for run_id, run in runs.items():
        try:
            facts.append(read_facts(run, run_id, tables.get(run_id)))
        except UsageError as error:
            notes.append(f"run left out: {error}")
            continue
        for reason in facts[-1].unusable:
            by_reason[reason].append(run_id)
    return tuple(facts), notes + [
        f"not used, as {reason}, while their scores count: {some_of(run_ids, SHOWN)}"
        for reason, run_ids in by_reason.items()
    ]
