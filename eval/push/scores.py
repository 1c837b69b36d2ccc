"""A run's scores as the hub takes them: results of the card's ``model-index``, and a table of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pandas as pd
from huggingface_hub import EvalResult

from base.errors import UsageError
from base.run.folders import RunFolder
from eval.models.identity import weights_hash
from scores.rows import NO_HEAD, read_table
from scores.run_scores import decimals
from scores.store import read_scores
from scores.summary import suite_means

MOST_TASKS = 20
"""Tasks of one benchmark that are listed one by one; of more, as BLiMP's 67, the means."""
MEAN = "mean"
"""The metric of a mean over tasks of several metrics."""


def read_results(run: RunFolder, task: str) -> list[EvalResult]:
    """Read what a run scored; says on standard error if that is nothing.

    Args:
        run: The run.
        task: What the hub calls the model's own task (``pipeline_tag``).

    Raises:
        UsageError: If its model or the scores are not as they were left, or are of other weights.
    """
    weights = weights_hash(run.path)
    if not run.is_scored:
        eval_command = f"ffn-ablations eval {run.path}"
        print(f"note: {run.path} has no scores, so its card has none; {eval_command}", file=sys.stderr)
        return []
    scores = read_scores(run)
    if scores.problem:
        raise UsageError(f"{run.rows_file} {scores.problem}; evaluate the run again")
    if scores.ledger is None or scores.ledger.weights != weights:
        raise UsageError(
            f"{run.path}: its scores are not known to be of this model (eval/done.json); evaluate it again"
        )
    parts = scores.rows.groupby(["benchmark", "head"], sort=True)
    return [
        EvalResult(
            task_type=task if head == NO_HEAD else "text-classification",
            dataset_type=str(benchmark),
            dataset_name=str(benchmark),
            metric_type=metric,
            metric_name=f"{name}, {metric}" + ("" if head == NO_HEAD else f", fine-tuned, {head} head"),
            metric_value=round(value, 4),
        )
        for (benchmark, head), rows in parts
        for name, metric, value in _values(run, rows)
    ]


def _values(run: RunFolder, rows: pd.DataFrame) -> list[tuple[str, str, float]]:
    """Name, metric and value of each mean over a benchmark's tasks, and of each task if they are few."""
    path, primary = run.items_file(str(rows["benchmark"].iloc[0])), rows[rows["primary"]]
    items = read_table(path).to_pandas() if path.is_file() else None
    metrics = set(primary["metric"])
    metric = metrics.pop() if len(metrics) == 1 else MEAN
    means = [(name, metric, value) for name, value in suite_means(rows, items).items()]
    if len(primary) > MOST_TASKS and means:
        return means
    return means + list(primary[["task", "metric", "score"]].itertuples(index=False, name=None))


def table(results: Sequence[EvalResult]) -> str:
    """Write the card's table of scores."""
    lines = ["| benchmark | task and metric | score |", "| --- | --- | ---: |"]
    for x in results:
        lines.append(f"| {x.dataset_name} | {x.metric_name} | {x.metric_value:.{_digits(x.metric_type)}f} |")
    return "\n".join(lines)


def _digits(metric: str) -> int:
    return 1 if metric == MEAN else decimals(metric)
