"""What scores without a model in a run's tasks, kept beside its scores.

In a classification it is the constant answer that does best on the training set, in lm-eval's tasks with
choices a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import pandas as pd

from base.files import mapping
from base.records import read_record, write_record
from base.run.folders import RunFolder


def write_baselines(run_dir: Path, baselines: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Write what constant answers and guesses score beside the scores of a run.

    Args:
        run_dir: The run's folder.
        baselines: Of each benchmark and task, the metrics in percent. What the file says of others stays.
    """
    known = read_baselines(run_dir)
    for benchmark, tasks in baselines.items():
        known[benchmark] = known.get(benchmark, {}) | {task: dict(scores) for task, scores in tasks.items()}
    write_record(RunFolder(run_dir).baselines_file, known)


def read_baselines(run_dir: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Read what they score: benchmark, task, metric, score in percent; empty where unknown.

    A damaged file is set aside and says nothing.
    """
    content = read_record(RunFolder(run_dir).baselines_file, dict) or {}
    return {
        name: {task: known for task, scores in mapping(tasks).items() if (known := _numbers(scores))}
        for name, tasks in content.items()
    }


def _numbers(scores: object) -> dict[str, float]:
    return {metric: score for metric, score in mapping(scores).items() if isinstance(score, int | float)}


def mean_baseline(baselines: Mapping[str, Mapping[str, float]], scores: pd.DataFrame) -> float | None:
    """Average what scores without a model over the tasks that a benchmark's score is a mean of.

    Args:
        baselines: Of the benchmark's tasks and metrics, in percent.
        scores: Family, variant, seed, run_id, task and metric of its scores, one metric a task.

    Returns:
        Percent; None where a task's is not known.
    """
    num_runs = len(scores.drop_duplicates(["family", "variant", "seed", "run_id"]))
    num_scores = scores.groupby(["task", "metric"]).size().to_dict()
    # As in the scores themselves, a task counts that most runs have.
    tasks = [key for key, number in num_scores.items() if number > num_runs / 2]
    known = [baselines[task][metric] for task, metric in tasks if metric in baselines.get(task, {})]
    return fmean(known) if tasks and len(known) == len(tasks) else None
