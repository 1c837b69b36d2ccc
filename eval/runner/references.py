"""What a run's scores are to be read against: constant answers and guesses, which lie beside the rows."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name

from base.errors import UsageError
from eval.classification.inputs.data import majority_baselines
from eval.classification.tasks.chosen import classification_tasks
from eval.classification.tasks.schema import classified_benchmarks
from eval.config import EvalConfig
from scores.baselines import read_baselines, write_baselines
from scores.suites.registry import HARNESS_FINDER


def write_references(run_dir: Path, config: EvalConfig) -> str | None:
    """Write what the scores of a run are to be read against, for the benchmarks asked for.

    Args:
        run_dir: The run's folder.
        config: What it was evaluated on.

    Returns:
        Why there are none, or not of a task that cannot be read; None where all is well.
    """
    try:
        baselines, problem = _of_classification(config.model_dump_json())
        if baselines := baselines | _guesses(config.model_dump_json()):
            write_baselines(run_dir, baselines)
    except (UsageError, OSError) as error:
        return f"{run_dir}: what guessing scores was not written: {error}"
    return problem


def has_references(run_dir: Path, config: EvalConfig) -> bool:
    """Whether there are constant answers for every benchmark of classification tasks."""
    return set(classified_benchmarks(config)) <= read_baselines(run_dir).keys()


# All runs of a study have the same.
@lru_cache(maxsize=1)
def _guesses(config_json: str) -> dict[str, dict[str, dict[str, float]]]:
    """Return what guessing scores in lm-eval's tasks with choices, as ``write_baselines`` wants it."""
    config = EvalConfig.model_validate_json(config_json)
    guesses: dict[str, dict[str, dict[str, float]]] = {}
    for task in resolve_name(HARNESS_FINDER)(config) if config.tasks else []:
        if guess := task.guess():
            guesses.setdefault(task.suite, {})[task.name] = guess
    return guesses


# All runs of a study have the same.
@lru_cache(maxsize=1)
def _of_classification(config_json: str) -> tuple[dict[str, dict[str, dict[str, float]]], str | None]:
    """Return the baselines of the tasks that can be read, and why the first other one cannot."""
    config = EvalConfig.model_validate_json(config_json)
    baselines: dict[str, dict[str, dict[str, float]]] = {}
    problem = None
    for task in (task for group in classification_tasks(config) for task in group):
        try:
            of_task = majority_baselines([task], config)[task.benchmark]
        except UsageError as error:
            problem = problem or f"{task.name} has no baseline: {error}"
            continue
        baselines.setdefault(task.benchmark, {}).update(of_task)
    return baselines, problem
