"""Held-out loss along the way: means and differences with their intervals, and who gets somewhere sooner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from eval.report.curves.plateaus import Plateau, find_plateau
from eval.report.inputs.run_facts import RunFacts
from eval.significance.axes import Family, Level
from eval.significance.statistics.learning_curves import (
    difference_curve,
    mean_curve,
    resample,
    shared_axis,
    speed_ratio,
)

Spending = Literal["tokens", "FLOPs", "hours"]

SPENDINGS: tuple[Spending, ...] = ("tokens", "FLOPs", "hours")

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
class Speed:
    """What a variant needs for the baseline's final loss, and both losses where both have spent the same."""

    family: Family
    variant: Level
    spending: Spending
    """What is counted; FLOPs are those of forward passes, a third of what training takes."""
    spent: float
    """By the baseline, mean over its runs."""
    ratio: float | None
    """Variant over baseline; None where its mean curve does not come down to the loss."""
    low: float | None
    """None without an interval, or where it begins before the first evaluation."""
    high: float | None
    """None without an interval, or where it goes on behind the end of the curve."""
    has_interval: bool
    first: float
    """The ratio at the variant's first evaluation; if ``ratio`` is this, it had the loss by then."""
    last: float
    """The ratio at the end of the variant's curve."""
    at: float
    """Spent by both for the losses below: all of what the less expensive arm spent."""
    loss: float
    baseline_loss: float
    difference: float
    difference_low: float | None
    difference_high: float | None


@dataclass(frozen=True, kw_only=True)
class LearningCurves:
    """What finished runs tell of their training; empty where the source has no run folders."""

    points: tuple[Point, ...] = ()
    speeds: tuple[Speed, ...] = ()
    """In the order of families, variants and ``SPENDINGS``."""
    plateaus: tuple[Plateau, ...] = ()

    def speed(self, family: Family, variant: Level, spending: Spending) -> Speed | None:
        """Find one ratio; None where runs do not tell what they spent."""
        wanted = (family, variant, spending)
        return next((x for x in self.speeds if (x.family, x.variant, x.spending) == wanted), None)


class _Curve(NamedTuple):
    """A run's held-out loss over what it spent, (K,) each."""

    spent: np.ndarray
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
    speeds: list[Speed] = []
    plateaus: list[Plateau | None] = []
    for family in families:
        runs = [run for run in finished if run.family == family]
        plateaus.append(find_plateau(family, runs, variants, confidence))
        points += _points(family, _arms(runs, variants, "tokens"), variants[0], confidence)
        for variant in variants[1:]:
            for spending in SPENDINGS:
                arms = _arms(runs, (variants[0], variant), spending)
                if len(arms) == 2 and (speed := _speed(family, variant, spending, arms, confidence)):
                    speeds.append(speed)
    found = tuple(plateau for plateau in plateaus if plateau is not None)
    return LearningCurves(points=tuple(points), speeds=tuple(speeds), plateaus=found)


def _arms(runs: Iterable[RunFacts], variants: Sequence[Level], spending: Spending) -> Arms:
    """Curves by variant, of the runs that tell what they spent at two evaluations or more.

    A run whose spending does not grow from one evaluation to the next tells nothing.
    """
    arms: Arms = {variant: [] for variant in variants}
    for run in runs:
        found = [(x, loss) for x, loss in _spent(run, spending) if x is not None and x > 0]
        spent, losses = np.array(found, dtype=float).reshape(-1, 2).T
        if run.variant in arms and len(spent) > 1 and (np.diff(spent) > 0).all():
            arms[run.variant].append(_Curve(spent, losses))
    return {variant: curves for variant, curves in arms.items() if curves}


def _spent(run: RunFacts, spending: Spending) -> Iterable[tuple[float | None, float]]:
    for evaluation in run.curve:
        tokens, flops = evaluation.tokens, run.flops_per_token
        counted = {
            "tokens": tokens,
            "FLOPs": tokens * flops if tokens and flops else None,
            "hours": evaluation.hours,
        }
        yield counted[spending], evaluation.loss


def _points(family: Family, arms: Arms, baseline: Level, confidence: float) -> Iterable[Point]:
    """Mean curves at the places where the first run was evaluated, from where to where all runs were."""
    if not arms:
        return
    every = [curve for curves in arms.values() for curve in curves]
    first, last = max(x.spent[0] for x in every), min(x.spent[-1] for x in every)
    places = np.unique(np.clip(every[0].spent, first, last))
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


def _speed(family: Family, variant: Level, spending: Spending, arms: Arms, confidence: float) -> Speed | None:
    """Compare a variant with the baseline, the first of two arms; None where their curves do not overlap."""
    base, other = arms.values()
    spent, others_spent = (float(np.mean([curve.spent[-1] for curve in curves])) for curves in (base, other))
    places = shared_axis([(curve.spent[0], curve.spent[-1]) for curve in other])
    at = np.array([min(spent, others_spent)])
    if places is None or at[0] < max(curve.spent[0] for curve in (*base, *other)):
        return None
    final = [curve.losses[-1] for curve in base]
    found = speed_ratio(places, _losses(other, places), final, spent, confidence)
    equal = difference_curve(_losses(other, at), _losses(base, at), confidence)
    return Speed(
        family=family,
        variant=variant,
        spending=spending,
        spent=spent,
        ratio=_known(found.estimate),
        low=_known(found.low),
        high=_known(found.high),
        has_interval=min(len(base), len(other)) > 1,
        first=float(found.first),
        last=float(found.last),
        at=float(at[0]),
        loss=float(_losses(other, at).mean()),
        baseline_loss=float(_losses(base, at).mean()),
        difference=float(equal.estimate[0]),
        difference_low=_known(equal.low[0]),
        difference_high=_known(equal.high[0]),
    )


def _losses(curves: Sequence[_Curve], places: np.ndarray) -> np.ndarray:
    """(n, G) losses of runs at common places."""
    return np.stack([resample(curve.spent, curve.losses, places) for curve in curves])


def _known(value: float | np.ndarray) -> float | None:
    return None if np.isnan(value) else float(value)
