"""Scoring from Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd

from base.errors import UsageError
from base.sections import check
from eval.config import EvalConfig
from eval.evaluate import evaluate_runs, failure_lines
from eval.work_units import check_sources
from ffn_ablations.errors import brief_in_notebooks, told
from ffn_ablations.runs import as_runs
from ffn_ablations.values import typed_values
from report.inputs.run_facts import held_out_rows


@told()
def evaluate(
    runs: object,
    suites: Sequence[str] = (),
    *,
    workers: int = 1,
    trust_remote_code: bool = False,
    **settings: Any,
) -> pd.DataFrame:
    """Score runs, leaving out what is scored already: what the command ``eval`` does.

    Args:
        runs: What ``train`` returned, a list of such, paths of runs' folders, or a ``Study``.
        suites: Benchmarks, such as ``["embedded-pairs", "blimp"]``; without any there is the held-out loss.
        workers: Runs that are scored at the same time, each by a process started anew: a script then needs
            ``if __name__ == "__main__":``.
        trust_remote_code: Run FFN variants that the runs bring, which are code. One that this process trained
            or loaded needs none.
        **settings: What is a flag of the command, with underscores: ``blimp_dir="data/blimp"``,
            ``classify=["sst2"]``, ``finetune={"head": ["linear"]}``.

    Returns:
        One row a score, as ``compare`` takes it: run_id, family, variant, seed, benchmark, task, group,
        metric, score, n_items, head, primary; the held-out loss of every finished run among them.

    Raises:
        UsageError: For a mistake, or where something could not be scored; what could is kept, and the same
            call leaves it out.
    """
    if isinstance(suites, str):
        suites = [suites]
    if workers < 1:
        raise UsageError(f"workers is {workers}; it must be 1 or more")
    config = check(EvalConfig, {}, typed_values(EvalConfig, {"suites": list(suites), **settings}))
    chosen = as_runs(runs)
    for note in check_sources(config):
        print(f"note: {note}", file=sys.stderr)
    with brief_in_notebooks():
        folders = [run.folder for run in chosen]
        outcome = evaluate_runs(folders, config, workers, trust_remote_code=trust_remote_code)
    for failure in outcome.failures:
        if not isinstance(failure.error, UsageError):
            raise failure.error
    if outcome.failures:
        raise UsageError("; ".join(failure_lines(outcome.failures)))
    ids = {run.folder: run.facts.run_id for run in chosen}
    tables = [rows.assign(run_id=ids[folder]) for folder, rows in outcome.requested.items() if len(rows)]
    return pd.concat([held_out_rows([run.facts for run in chosen]), *tables], ignore_index=True)
