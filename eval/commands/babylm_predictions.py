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
from eval.results.babylm import collect, summary, told


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


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags, collect, write the file and say what it lacks."""
    asked = parse_flags(PredictionsArgs, args, prog="python -m eval.babylm_predictions")
    if asked.words is not None and asked.words < 1:
        raise UsageError(f"--words is {asked.words}; it must be 1 or more")
    if asked.out.is_dir():
        raise UsageError(f"{asked.out} is a folder; --out names the file to write")
    identify_run(asked.run)
    collected = collect(asked.run, asked.babylm25_dir, asked.words)
    lines = told(collected, asked.run, asked.babylm25_dir)
    if not collected.content:
        raise UsageError(f"{asked.run} has nothing that the leaderboard takes; {lines[0]}")
    for line in lines:
        print(f"note: {line}", file=sys.stderr)
    # NaN, for a word without one before it, is what the pipeline writes as well.
    write_text(asked.out, json.dumps(collected.content))
    print(f"{asked.out}: {summary(collected.content)}")
    return 0


if __name__ == "__main__":
    run_cli(main)
