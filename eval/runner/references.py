"""What a run's scores are to be read against: constant answers and guesses, and test items trained on.

Both lie beside the rows, where the report finds them.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name

from base.errors import UsageError
from eval.classification.inputs.data import majority_baselines
from eval.classification.tasks.chosen import classification_tasks
from eval.classification.tasks.examples import read_examples
from eval.classification.tasks.schema import classified_benchmarks
from eval.config import EvalConfig
from eval.models.backbones import read_backbone
from eval.results.baselines import read_baselines, write_baselines
from eval.results.contamination import read_contamination, write_contamination
from eval.runner.contamination import contamination
from eval.suites.registry import HARNESS_FINDER
from eval.zero_shot.suites import find_text_tasks
from pretrain.config import RunConfig
from pretrain.run.folders import RunFolder
from pretrain.run.run_dir import read_run


def write_references(run_dir: Path, config: EvalConfig) -> str | None:
    """Write what the scores of a run are to be read against, for the benchmarks asked for.

    Args:
        run_dir: The run's folder.
        config: What it was evaluated on.

    Returns:
        Why the training text could not be searched, or not for a task that cannot be read; None where all
        is well.
    """
    try:
        baselines, texts, problem = _of_classification(config.model_dump_json())
        if baselines := baselines | _guesses(config.model_dump_json()):
            write_baselines(run_dir, baselines)
        if not config.check_contamination or read_backbone(run_dir) is not None:
            return problem  # what another model was trained on is not known here
        run = read_run(run_dir)
        texts = _texts(run_dir, config) | texts
        found = contamination(run.data, texts, _cache_dir(run_dir, run))
    except (UsageError, OSError) as error:
        return f"{run_dir}: the training text was not searched for test items: {error}"
    write_contamination(run_dir, found)
    return problem


def has_references(run_dir: Path, config: EvalConfig) -> bool:
    """Whether both files speak of every suite that they could speak of."""
    known = read_baselines(run_dir).keys() | read_contamination(run_dir).keys()
    return {*config.suites, *classified_benchmarks(config)} <= known or not config.check_contamination


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


def _cache_dir(run_dir: Path, run: RunConfig) -> Path:
    """The study's folder, so that all its runs share one search; the run's own where it lies elsewhere."""
    folder = RunFolder(run_dir)
    in_study = folder.run_id.split("/")[:-1] == [run.family, run.model.ffn]
    return (folder.study if in_study else folder).contamination_cache_dir


def _texts(run_dir: Path, config: EvalConfig) -> dict[str, tuple[str, ...]]:
    """The texts of every benchmark; those of lm-eval's own tasks are left out."""
    texts: dict[str, list[str]] = {}
    for task in find_text_tasks(config, run_dir):
        texts.setdefault(task.suite, []).extend(task.texts())
    return {name: tuple(of_suite) for name, of_suite in texts.items()}


# All runs of a study have the same.
@lru_cache(maxsize=1)
def _of_classification(
    config_json: str,
) -> tuple[dict[str, dict[str, dict[str, float]]], dict[str, tuple[str, ...]], str | None]:
    """Return the baselines and texts of the tasks that can be read, and why the first other one cannot."""
    config = EvalConfig.model_validate_json(config_json)
    baselines: dict[str, dict[str, dict[str, float]]] = {}
    texts: dict[str, list[str]] = {}
    problem = None
    for task in (task for group in classification_tasks(config) for task in group):
        try:
            of_task = majority_baselines([task], config)[task.benchmark]
            examples = read_examples(task, "validation", config)
        except UsageError as error:
            problem = problem or f"{task.name} has no baseline and was not searched for: {error}"
            continue
        baselines.setdefault(task.benchmark, {}).update(of_task)
        texts.setdefault(task.benchmark, []).extend(text for row in examples for text in task.texts(row))
    return baselines, {name: tuple(of_benchmark) for name, of_benchmark in texts.items()}, problem
