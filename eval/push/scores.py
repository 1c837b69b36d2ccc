"""A run's scores as the hub takes them: in the card's ``model-index``, and in ``.eval_results/``.

The second is read for data sets that the hub has as benchmarks, and says which one a score is of. No suite
here says that of itself: data of a suite may be a subset, or filtered. So whoever pushes names the benchmark.
https://huggingface.co/docs/hub/eval-results
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import yaml

from base.errors import UsageError, shown, unknown_name
from eval.models.identity import weights_hash
from eval.results.rows import NO_HEAD, read_table
from eval.results.run_scores import decimals
from eval.results.store import read_scores as read_run_scores
from eval.results.summary import suite_means
from pretrain.run.folders import RunFolder

MOST_TASKS = 20
"""Tasks of one benchmark that are listed one by one; of more, as BLiMP's 67, the means."""
_BENCHMARK = re.compile(r"(?P<id>[\w.-]+/[\w.-]+):(?P<task>[\w./-]+)")


@dataclass(frozen=True)
class Score:
    """One number of a card.

    Attributes:
        benchmark: As in rows.
        name: The task, or what a mean is over.
        metric: As in rows; ``mean`` where tasks of several metrics are averaged.
        value: In the scale of rows: percentages, but for metrics that have none.
        head: Of a fine-tuned classifier; empty for a score without fine-tuning.
        num_items: Over all that it is of.
    """

    benchmark: str
    name: str
    metric: str
    value: float
    head: str
    num_items: int

    @property
    def text(self) -> str:
        """The value as tables show it."""
        return f"{self.value:.{1 if self.metric == 'mean' else decimals(self.metric)}f}"


def read_scores(run: RunFolder) -> tuple[list[Score], list[str]]:
    """Read what a run scored, and sentences that say what is left out.

    Raises:
        UsageError: If its model or the scores are not as they were left, or are of other weights.
    """
    weights = weights_hash(run.path)
    if not run.is_scored:
        return [], [
            f"{run.path} has no scores, so its card has none; ffn-ablations eval {run.path} makes some"
        ]
    scores = read_run_scores(run)
    if scores.problem:
        raise UsageError(f"{run.rows_file} {scores.problem}; evaluate the run again")
    if scores.ledger is None or scores.ledger.weights != weights:
        raise UsageError(
            f"{run.path}: its scores are not known to be of this model (eval/done.json); evaluate it again"
        )
    return [
        score
        for (_, head), part in scores.rows.groupby(["benchmark", "head"], sort=True)
        for score in _of_benchmark(part, str(head), _read_items(run, part))
    ], []


def _read_items(run: RunFolder, rows: pd.DataFrame) -> pd.DataFrame | None:
    path = run.items_file(str(rows["benchmark"].iloc[0]))
    return read_table(path).to_pandas() if path.is_file() else None


def _of_benchmark(rows: pd.DataFrame, head: str, items: pd.DataFrame | None) -> list[Score]:
    benchmark, primary = str(rows["benchmark"].iloc[0]), rows[rows["primary"]]
    metrics = set(primary["metric"])
    metric = metrics.pop() if len(metrics) == 1 else "mean"
    number = int(primary["n_items"].sum())
    means = [
        Score(benchmark, name, metric, value, head, number)
        for name, value in suite_means(rows, items).items()
    ]
    if len(primary) > MOST_TASKS and means:
        return means
    each = zip(*(primary[name] for name in ("task", "metric", "score", "n_items")), strict=True)
    return means + [
        Score(benchmark, str(task), str(metric), float(score), head, int(number))
        for task, metric, score, number in each
    ]


def model_index(name: str, scores: Sequence[Score], task: str) -> list[dict]:
    """Return the card's ``model-index``.

    Args:
        name: The model's.
        scores: Of the run.
        task: What the hub calls the model's own task (``pipeline_tag``).
    """
    results = [
        {
            "task": {"type": "text-classification" if score.head else task},
            "dataset": {"type": score.benchmark, "name": score.benchmark},
            "metrics": [
                {
                    "type": score.metric,
                    "name": f"{score.name}, {score.metric}" + _how(score),
                    "value": round(score.value, 4),
                }
            ],
        }
        for score in scores
    ]
    return [{"name": name, "results": results}] if results else []


def _how(score: Score) -> str:
    return f", fine-tuned, {score.head} head" if score.head != NO_HEAD else ""


def table(scores: Sequence[Score]) -> str:
    """Return the card's table of scores."""
    lines = ["| benchmark | task | metric | score | items |", "| --- | --- | --- | ---: | ---: |"]
    for score in scores:
        number = f"{score.num_items:,}" if score.num_items else ""
        name = f"{score.name}{_how(score)}"
        lines.append(f"| {score.benchmark} | {name} | {score.metric} | {score.text} | {number} |")
    return "\n".join(lines)


def check_benchmarks(asked: Mapping[str, str]) -> None:
    """Refuse what names no benchmark of the hub.

    Raises:
        UsageError: Says the form.
    """
    for suite, place in asked.items():
        if not _BENCHMARK.fullmatch(place):
            raise UsageError(
                f"--eval-results {suite}: {shown(place)} names no benchmark of the hub; write "
                "OWNER/DATASET:TASK, the data set's id and the task in its eval.yaml"
            )


def eval_results(scores: Sequence[Score], asked: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files of ``.eval_results/``, by name.

    Args:
        scores: Of the run.
        asked: By suite the benchmark of the hub that its headline is a score of, ``OWNER/DATASET:TASK``.

    Raises:
        UsageError: For a suite that has no score.
    """
    headlines: dict[str, Score] = {}
    for score in scores:
        if score.head == NO_HEAD:
            headlines.setdefault(score.benchmark, score)
    files = {}
    for suite, place in asked.items():
        if suite not in headlines:
            raise unknown_name("scored suite", suite, headlines or ["none was scored"])
        found, score = _BENCHMARK.fullmatch(place), headlines[suite]
        assert found
        entry = {
            "dataset": {"id": found["id"], "task_id": found["task"]},
            "value": round(score.value, 4),
            "notes": f"{score.metric}, {score.name}, {score.num_items} items",
        }
        files[f".eval_results/{suite}.yaml"] = yaml.safe_dump([entry], sort_keys=False).encode()
    return files
