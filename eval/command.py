"""Score saved runs: ``ffn-ablations eval STUDY``, or ``ffn-ablations eval RUN... --suites blimp glue``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field, ValidationError

from base.command_line import Positional, read_flags
from base.config_input import find_study_folder, read_yaml
from base.errors import UsageError, exit_status
from base.other_names import OtherNames
from base.run.folder_names import RunFolder, StudyFolder
from base.sections import check, explain
from eval.backbones import backbone_runs, is_backbone
from eval.config import EvalConfig
from scores.stages import is_cut_off

BACKBONES_DIR = Path("runs", "backbones")
SUITES_OF_OWN_FILES = {("pair_files",): "own-pairs", ("text_file",): "perplexity"}


class EvaluateArgs(EvalConfig):
    """Score saved runs on minimal pairs and GLUE, and add the scores to their rows.

      ffn-ablations eval quickstart                    # all of runs/quickstart, as its study.yaml says
      ffn-ablations eval runs/thesis --suites blimp --blimp-dir DATA/blimp
      ffn-ablations eval RUN --tasks arc_easy          # a task of lm-eval
      ffn-ablations eval RUN --classify ag-news my/task.yaml    # fine-tuned; ffn-ablations list tasks
      ffn-ablations eval RUN RUN --suites glue --finetune.tasks rte mrpc cola --glue-dir DATA/glue

    What is scored already under the same settings and with the same weights is not scored again. Each run
    keeps its scores in eval/rows.csv, and every item in eval/items/. What fails does not stop the rest.
    """

    common: ClassVar = (
        *("runs", "suites", "tasks", "classify", "protocol.preset", "blimp_dir", "glue_dir"),
        *("text_file", "pair_files", "max_pairs", "device", "workers", "finetune.head"),
        *("finetune.learning_rate", "trust_remote_code"),
    )

    hints: ClassVar = OtherNames("eval")

    runs: Positional[tuple[Path, ...]]
    """Folders of runs, runs/<study>/<family>/<variant>/<run>, or of studies, runs/<study>."""
    trust_remote_code: bool = False
    """Run FFN variants that the runs bring as code; read it before. Such runs are refused otherwise."""
    workers: int | None = Field(None, ge=1)
    """Runs that are scored at the same time, each by a process with one thread (null: one a core, up to four
    on a GPU)."""


def main(args: Sequence[str] | None = None) -> int:
    """Evaluate runs, of which a broken one does not stop the rest; a study's settings stand for absent flags.

    Returns:
        The exit status: 0, or 2 where a run or its data is at fault, or 1 for a defect of this project.
    """
    typed = read_flags(EvaluateArgs, args, prog="ffn-ablations eval")
    # These load pandas.
    from eval.evaluate import evaluate_runs, failure_lines
    from eval.work_units import check_sources
    from scores.run_scores import summary

    folders = [Path(word) for word in typed.values.get(("include_path",), ())]
    paths = [find_study_folder(Path(word)) for word in typed.values[("runs",)]]
    config = study_config(paths, folders)
    own = tuple(suite for flag, suite in SUITES_OF_OWN_FILES.items() if flag in typed.values)
    if own or {("tasks",), ("classify",)} & typed.values.keys():
        # What else a flag beside it names, it brings itself.
        config = config.model_copy(update={"suites": own, "tasks": (), "classify": (), "pair_tasks": None})
    arguments = check(EvaluateArgs, config.model_dump(), typed)
    config = EvalConfig.model_validate({name: getattr(arguments, name) for name in EvalConfig.model_fields})
    sources = check_sources(config)  # before a model is looked for on the hub
    runs, notes = find_runs(paths, config.finetune.resolve("").seeds)
    for note in notes + sources:
        print(f"note: {note}", file=sys.stderr)
    outcome = evaluate_runs(runs, config, arguments.workers, trust_remote_code=arguments.trust_remote_code)
    if tables := [rows for rows in outcome.requested.values() if len(rows)]:
        print(summary(tables))
    for line in failure_lines(outcome.failures):
        print(f"error: {line}", file=sys.stderr)
    return exit_status(failure.error for failure in outcome.failures)


def find_runs(paths: Sequence[Path], seeds: Sequence[int] = ()) -> tuple[list[Path], list[str]]:
    """List the runs that paths name.

    Args:
        paths: Folders of runs and of studies, and folders or names on the hub of other pretrained models.
        seeds: Of fine-tuning, for those other models.

    Returns:
        Run folders, and sentences that name what a study's folder holds but cannot be scored yet.

    Raises:
        UsageError: If no path is given, or a folder holds neither a run nor a trained run.
    """
    if not paths:
        raise UsageError("no run given; name a study's folder or runs: ffn-ablations eval runs/<study>")
    runs, notes = [], []
    for named in paths:
        above = RunFolder(named.parent)
        path = above.path if above.is_run and above.model_dir == named else named
        folders = [] if RunFolder(path).is_run else StudyFolder(path).run_folders()
        inside = [run for run in folders if run.is_run]
        if not inside:
            others = [run.path for run in folders if run.is_backbone]
            if not others and seeds and is_backbone(path):
                others = backbone_runs(path, seeds, BACKBONES_DIR)
            runs += others or [path]  # a run, or nothing: whoever opens it says so
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
        runs += [run.path for run in folders if not run.is_run and (run.has_model or run.is_scored)]
        if num_archived:
            notes.append(f"{path}: left out, archived without their models: {num_archived} runs")
        if untrained := [run.run_id for run in inside if not (run.has_model or run.is_archived)]:
            notes.append(f"{path}: left out, not trained yet: {', '.join(untrained)}")
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
                config = EvalConfig.model_validate(content.get("evaluation") or {})
            except (UsageError, OSError, UnicodeDecodeError, ValidationError) as error:
                text = explain(error, EvalConfig, "") if isinstance(error, ValidationError) else error
                reason = " ".join(str(text).split())[:200]
                raise UsageError(f"{file} does not say what to evaluate: {reason}") from None
            config.refuse_unnamed_task_files(include_path, file)
            return config
    return EvalConfig()
