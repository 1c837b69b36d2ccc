"""Where the evaluation data of BabyLM 2025 lie, in any of its pipeline's layouts."""

from __future__ import annotations

from pathlib import Path

from base.errors import UsageError
from base.text.absent import absent
from eval.config import EvalConfig


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
