"""Contexts and the continuations to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from eval.scoring.scorers import TextScorer


@dataclass(frozen=True)
class Choice:
    """A context, and continuations of which the first is right.

    Attributes:
        context: What is given; empty where whole sentences are compared.
        options: The continuations, with the space before them where there is one.
    """

    context: str
    options: tuple[str, ...]


class ScoredChoice(NamedTuple):
    """What a model makes of one choice, option by option.

    Attributes:
        scores: float64, as the model's protocol has them.
        num_tokens: How many tokens of each option were scored.
    """

    scores: np.ndarray
    num_tokens: list[int]


def continuations(choices: Sequence[Choice]) -> list[tuple[str, str]]:
    """List every option of every choice with its context, as they are scored.

    A text without context gets a space in front, which lm-eval puts there; the protocol decides whether it
    stays.
    """
    return [
        (choice.context, option if choice.context else f" {option}")
        for choice in choices
        for option in choice.options
    ]


def score_choices(choices: Sequence[Choice], scorer: TextScorer) -> list[ScoredChoice]:
    """Score every option of every choice, given its context.

    Raises:
        UsageError: For a text that cannot be scored, or a score that is not finite.
    """
    scores = scorer.score_continuations(continuations(choices))
    ends = accumulate((len(choice.options) for choice in choices), initial=0)
    return [
        ScoredChoice(scores.log_likelihood[start:end], scores.num_tokens[start:end])
        for start, end in pairwise(ends)
    ]


def credit(scores: np.ndarray) -> float:
    """Return 1 where the first score is the highest, 0 where another one is, and its share in a tie."""
    best = scores == scores.max()
    return float(best[0]) / int(best.sum())
