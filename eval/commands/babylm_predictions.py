"""Write the file of predictions that the BabyLM 2025 leaderboard takes: ``eval.babylm_predictions``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from base.command_line import parse_flags
from base.errors import UsageError, run_cli
from base.files import write_text
from eval.models.identity import identify_run
from eval.results.babylm import FAST, by_words, collect, summary, told


@dataclass(frozen=True, kw_only=True)
class PredictionsArgs:
    """Write the predictions of a scored run as one JSON file in the format of the BabyLM 2025 leaderboard.

    What is not scored yet is named with the command that scores it; the file then has the rest.

    Example: python -m eval.babylm_predictions RUN --babylm25-dir evaluation_data --out predictions.json
    """

    run: Annotated[Path, tyro.conf.Positional]
    """A run's folder, runs/<study>/<family>/<variant>/<run>."""
    babylm25_dir: Path | None = None
    """Folder with the evaluation data of BabyLM 2025 that the run was scored on, for the texts."""
    out: Path = Path("predictions.json")
    """The file to write."""
    words: int | None = None
    """How many words the training saw, 100000000, repeated ones each time: names the checkpoints of aoa as
    the leaderboard does, chck_10M."""
    fast: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Add fast_eval_results: score every checkpoint that --words names on fast_eval of the data, or go on
    with it. Takes as long as scoring the run so many times."""
    trust_remote_code: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """With --fast: run an FFN variant that the run brings as code; read it before."""


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags, collect, write the file and say what it lacks."""
    asked = parse_flags(PredictionsArgs, args, prog="python -m eval.babylm_predictions")
    if asked.words is not None and asked.words < 1:
        raise UsageError(f"--words is {asked.words}; it must be 1 or more")
    if asked.fast and asked.words is None:
        raise UsageError("--fast needs --words, how many words the training saw: it names the checkpoints")
    if asked.out.is_dir():
        raise UsageError(f"{asked.out} is a folder; --out names the file to write")
    identify_run(asked.run)
    collected = collect(asked.run, asked.babylm25_dir, asked.words)
    if not collected.content:
        missing = told(collected, asked.run, asked.babylm25_dir)[0]
        raise UsageError(f"{asked.run} has nothing that the leaderboard takes; {missing}")
    if asked.fast:
        from eval.runner.fast_scores import fast_scores

        steps = {step: f"chck_{seen}M" for step, seen in by_words(asked.run, asked.words or 0).items()}
        collected.content[FAST] = fast_scores(
            asked.run, asked.babylm25_dir, steps, _say, asked.trust_remote_code
        )
    lines = told(collected, asked.run, asked.babylm25_dir)
    for line in lines:
        print(f"note: {line}", file=sys.stderr)
    # NaN, for a word without one before it, is what the pipeline writes as well.
    write_text(asked.out, json.dumps(collected.content))
    print(f"{asked.out}: {summary(collected.content)}")
    return 0


def _say(message: str) -> None:
    print(f"scoring {message}", file=sys.stderr)


if __name__ == "__main__":
    run_cli(main)
