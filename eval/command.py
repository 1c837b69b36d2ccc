"""Score saved runs: ``ffn-ablations eval STUDY``, or ``ffn-ablations eval RUN... --suites blimp glue``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from base.command_line import Positional, read_flags
from base.errors import UsageError
from base.mistakes import check
from eval.config import EvalConfig
from eval.runner.find_runs import find_runs, study_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eval.runner.evaluate import Failure

EXAMPLES = """Score saved runs on minimal pairs and GLUE, and add the scores to their rows.

Examples:
  ffn-ablations eval runs/quickstart               # all of a study, as its study.yaml says
  ffn-ablations eval runs/thesis --suites blimp --blimp-dir DATA/blimp
  ffn-ablations eval runs/thesis --suites babylm23 --protocol babylm23    # scored as another tool does
  ffn-ablations eval RUN --tasks arc_easy          # a task of lm-eval
  ffn-ablations eval RUN --classify ag-news my/task.yaml    # fine-tuned; ffn-ablations list tasks
  ffn-ablations eval RUN --classify sst2 --score-on imdb    # trained on one, scored on another too
  ffn-ablations eval RUN RUN --suites glue --finetune.tasks rte mrpc cola --glue-dir DATA/glue

What is scored already under the same settings and with the same weights is not scored again. Each run
keeps its scores in eval/rows.parquet (and .csv), and every item in eval/items/. What fails does not stop the
rest."""


class EvaluateArgs(EvalConfig):
    """What ``ffn-ablations eval`` is asked to do."""

    runs: Positional[tuple[Path, ...]]
    """Folders of runs, runs/<study>/<family>/<variant>/<run>, or of studies, runs/<study>."""
    trust_remote_code: bool = False
    """Run FFN variants that the runs bring as code; read it before. Such runs are refused otherwise."""
    workers: int | None = None
    """Tasks that are scored at the same time, each by a process with one thread (null: one a core, up to four
    on a GPU, one where there is little to do)."""


def evaluate(
    paths: tuple[Path, ...], config: EvalConfig, workers: int | None = None, trust_remote_code: bool = False
) -> int:
    """Evaluate runs; a broken one does not stop the rest.

    Args:
        paths: Folders of runs or studies.
        config: What is evaluated, and how.
        workers: Processes that score at the same time; None chooses.
        trust_remote_code: Whether to run FFN variants that the runs bring.

    Returns:
        The exit status: 0, or 2 where a run or its data is at fault, or 1 for a defect of this project.
    """
    from eval.runner.evaluate import evaluate_runs
    from eval.runner.work_units import check_sources
    from scores.summary import summary

    if workers is not None and workers < 1:
        raise UsageError(f"--workers is {workers}; it must be 1 or more")
    sources = check_sources(config)  # before a model is looked for on the hub
    runs, notes = find_runs(paths, config.finetune.resolve("").seeds)
    for note in notes + sources:
        print(f"note: {note}", file=sys.stderr)
    outcome = evaluate_runs(runs, config, workers, trust_remote_code=trust_remote_code)
    if tables := [rows for rows in outcome.asked.values() if len(rows)]:
        print(summary(tables))
    return _status(outcome.failures)


def _status(failures: Sequence[Failure]) -> int:
    from eval.runner.evaluate import failure_lines

    for line in failure_lines(failures):
        print(f"error: {line}", file=sys.stderr)
    if any(not isinstance(failure.error, UsageError) for failure in failures):
        return 1
    return 2 if failures else 0


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags and evaluate; a study's own settings stand for what no flag says."""
    typed = read_flags(EvaluateArgs, args, prog="ffn-ablations eval", description=EXAMPLES)
    folders = [Path(word) for word in typed.values.get(("include_path",), ())]
    config = study_config([Path(word) for word in typed.values[("runs",)]], folders)
    if {("tasks",), ("classify",)} & typed.values.keys():
        # What else a flag beside it names, it brings itself.
        config = config.model_copy(update={"suites": (), "tasks": (), "classify": (), "score_on": ()})
    asked = check(EvaluateArgs, config.model_dump(), typed)
    config = EvalConfig.model_validate({name: getattr(asked, name) for name in EvalConfig.model_fields})
    return evaluate(asked.runs, config, asked.workers, asked.trust_remote_code)
