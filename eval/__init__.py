"""Scoring saved models on minimal pairs and GLUE, and what the scores say about the variants."""

from pathlib import Path

# `python -m eval.explain` and its likes are files of `commands/`, wherever their code lies.
__path__.append(str(Path(__file__).parent / "commands"))
