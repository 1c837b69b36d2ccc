"""Which runs a path names: a run's folder is itself, a study's folder is every trained run in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from base.errors import UsageError
from eval.config import EvalConfig
from eval.models.backbones import FILE as BACKBONE_FILE
from eval.models.backbones import backbone_runs, is_backbone
from eval.models.loading import has_model
from eval.report.sources import STUDY_FILE

RUN_PATTERN = "*/*/*/config.yaml"  # <family>/<variant>/<run>/config.yaml
BACKBONE_PATTERN = f"*/*/*/{BACKBONE_FILE}"
BACKBONES_DIR = Path("runs", "backbones")


def find_runs(
    paths: Sequence[Path], seeds: Sequence[int] = (), backbones_dir: Path = BACKBONES_DIR
) -> tuple[list[Path], list[str]]:
    """List the runs that paths name.

    Args:
        paths: Folders of runs and of studies, and folders or names on the hub of other pretrained models.
        seeds: Of fine-tuning, for those other models.
        backbones_dir: Where the scores of those lie.

    Returns:
        Run folders, and sentences that name what a study's folder holds but cannot be scored yet.

    Raises:
        UsageError: If no path is given, or a folder holds neither a run nor a trained run.
    """
    if not paths:
        raise UsageError("no run given; name a study's folder or runs: python -m eval runs/<study>")
    runs, notes = [], []
    for path in paths:
        inside = [] if (path / "config.yaml").is_file() else sorted(path.glob(RUN_PATTERN))
        if not inside and (others := sorted(path.glob(BACKBONE_PATTERN))):
            runs += [file.parent for file in others]
            continue
        if not inside and seeds and is_backbone(path):
            runs += backbone_runs(path, seeds, backbones_dir)
            continue
        if not inside:
            runs.append(path)  # a run, or nothing: whoever opens it says so
            continue
        folders = [file.parent for file in inside]
        trained = [folder for folder in folders if has_model(folder)]
        if not trained:
            raise UsageError(f"{path} holds {len(folders)} runs and none is trained yet; train one first")
        runs += trained
        if untrained := [folder for folder in folders if folder not in trained]:
            names = ", ".join(folder.relative_to(path).as_posix() for folder in untrained)
            notes.append(f"{path}: left out, not trained yet: {names}")
    return runs, notes


def study_config(paths: Sequence[Path]) -> EvalConfig:
    """Return the evaluation that the first study among the paths asks for; the defaults without a study.

    Raises:
        UsageError: If that study's file is unusable.
    """
    for path in paths:
        file = path / STUDY_FILE
        if file.is_file():
            try:
                content: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
                return EvalConfig.model_validate(content.get("evaluation") or {})
            except (yaml.YAMLError, UnicodeDecodeError, AttributeError, ValidationError) as error:
                reason = " ".join(str(error).split())[:200]
                raise UsageError(f"{file} does not say what to evaluate: {reason}") from None
    return EvalConfig()
