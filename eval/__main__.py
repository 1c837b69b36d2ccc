"""Score saved runs: ``python -m eval RUN... --suites blimp glue``."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from eval.config import EvalConfig
from ffn_variants.cli import parse_flags
from ffn_variants.errors import UsageError, run_cli

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = """Score saved runs on minimal pairs and GLUE, and add the scores to their rows.

Examples:
  python -m eval runs/quickstart/*/*/* --suites embedded-pairs embedded-glue
  python -m eval RUN --suites blimp-filtered blimp-supplement --blimp-dir DATA/blimp
  python -m eval RUN --suites glue --glue.tasks rte mrpc cola --glue-dir DATA/glue

What is scored already under the same settings and with the same weights is not scored again. Each run keeps
its scores in eval/rows.parquet (and .csv), and every item in eval/items/."""


@dataclass(frozen=True, kw_only=True)
class EvaluateArgs:
    """What ``python -m eval`` is asked to do."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders: runs/<study>/<family>/<variant>/<run>."""
    config: Annotated[EvalConfig, tyro.conf.arg(name="")]
    """What is evaluated, and how."""


def evaluate(runs: tuple[Path, ...], config: EvalConfig) -> int:
    """Evaluate runs one after the other; a broken one does not stop the rest.

    Args:
        runs: Run folders.
        config: What is evaluated, and how.

    Returns:
        The exit status: 1 if some of several runs failed.
    """
    from eval.evaluate import evaluate_run
    from eval.plan import check_sources

    if not runs:
        raise UsageError(
            "no run given; name one or more folders: python -m eval runs/<study>/<family>/<variant>/<run>"
        )
    for note in check_sources(config):
        print(f"note: {note}", file=sys.stderr)
    tables, failures = [], {}
    for run_dir in runs:
        try:
            tables.append(evaluate_run(run_dir, config))
        except Exception as error:
            if len(runs) == 1:
                raise
            if not isinstance(error, UsageError):
                traceback.print_exc()
            print(f"{run_dir} failed: {error}", file=sys.stderr)
            failures[run_dir] = error
    if tables:
        print(summary(tables, config))
    for run_dir, error in failures.items():
        print(f"failed: {run_dir}: {error}", file=sys.stderr)
    return 1 if failures else 0


def summary(tables: list[pd.DataFrame], config: EvalConfig) -> str:
    """Return the scores of the suites asked for: tasks down, runs across, a suite's mean below its tasks."""
    import pandas as pd

    rows = pd.concat(tables)
    rows = rows[rows["benchmark"].isin(config.suites)]
    lines = []
    for benchmark, of_suite in rows.groupby("benchmark", sort=False):
        table = of_suite.pivot(index=["task", "metric"], columns="run_id", values="score")
        accuracy = table.xs("accuracy", level="metric")
        table.loc[(f"mean of {len(accuracy)}", "accuracy"), :] = accuracy.mean()
        lines.append(
            f"{benchmark} (percent)\n{table.rename_axis(columns=None).to_string(float_format='%.1f')}\n"
        )
    return "\n".join(lines)


def main() -> int:
    """Read the flags and evaluate."""
    args = parse_flags(EvaluateArgs, prog="python -m eval", description=EXAMPLES)
    return evaluate(args.runs, args.config)


if __name__ == "__main__":
    run_cli(main)
