"""BLiMP (Warstadt et al. 2020), and what the BabyLM evaluations made of it: finds their minimal pairs."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

from base.errors import UsageError
from base.text.paths import absent
from eval.config import EvalConfig
from eval.files import fingerprint, list_data_files, read_hub_rows, read_json_rows
from eval.zero_shot.minimal_pairs import PAIR_COLUMNS, PairTask
from eval.zero_shot.suites import data_folder, find_data
from eval.zero_shot.task import TextTask, file_task
from scores.suites.registry import SUITES

HUB_BLIMP = "nyu-mll/blimp"

# Folders below `blimp_dir`; the second name is that of the BabyLM 2023 pipeline's filter-data.
FOLDERS: dict[str, tuple[tuple[str, str], ...]] = {
    "blimp": (("full", "blimp"),),
    "babylm23": (("filtered", "blimp_filtered"), ("supplement", "supplement_filtered")),
}

FOLDERS_2025 = {
    "blimp-filtered": ("blimp_filtered",),
    "blimp-supplement": ("supplement_filtered", "supplement_fast"),
}
"""Folders below ``babylm25_dir``; the fast evaluation has a supplement of its own."""


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of ``blimp`` or ``babylm23``: a file each in ``blimp_dir``, or the hub's (blimp only).

    Raises:
        UsageError: If the folder is needed and absent, or holds no data.
    """
    if config.blimp_dir is None:
        if suite == "blimp":
            source, uids = f"hub:{HUB_BLIMP}", SUITES[suite].tasks
            return [PairTask(suite, uid, source, partial(_read_hub, uid), config.max_pairs) for uid in uids]
        raise UsageError(
            f"the suite {suite} is not on the hub; pass --blimp-dir FOLDER with filtered/*.jsonl and "
            "supplement/*.jsonl, which are blimp_filtered and supplement_filtered in filter-data of the "
            "BabyLM 2023 evaluation pipeline (https://github.com/babylm/evaluation-pipeline-2023)"
        )
    tasks: list[TextTask] = []
    for names in FOLDERS[suite]:
        folder = _one_of(config.blimp_dir, names, suite)
        files = list_data_files(folder)
        if not files:
            raise UsageError(f"{folder} holds no .jsonl or .jsonl.gz file")
        tasks += _pair_files(suite, files, config)
    return tasks


def find_fast_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of ``blimp-fast``, which BabyLM 2025 has in one file, or in a file a paradigm.

    Raises:
        UsageError: If its data are absent.
    """
    path = find_data(data_folder(suite, config), suite, "blimp_fast")
    if path.is_dir():  # a file a paradigm, as in the pipeline
        return _pair_files(suite, list_data_files(path), config)
    source = fingerprint([path])
    return [
        PairTask(suite, uid, source, partial(_read_paradigm, path, source, uid), config.max_pairs)
        for uid in _paradigms_of(path, source)
    ]


def find_2025_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks of ``blimp-filtered`` or ``blimp-supplement``, which BabyLM 2025 has a file each.

    Raises:
        UsageError: If their data are absent.
    """
    folder = find_data(data_folder(suite, config), suite, *FOLDERS_2025[suite])
    files = list_data_files(folder) if folder.is_dir() else {}
    if not files:
        raise UsageError(f"{folder} must be a folder with a .jsonl file for each task of {suite}")
    return _pair_files(suite, files, config)


def _pair_files(suite: str, files: dict[str, Path], config: EvalConfig) -> list[TextTask]:
    return [
        file_task(PairTask, suite, name, path, PAIR_COLUMNS, config.max_pairs) for name, path in files.items()
    ]


def _one_of(folder: Path, names: tuple[str, ...], suite: str) -> Path:
    for name in names:
        if (folder / name).is_dir():
            return folder / name
    must = f"--blimp-dir, in a study evaluation.blimp_dir, must hold it for the suite {suite}"
    raise absent(folder / names[0], f"no folder {folder / names[0]}; {must}")


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
