"""Which recipe of a pilot sees most per hour, and what it promises a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from eval.report.inputs.recipe import Recipe
from eval.report.pilot.recipes import CONFIDENCE, Plan, Seen
from eval.significance.statistics.pilot import (
    Promise,
    difference_interval,
    promised_spreads,
    seeds_to_detect,
)

ARMS = 2
"""Of the comparison whose hours are counted."""
FAR = 0.9
"""A recipe comes far where its baseline has come this share of the way from the loss of word frequencies to
the lowest one with as many tokens. Others are of a wrong learning rate or batch: what their variants differ
by is who learns faster under it. On TinyStories, 1M tokens, a rate three times too low came 0.77 of the way.
"""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """A recipe over all families, with what it takes to find the difference."""

    recipe: Recipe
    seen: tuple[Seen, ...]
    """In each family."""
    promises: tuple[Promise, ...] = ()
    """In each family; empty where its runs cannot be relied on."""
    intervals: tuple[tuple[float, float], ...] = ()
    """In each family, of the difference of the unlike variants."""
    seeds: int | None = None
    """An arm, in the family that needs most; None where not to be chosen or over 1,000."""
    hours: float | None = None
    """Of training to find the difference: both arms, all families."""
    behind: float = 0.0
    """Nats that its baseline ends above the lowest with as many tokens, where it does not come far."""

    @property
    def refused(self) -> str:
        """Why it is not to be chosen; empty where it can be."""
        if said := next((one.refused for one in self.seen if one.refused), ""):
            return said
        return f"ends {self.behind:.2f} nats above another of as many tokens" if self.behind else ""

    @property
    def is_blind(self) -> bool:
        """Whether the unlike variants are not seen to differ under it."""
        return any(low <= 0 <= high for low, high in self.intervals)

    @property
    def log_hours(self) -> tuple[float, float]:
        """Logarithm of what the hours go with, variance times hours, and the variance of that logarithm."""
        pairs = zip(self.promises, self.seen, strict=True)
        terms = [promise.log_variance + np.log(one.hours or np.nan) for promise, one in pairs]
        return float(np.mean(terms)), float(np.mean([p.uncertainty for p in self.promises]))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """All recipes of a pilot, and the one to be recommended."""

    plan: Plan
    weighed: tuple[Weighed, ...]
    chosen: Weighed | None
    alike: tuple[Weighed, ...] = ()
    """Others whose hours this pilot cannot tell from those of the chosen one."""
    better: Weighed | None = None
    """One of as many tokens whose baseline ends lower by more than the difference to be found."""
    by_signal: Weighed | None = None
    """Another one that needs the fewest hours to find the difference that the variants have under it."""


def choose(plan: Plan, seen: Sequence[Seen]) -> Choice:
    """Weigh the recipes of a pilot and choose the one that needs the fewest hours."""
    first = [
        Weighed(
            recipe=recipe,
            seen=(its := tuple(x for x in seen if x.recipe == recipe)),
            behind=_behind(its, seen),
        )
        for recipe in plan.recipes
    ]
    usable = [one for one in first if not one.refused]
    promises = _promises(plan, usable) if usable else {}
    weighed = tuple(
        _weigh(one, promises[one.recipe], plan.detect) if one.recipe in promises else one for one in first
    )
    able = [one for one in weighed if one.hours is not None and not one.refused]
    able = [one for one in able if not one.is_blind] or able
    if not able:
        return Choice(plan=plan, weighed=weighed, chosen=None)
    chosen = min(able, key=lambda one: (one.hours, one.promises[0].sd))
    others = [one for one in able if one is not chosen]
    by_signal = min(able, key=lambda one: _hours_by_signal(one, plan))
    return Choice(
        plan=plan,
        weighed=weighed,
        chosen=chosen,
        alike=tuple(one for one in others if not _is_told_apart(chosen, one)),
        better=_better(chosen, [one for one in weighed if one is not chosen], plan),
        by_signal=None if by_signal is chosen else by_signal,
    )


def _behind(its: Sequence[Seen], seen: Sequence[Seen]) -> float:
    """Return by how much a recipe that does not come far ends above the lowest; 0 for one that does."""
    found = [0.0]
    for one in its:
        same = [
            x.losses[0] for x in seen if x.family == one.family and _tokens(x.recipe) == _tokens(one.recipe)
        ]
        lowest = min((loss for loss in same if loss is not None), default=None)
        if lowest is not None and one.losses[0] is not None and one.of_frequencies is not None:
            has_come = one.of_frequencies - one.losses[0] >= FAR * (one.of_frequencies - lowest)
            found.append(0.0 if has_come else one.losses[0] - lowest)
    return max(found)


def _tokens(recipe: Recipe) -> str | None:
    return dict(recipe).get("tokens")


def _promises(plan: Plan, usable: Sequence[Weighed]) -> dict[Recipe, tuple[Promise, ...]]:
    """Return by recipe the promise of each family."""
    by_family = []
    for place in range(len(plan.families)):
        spreads = [one.seen[place].spread for one in usable]
        by_family.append(promised_spreads([x for x in spreads if x is not None], CONFIDENCE))
    return {one.recipe: tuple(each[i] for each in by_family) for i, one in enumerate(usable)}


def _weigh(one: Weighed, promises: tuple[Promise, ...], detect: float) -> Weighed:
    seeds = [seeds_to_detect(detect, promise.sd, CONFIDENCE) for promise in promises]
    known = [number for number in seeds if number is not None]
    hours = None
    if len(known) == len(seeds):
        hours = ARMS * sum(n * (each.hours or 0.0) for n, each in zip(known, one.seen, strict=True))
    return replace(
        one,
        promises=promises,
        intervals=tuple(
            difference_interval(each.difference or 0.0, each.counts, promise, CONFIDENCE)
            for promise, each in zip(promises, one.seen, strict=True)
        ),
        seeds=None if hours is None else max(known),
        hours=hours,
    )


def _is_told_apart(chosen: Weighed, other: Weighed) -> bool:
    """Whether the other one surely takes more hours."""
    (mine, my_doubt), (its, its_doubt) = chosen.log_hours, other.log_hours
    df = min(chosen.promises[0].df, other.promises[0].df)
    return its - mine > float(special.stdtrit(df, (1 + CONFIDENCE) / 2)) * np.sqrt(my_doubt + its_doubt)


def _hours_by_signal(one: Weighed, plan: Plan) -> float:
    """Return what the hours go with that it takes to find the difference that was seen."""
    return sum(
        (promise.sd / abs(each.difference)) ** 2 * (each.hours or 0.0)
        for promise, each in zip(one.promises, one.seen, strict=True)
        if each.difference
    )


def _better(chosen: Weighed, others: Sequence[Weighed], plan: Plan) -> Weighed | None:
    tokens = _tokens(chosen.recipe)
    same = [one for one in others if _tokens(one.recipe) == tokens and _loss(one) is not None]
    best = min(same, key=lambda one: _loss(one) or 0.0, default=None)
    mine = _loss(chosen)
    if best is None or mine is None:
        return None
    return best if (_loss(best) or 0.0) < mine - plan.detect else None


def _loss(one: Weighed) -> float | None:
    """Mean loss of the baseline over families."""
    losses = [each.losses[0] for each in one.seen]
    return None if None in losses else float(np.mean([x for x in losses if x is not None]))
