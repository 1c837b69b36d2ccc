"""Who has left the plateau of word frequencies, and whether that is what final losses differ by.

A language model first learns how frequent tokens are. Until it finds more in the context its loss stays near
what the frequencies alone score, in a masked model for much of a short training. Final losses then say who
left the plateau first rather than where a variant ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from eval.report.inputs.run_facts import RunFacts
from eval.significance.axes import Family, Level
from eval.significance.statistics.corrections import Holm
from eval.significance.statistics.learning_curves import (
    difference_curve,
    first_below,
    resample,
)

NUM_PLACES = 400
"""Where a curve is read off: over a range of 10 to 1, each place is 0.6% further than the one before."""
SHARE_OF_THE_WAY = 0.5
"""A run has left when its loss has come so far from that of the frequencies to the family's best final loss.

Half, as that is the place furthest from both: on the plateau losses sink slowly (masked models on
TinyStories from 5.5 to 5.1 nats where the frequencies score 5.9), then they fall steeply, and at the end they
flatten again. In the steep part a somewhat smaller or larger share moves all runs alike.
"""

LEAST_FALL = 0.3
"""A family is off the plateau only if its best run is below the frequencies' loss by this share of it.

While still on it, masked models were seen to sink by 13% on TinyStories and by 27% on the embedded corpus.
"""

SPEED_EXPLAINS = 0.5
"""Share of the variance of final losses from which on when runs left is called what they differ by."""

EARLY = 0.2
"""Share of the training within which leaving says little about its end: most of it was still to come.

Causal models have hardly a plateau. A variant that learns less there also falls more slowly from the start,
so when it was half of the way goes together with its level and is not the reason for it.
"""

LEAST_SPREAD = 0.05
"""Runs that left within this share of the training of each other left at about the same time.

In small models on TinyStories the last 5% of the tokens lower the loss by 0.01 to 0.04 nats.
"""


@dataclass(frozen=True, kw_only=True)
class Departure:
    """When a run left the plateau."""

    run_id: str
    family: Family
    variant: Level
    seed: int
    tokens: float | None
    """None if it did not. One that had left by its first evaluation has the tokens of that."""
    had_left: bool
    """Whether it had left by its first evaluation."""


@dataclass(frozen=True, kw_only=True)
class Lead:
    """When the runs of a variant left the plateau, against those of the baseline."""

    family: Family
    variant: Level
    ratio: float
    """Of tokens, variant over baseline: geometric means."""
    low: float
    high: float
    p: float
    """Welch's test of the logarithms."""
    p_corrected: float
    """Corrected over the variants of the family."""


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """How the runs of a family left the plateau of word frequencies."""

    family: Family
    word_frequency_loss: float
    threshold: float | None
    """A run below this loss has left, in nats; None where none has come far."""
    tokens: float
    """Of the whole training, mean over runs."""
    departures: tuple[Departure, ...]
    explained: float | None
    """Share of the variance of final losses that leaving later and so ending higher accounts for: r² with the
    logarithm of the tokens, those that did not leave counted at the end; 0 where those that left later end
    lower. None for fewer than three runs, where no run was seen leaving, or without variance."""
    leads: tuple[Lead, ...]
    """Of the variants all of whose runs, like the baseline's, were seen leaving; two runs or more each."""

    @property
    def left(self) -> list[Departure]:
        """The runs that left, the first one first."""
        return sorted((x for x in self.departures if x.tokens is not None), key=lambda x: x.tokens or 0.0)

    @property
    def spread(self) -> float:
        """From the first to the last to leave, as a share of the training."""
        left = [x.tokens for x in self.left if x.tokens is not None]
        return (left[-1] - left[0]) / self.tokens if left else 0.0

    @property
    def is_early(self) -> bool:
        """Whether every run left early in the training."""
        tokens = [x.tokens for x in self.departures]
        return all(x is not None and x < EARLY * self.tokens for x in tokens)

    @property
    def is_about_speed(self) -> bool:
        """Whether final losses of the family say who left first rather than where a variant ends."""
        if len(self.left) < len(self.departures):
            return True
        is_spread = self.spread >= LEAST_SPREAD and not self.is_early
        return is_spread and (self.explained or 0.0) >= SPEED_EXPLAINS


def find_plateau(
    family: Family, finished: Sequence[RunFacts], variants: Sequence[Level], confidence: float
) -> Plateau | None:
    """Find when the finished runs of a family left the plateau.

    Args:
        family: The family.
        finished: Its finished runs.
        variants: Those compared, the baseline first.
        confidence: Level of the intervals.

    Returns:
        None where no run tells what the frequencies score.
    """
    known = [run for run in finished if run.word_frequency_loss is not None and _axis(run) is not None]
    if not known:
        return None
    of_frequencies = float(np.median([run.word_frequency_loss for run in known]))  # type: ignore[bad-argument-type]
    best = min(_losses(run)[-1] for run in known)
    threshold = None
    if best <= (1 - LEAST_FALL) * of_frequencies:
        threshold = of_frequencies - SHARE_OF_THE_WAY * (of_frequencies - best)
    departures = tuple(_departure(run, threshold) for run in known)
    ends = [_places(run)[-1] for run in known]
    return Plateau(
        family=family,
        word_frequency_loss=of_frequencies,
        threshold=threshold,
        tokens=float(np.mean(ends)),
        departures=departures,
        explained=_explained(departures, ends, [_losses(run)[-1] for run in known]),
        leads=tuple(_leads(family, departures, variants, confidence)),
    )


def _leads(
    family: Family, departures: Sequence[Departure], variants: Sequence[Level], confidence: float
) -> Iterable[Lead]:
    """Compare the logarithms of when runs left, each variant's with the baseline's."""
    logs = {}
    for variant in variants:
        runs = [x for x in departures if x.variant == variant]
        tokens = [x.tokens for x in runs if x.tokens is not None and not x.had_left]
        if len(tokens) == len(runs) > 1:
            logs[variant] = np.log(tokens)
    compared = [name for name in variants[1:] if name in logs] if variants[0] in logs else []
    arms = [
        difference_curve(logs[name][:, None], logs[variants[0]][:, None], confidence) for name in compared
    ]
    p_values = [float(arm.p[0]) for arm in arms]
    if not p_values or np.isnan(p_values).any():
        return
    for variant, arm, p, p_corrected in zip(compared, arms, p_values, Holm().adjust(p_values), strict=True):
        ratio, low, high = (float(np.exp(x[0])) for x in (arm.estimate, arm.low, arm.high))
        yield Lead(
            family=family,
            variant=variant,
            ratio=ratio,
            low=low,
            high=high,
            p=p,
            p_corrected=p_corrected or 0.0,
        )


def _departure(run: RunFacts, threshold: float | None) -> Departure:
    axis, tokens = _axis(run), None
    assert axis is not None
    if threshold is not None:
        place = float(first_below(axis, resample(_places(run), _losses(run), axis), threshold))
        tokens = None if np.isnan(place) else place
    return Departure(
        run_id=run.run_id,
        family=run.family,
        variant=run.variant,
        seed=run.seed,
        tokens=tokens,
        had_left=tokens == axis[0],
    )


def _explained(
    departures: Sequence[Departure], ends: Sequence[float], losses: Sequence[float]
) -> float | None:
    """Squared correlation of final losses with the logarithm of when runs left; 0 where later ends lower."""
    tokens = [x.tokens or end for x, end in zip(departures, ends, strict=True)]
    is_seen = not all(x.had_left or x.tokens is None for x in departures)
    if len(tokens) < 3 or not is_seen or np.ptp(tokens) == 0 or np.ptp(losses) == 0:
        return None
    return float(max(0.0, np.corrcoef(np.log(tokens), losses)[0, 1]) ** 2)


def _axis(run: RunFacts) -> np.ndarray | None:
    places = _places(run)
    is_usable = len(places) > 1 and (np.diff(places) > 0).all()
    return np.geomspace(places[0], places[-1], NUM_PLACES) if is_usable else None


def _places(run: RunFacts) -> list[float]:
    return [x.tokens for x in run.curve if x.tokens]


def _losses(run: RunFacts) -> list[float]:
    return [x.loss for x in run.curve if x.tokens]
