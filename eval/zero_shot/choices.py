"""Contexts and the continuations to choose from, and the suites made of such: EWoK and COMPS.

EWoK (Ivanova et al. 2024, https://arxiv.org/abs/2405.09605) as in BabyLM 2025: which of two targets fits.

A row has two contexts and two targets, of which the first fits the first. Asked is whether the first target
is likelier than the second given the first context. The files have every row a second time with contexts and
targets exchanged, so both directions count, each as an item. Chance is 50%.

COMPS (Misra et al. 2023, https://aclanthology.org/2023.eacl-main.213) as in BabyLM 2025.

Of two things one has a property: "A beaver has a flat tail", "A gorilla has a flat tail". What is scored is
the property given the thing, so that its words are the same in both. In the tasks of ``wugs`` the thing has a
made-up name that the text before gives it, with or without a distractor. Chance is 50%.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from base.errors import UsageError
from eval.config import EvalConfig
from eval.files import list_data_files
from eval.zero_shot.conditional_pairs import ConditionalPair, conditional_task
from eval.zero_shot.suites import data_folder, find_data
from eval.zero_shot.task import TextTask
from scores.suites.registry import SUITES

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


EWOK_COLUMNS = ("Context1", "Target1", "Target2")


def find_ewok(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks: one for each domain, a file each.

    Raises:
        UsageError: If their data are absent.
    """
    folder = find_data(data_folder(suite, config), suite, "ewok_filtered", "ewok_fast")
    files = list_data_files(folder) if folder.is_dir() else {}
    if not files:
        raise UsageError(f"{folder} must be a folder with a .jsonl file for each domain of {suite}")
    return [
        conditional_task(suite, name, path, EWOK_COLUMNS, ewok_pair, config.max_pairs)
        for name, path in files.items()
    ]


def ewok_pair(row: dict) -> ConditionalPair:
    """Return both targets, each given the context that the first one fits."""
    context = row["Context1"]
    return ConditionalPair((context, f" {row['Target1']}"), (context, f" {row['Target2']}"))


COMPS_COLUMNS = ("prefix_acceptable", "prefix_unacceptable", "property_phrase")
FILES = {
    "base": "comps_base",
    "wugs": "comps_wugs",
    "wugs_dist_before": "comps_wugs_dist-before",
    "wugs_dist_in_between": "comps_wugs_dist-in-between",
}
"""The files of the tasks, without their suffix."""


def find_comps(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List the tasks: one for each of the four files.

    Raises:
        UsageError: If their data are absent.
    """
    folder = find_data(data_folder(suite, config), suite, "comps")
    files = list_data_files(folder) if folder.is_dir() else {}
    if absent := [name for name in FILES.values() if name not in files]:
        raise UsageError(f"{folder} must be a folder with {absent[0]}.jsonl, which {suite} needs")
    return [
        conditional_task(suite, name, files[FILES[name]], COMPS_COLUMNS, comps_pair, config.max_pairs)
        for name in SUITES[suite].tasks
    ]


def comps_pair(row: dict) -> ConditionalPair:
    """Return the property of both things."""
    phrase = f" {row['property_phrase']}"
    return ConditionalPair((row["prefix_acceptable"], phrase), (row["prefix_unacceptable"], phrase))
