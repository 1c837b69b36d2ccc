"""The tasks of the suites that score texts."""

from __future__ import annotations

from pathlib import Path

from base.errors import UsageError, unknown_name
from base.text.paths import absent
from eval.config import EvalConfig
from eval.zero_shot.task import TextTask
from scores.suites.registry import SUITES


def data_folder(suite: str, config: EvalConfig) -> Path:
    """Return ``babylm25_dir``.

    Raises:
        UsageError: If it is not given, or is no folder; says which suite needs it.
    """
    if config.babylm25_dir is None:
        raise UsageError(
            f"the suite {suite} is not on the hub; pass --babylm25-dir FOLDER, the evaluation data of the "
            "BabyLM 2025 evaluation pipeline (https://github.com/babylm/evaluation-pipeline-2025)"
        )
    if not config.babylm25_dir.is_dir():
        raise absent(config.babylm25_dir, f"no folder {config.babylm25_dir}; --babylm25-dir names one")
    return config.babylm25_dir


def find_data(folder: Path, suite: str, *names: str) -> Path:
    """Find a file, or a folder of files, by its name without suffix, in one of the pipeline's layouts.

    Raises:
        UsageError: If there is none of those names.
    """
    for base in (folder, folder / "full_eval", folder / "fast_eval"):
        for name in names:
            for suffix in (".jsonl.gz", ".jsonl", ""):
                if (path := base / f"{name}{suffix}").exists() and (suffix or path.is_dir()):
                    return path
    raise UsageError(f"no {names[0]}.jsonl or .jsonl.gz in {folder}; the suite {suite} needs it")


def find_text_tasks(config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of all suites asked for that score texts, without reading more than their files' bytes.

    Args:
        config: The suites, and where their data is.
        run_dir: The run, which ``perplexity`` may take its held-out documents from; None leaves it out.

    Raises:
        UsageError: For data that is needed and absent, or a name in ``pair_tasks`` that no suite has.
    """
    tasks = [
        task for suite in dict.fromkeys(config.suites) for task in find_suite_tasks(suite, config, run_dir)
    ]
    return select_tasks(tasks, config.pair_tasks)


def find_suite_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of one suite; none for a suite that does not score texts.

    Raises:
        UsageError: If its data is needed and absent.
    """
    return [] if SUITES[suite].kind == "classification" else SUITES[suite].find(config, run_dir)


def select_tasks(tasks: list[TextTask], wanted: tuple[str, ...] | None) -> list[TextTask]:
    """Keep the tasks of those names, or all where no name is given.

    Raises:
        UsageError: For a name that no suite has; gives the closest match.
    """
    if wanted is None:
        return tasks
    names = [task.name for task in tasks]
    for name in wanted:
        if name not in names:
            raise unknown_name("task of the suites", name, names)
    return [task for task in tasks if task.name in wanted]


def missing_tasks(suite: str, tasks: list[TextTask]) -> list[str]:
    """Return the tasks that a suite should have and that were not found; its mean is then another one."""
    found = {task.name for task in tasks}
    return [name for name in SUITES[suite].tasks if name not in found]
