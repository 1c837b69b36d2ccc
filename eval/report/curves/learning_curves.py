"""Held-out loss along the way: means and differences with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eval.report.curves.plateaus import Plateau, find_plateau
from eval.report.inputs.run_facts import RunFacts
from eval.significance.axes import Family, Level
from eval.significance.statistics.learning_curves import (
    difference_curve,
    mean_curve,
    resample,
)

MOST_PLACES = 40
"""Places of a mean curve; studies evaluate a run about ten times."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One place of an arm's mean curve; None where an arm has one run, and of the baseline's difference."""

    family: Family
    variant: Level
    tokens: float
    num_runs: int
    loss: float
    low: float | None
    high: float | None
    difference: float | None
    """Variant minus baseline, in nats."""
    difference_low: float | None
    difference_high: float | None


@dataclass(frozen=True, kw_only=True)
class LearningCurves:
    """What finished runs tell of their training; empty where the source has no run folders."""

    points: tuple[Point, ...] = ()
    plateaus: tuple[Plateau, ...] = ()


class _Curve(NamedTuple):
    """A run's held-out loss over the tokens that it has seen, (K,) each."""

    tokens: np.ndarray
    losses: np.ndarray


Arms = dict[Level, list[_Curve]]


def analyse_curves(
    facts: Sequence[RunFacts], families: Sequence[Family], variants: Sequence[Level], confidence: float
) -> LearningCurves:
    """Compare the learning curves of finished runs, family by family.

    Args:
        facts: What run folders tell.
        families: In the order wanted.
        variants: The same, the baseline first.
        confidence: Level of the intervals.
    """
    finished = [run for run in facts if run.eval_loss is not None]
    points: list[Point] = []
    plateaus: list[Plateau | None] = []
    for family in families:
        runs = [run for run in finished if run.family == family]
        plateaus.append(find_plateau(family, runs, variants, confidence))
        points += _points(family, _arms(runs, variants), variants[0], confidence)
    found = tuple(plateau for plateau in plateaus if plateau is not None)
    return LearningCurves(points=tuple(points), plateaus=found)


def _arms(runs: Iterable[RunFacts], variants: Sequence[Level]) -> Arms:
    """Curves by variant, of the runs that tell their tokens at two evaluations or more.

    A run whose tokens do not grow from one evaluation to the next tells nothing.
    """
    arms: Arms = {variant: [] for variant in variants}
    for run in runs:
        known = [(x.tokens, x.loss) for x in run.curve if x.tokens is not None and x.tokens > 0]
        tokens, losses = np.array(known, dtype=float).reshape(-1, 2).T
        if run.variant in arms and len(tokens) > 1 and (np.diff(tokens) > 0).all():
            arms[run.variant].append(_Curve(tokens, losses))
    return {variant: curves for variant, curves in arms.items() if curves}


def _points(family: Family, arms: Arms, baseline: Level, confidence: float) -> Iterable[Point]:
    """Mean curves at the places where the first run was evaluated, from where to where all runs were."""
    if not arms:
        return
    every = [curve for curves in arms.values() for curve in curves]
    first, last = max(x.tokens[0] for x in every), min(x.tokens[-1] for x in every)
    places = np.unique(np.clip(every[0].tokens, first, last))
    places = places[np.unique(np.linspace(0, len(places) - 1, MOST_PLACES).round().astype(int))]
    if first >= last:
        return
    losses = {variant: _losses(curves, places) for variant, curves in arms.items()}
    for variant, found in losses.items():
        mean = mean_curve(found, confidence)
        difference = None
        if variant != baseline and baseline in losses:
            difference = difference_curve(found, losses[baseline], confidence)
        for i, tokens in enumerate(places):
            yield Point(
                family=family,
                variant=variant,
                tokens=float(tokens),
                num_runs=len(found),
                loss=float(mean.estimate[i]),
                low=_known(mean.low[i]),
                high=_known(mean.high[i]),
                difference=None if difference is None else float(difference.estimate[i]),
                difference_low=None if difference is None else _known(difference.low[i]),
                difference_high=None if difference is None else _known(difference.high[i]),
            )


def _losses(curves: Sequence[_Curve], places: np.ndarray) -> np.ndarray:
    """(n, G) losses of runs at common places."""
    return np.stack([resample(curve.tokens, curve.losses, places) for curve in curves])


def _known(value: float | np.ndarray) -> float | None:
    return None if np.isnan(value) else float(value)
