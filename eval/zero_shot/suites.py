"""The suites that score texts: which tasks each has, and where their data lies."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

from base.errors import UsageError, unknown_name
from eval.config import EvalConfig
from eval.files import fingerprint, list_data_files, read_hub_rows, read_json_rows
from eval.zero_shot.blimp import BLIMP_PARADIGMS, SUPPLEMENT_TASKS
from eval.zero_shot.entity_tracking import ENTITY_COLUMNS, ENTITY_FILES, EntityTask
from eval.zero_shot.minimal_pairs import PAIR_COLUMNS, PairTask
from eval.zero_shot.perplexity import find_perplexity_task
from eval.zero_shot.task import TextTask
from eval.zero_shot.wug import WUG_COLUMNS, WUG_TASK, WugTask

HUB_BLIMP = "nyu-mll/blimp"

# Folders below `blimp_dir`; the second name is that of the BabyLM 2023 pipeline's filter-data.
BLIMP_FOLDERS: dict[str, tuple[tuple[str, str], ...]] = {
    "blimp": (("full", "blimp"),),
    "babylm23": (("filtered", "blimp_filtered"), ("supplement", "supplement_filtered")),
}
PARADIGMS = tuple(sorted(uid for uids in BLIMP_PARADIGMS.values() for uid in uids))
SUITE_TASKS: dict[str, tuple[str, ...]] = {
    "blimp": PARADIGMS,
    "blimp-fast": PARADIGMS,
    "babylm23": (*sorted(BLIMP_PARADIGMS), *SUPPLEMENT_TASKS),
    "entity-tracking": ENTITY_FILES,
    "wug": (WUG_TASK,),
}


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
    if suite == "perplexity":
        if run_dir is None:
            return []
        return [find_perplexity_task(suite, config.text_file, run_dir, config.max_pairs)]
    finders: dict[str, Callable[[str, EvalConfig], list[TextTask]]] = {
        "blimp": _blimp_tasks,
        "babylm23": _blimp_tasks,
        "blimp-fast": _fast_tasks,
        "entity-tracking": _entity_tasks,
        "wug": _wug_tasks,
        "embedded-pairs": _embedded_tasks,
    }
    return finders[suite](suite, config) if suite in finders else []


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
    return [name for name in SUITE_TASKS.get(suite, ()) if name not in found]


def _blimp_tasks(suite: str, config: EvalConfig) -> list[TextTask]:
    if config.blimp_dir is None:
        if suite == "blimp":
            source = f"hub:{HUB_BLIMP}"
            return [
                PairTask(suite, uid, source, partial(_read_hub, uid), config.max_pairs) for uid in PARADIGMS
            ]
        raise UsageError(
            f"the suite {suite} is not on the hub; pass --blimp-dir FOLDER with filtered/*.jsonl and "
            "supplement/*.jsonl, which are blimp_filtered and supplement_filtered in filter-data of the "
            "BabyLM 2023 evaluation pipeline (https://github.com/babylm/evaluation-pipeline-2023)"
        )
    tasks: list[TextTask] = []
    for names in BLIMP_FOLDERS[suite]:
        folder = _one_of(config.blimp_dir, names, suite)
        files = list_data_files(folder)
        if not files:
            raise UsageError(f"{folder} holds no .jsonl or .jsonl.gz file")
        tasks += [
            _file_task(PairTask, suite, name, path, PAIR_COLUMNS, config) for name, path in files.items()
        ]
    return tasks


def _fast_tasks(suite: str, config: EvalConfig) -> list[TextTask]:
    folder = _babylm25_dir(suite, config)
    path = _find(folder, suite, "blimp_fast")
    if path.is_dir():  # a file a paradigm, as in the pipeline
        files = list_data_files(path)
        return [_file_task(PairTask, suite, name, file, PAIR_COLUMNS, config) for name, file in files.items()]
    source = fingerprint([path])
    return [
        PairTask(suite, uid, source, partial(_read_paradigm, path, source, uid), config.max_pairs)
        for uid in _paradigms_of(path, source)
    ]


def _entity_tasks(suite: str, config: EvalConfig) -> list[TextTask]:
    folder = _babylm25_dir(suite, config)
    paths = {
        name: _find(folder, suite, f"entity_tracking_{name}", f"entity_tracking/{name}")
        for name in ENTITY_FILES
    }
    return [_file_task(EntityTask, suite, name, path, ENTITY_COLUMNS, config) for name, path in paths.items()]


def _wug_tasks(suite: str, config: EvalConfig) -> list[TextTask]:
    path = _find(_babylm25_dir(suite, config), suite, WUG_TASK, f"{WUG_TASK}/{WUG_TASK}")
    if path.is_dir():
        (path, *others) = list_data_files(path).values()
        if others:
            raise UsageError(f"{path.parent} holds several data files; {suite} has one")
    return [_file_task(WugTask, suite, WUG_TASK, path, WUG_COLUMNS, config)]


def _embedded_tasks(suite: str, config: EvalConfig) -> list[TextTask]:
    size, seed = config.embedded_pairs_per_paradigm, config.embedded_seed
    source = f"embedded:{size}:{seed}"
    return [
        PairTask(suite, uid, source, partial(_read_embedded, size, seed, uid), config.max_pairs)
        for uid in _embedded_pairs(size, seed)
    ]


def _file_task(
    kind: type[TextTask], suite: str, name: str, path: Path, columns: tuple[str, ...], config: EvalConfig
) -> TextTask:
    return kind(suite, name, fingerprint([path]), partial(read_json_rows, path, columns), config.max_pairs)


def _one_of(folder: Path, names: tuple[str, ...], suite: str) -> Path:
    for name in names:
        if (folder / name).is_dir():
            return folder / name
    raise UsageError(f"no folder {folder / names[0]}; --blimp-dir must hold it for the suite {suite}")


def _babylm25_dir(suite: str, config: EvalConfig) -> Path:
    if config.babylm25_dir is None:
        raise UsageError(
            f"the suite {suite} is not on the hub; pass --babylm25-dir FOLDER, the evaluation data of the "
            "BabyLM 2025 evaluation pipeline (https://github.com/babylm/evaluation-pipeline-2025)"
        )
    if not config.babylm25_dir.is_dir():
        raise UsageError(f"no folder {config.babylm25_dir}; --babylm25-dir names one")
    return config.babylm25_dir


def _find(folder: Path, suite: str, *names: str) -> Path:
    """Find a file, or a folder of files, by its name without suffix, in one of the pipeline's layouts."""
    for base in (folder, folder / "full_eval", folder / "fast_eval"):
        for name in names:
            for suffix in (".jsonl.gz", ".jsonl", ""):
                if (path := base / f"{name}{suffix}").exists() and (suffix or path.is_dir()):
                    return path
    raise UsageError(f"no {names[0]}.jsonl or .jsonl.gz in {folder}; the suite {suite} needs it")


def _read_hub(uid: str) -> list[dict]:
    instead = "without network pass --blimp-dir FOLDER with full/*.jsonl, or use --suites embedded-pairs"
    return read_hub_rows(HUB_BLIMP, uid, "train", instead)


def _read_paradigm(path: Path, source: str, uid: str) -> list[dict]:
    return _paradigms_of(path, source)[uid]


# The source is in the key, so that a changed file is read again.
@lru_cache(maxsize=2)
def _paradigms_of(path: Path, source: str) -> dict[str, list[dict]]:
    paradigms: dict[str, list[dict]] = {}
    for row in read_json_rows(path, ("UID", *PAIR_COLUMNS)):
        paradigms.setdefault(str(row["UID"]), []).append(row)
    return dict(sorted(paradigms.items()))


def _read_embedded(pairs_per_paradigm: int, seed: int, uid: str) -> list[dict]:
    return _embedded_pairs(pairs_per_paradigm, seed)[uid]


@lru_cache(maxsize=2)
def _embedded_pairs(pairs_per_paradigm: int, seed: int) -> dict[str, list[dict]]:
    from pretrain.data.embedded import minimal_pairs

    return minimal_pairs(pairs_per_paradigm, seed)
