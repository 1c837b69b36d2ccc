"""Which runs a path names: a run's folder is itself, a study's folder is every trained run in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.mistakes import explain
from base.run.folders import RunFolder, StudyFolder
from eval.config import EvalConfig
from eval.models.backbones import backbone_runs, is_backbone
from scores.stages import is_cut_off

BACKBONES_DIR = Path("runs", "backbones")
FORMER_FIELDS = {"check_contamination"}
"""Of an evaluation, in archived studies; they changed no score."""


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
        raise UsageError("no run given; name a study's folder or runs: ffn-ablations eval runs/<study>")
    runs, notes = [], []
    for path in paths:
        found = [] if RunFolder(path).is_run else StudyFolder(path).run_folders()
        inside = [run for run in found if run.is_run]
        if not inside and (others := [run.path for run in found if run.is_backbone]):
            runs += others
            continue
        if not inside and seeds and is_backbone(path):
            runs += backbone_runs(path, seeds, backbones_dir)
            continue
        if not inside:
            runs.append(path)  # a run, or nothing: whoever opens it says so
            continue
        trained = [run.path for run in inside if run.has_model]
        num_archived = sum(run.is_archived for run in inside)
        if not trained and num_archived:
            raise UsageError(
                f"{path} holds {num_archived} runs that were archived without their models; their scores are "
                f"there: ffn-ablations report {path}"
            )
        if not trained:
            raise UsageError(f"{path} holds {len(inside)} runs and none is trained yet; train one first")
        runs += trained
        # One that has lost its configuration: whoever opens it says so.
        runs += [run.path for run in found if not run.is_run and (run.has_model or run.is_scored)]
        if num_archived:
            notes.append(f"{path}: left out, archived without their models: {num_archived} runs")
        if untrained := [run.run_id for run in inside if not (run.has_model or run.is_archived)]:
            names = ", ".join(untrained)
            notes.append(f"{path}: left out, not trained yet: {names}")
    return runs, notes


def study_config(paths: Sequence[Path], include_path: Sequence[Path] = ()) -> EvalConfig:
    """Return the evaluation that the first study among the paths asks for; the defaults without a study.

    Args:
        paths: As ``find_runs`` takes them.
        include_path: Folders of task files that whoever typed the command named.

    Raises:
        UsageError: If that study's file is unusable, or it names folders of task files that nobody typed:
            these may run code.
    """
    for path in paths:
        file = StudyFolder(path).study_file
        if file.is_file():
            try:
                content = read_yaml(file)
                if is_cut_off(content):
                    raise UsageError("it was cut off; run the study's command again, which writes it anew")
                asked = content.get("evaluation") or {}
                for name in FORMER_FIELDS & mapping(asked).keys():
                    del asked[name]
                config = EvalConfig.model_validate(asked)
            except (UsageError, OSError, UnicodeDecodeError, ValidationError) as error:
                told = explain(error, EvalConfig, "") if isinstance(error, ValidationError) else error
                reason = " ".join(str(told).split())[:200]
                raise UsageError(f"{file} does not say what to evaluate: {reason}") from None
            config.refuse_unnamed_task_files(include_path, file)
            return config
    return EvalConfig()
