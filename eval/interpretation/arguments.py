"""What the commands that look into a run's classifier are asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eval.interpretation.commands import ClassifierArgs


@dataclass(frozen=True, kw_only=True)
class ExplainArgs(ClassifierArgs):
    """What ``python -m eval.explain`` is asked to do."""

    examples: int = 20
    """Validation examples to show, half of them misclassified where there are enough."""
    out: Path | None = None
    """The page (null: RUN/eval/explanations/TASK-HEAD.html)."""


@dataclass(frozen=True, kw_only=True)
class SufficiencyArgs(ClassifierArgs):
    """What ``python -m eval.sufficiency`` is asked to do."""

    segments_kept: int = 1
    """Segments of each document that a bag of words reads."""
    draws: int = 5
    """How many times segments are drawn at random."""
    train_documents: int = 10_000
    """Training documents that bags of words are trained on, evenly spaced over the file."""
    seed: int = 0
    """Of the random draws."""
    out: Path | None = None
    """The JSON file (null: RUN/eval/sufficiency/TASK-HEAD.json)."""


@dataclass(frozen=True, kw_only=True)
class ConceptSpaceArgs(ClassifierArgs):
    """What ``python -m eval.concept_space`` is asked to draw."""

    out: Path | None = None
    """File to write, with or without .svg or .png (default: RUN/eval/concept_space/TASK-HEAD)."""
    max_examples: int = 1000
    """Draw only so many examples, evenly spaced over the file."""
