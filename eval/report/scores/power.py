"""How many seeds a comparison needs, at the spread that was seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eval.significance.arms import ArmTable, Sample
from eval.significance.axes import Family
from eval.significance.compare import margins_of
from eval.significance.comparison import Comparison, Inference
from eval.significance.statistics.power import (
    POWER,
    minimum_detectable_effect,
    runs_to_detect,
    runs_to_show_equivalence,
)


@dataclass(frozen=True, kw_only=True)
class Power:
    """What a comparison finds with 80% power, at the level of its interval.

    Differences are in the comparison's unit, seeds are those of every arm. None: no number, or more seeds
    than are looked for.
    """

    comparison: Comparison
    sd: float
    """Within arms over seeds: the root of the mean variance."""
    detectable: float | None
    """The smallest true difference that is found with as many seeds as there are."""
    seeds_to_detect: int | None
    """To find a true difference as large as the one seen."""
    seeds_for_equivalence: int | None
    """To show equivalence at the margin, in every family and by itself, where there is no difference."""

    @property
    def seeds(self) -> int | None:
        """To reach a verdict: the difference seen is found, or, if within the margin, equivalence shown."""
        found = [self.seeds_to_detect]
        margin, estimate = self.comparison.margin, self.comparison.estimate
        if margin is not None and estimate is not None and abs(estimate) < margin:
            found.append(self.seeds_for_equivalence)
        return min((seeds for seeds in found if seeds is not None), default=None)


def power_of(arms: ArmTable, comparison: Comparison, inference: Inference, num_tests: int) -> Power:
    """Work out what an estimable comparison would need, its arms' variances being the true ones.

    Args:
        arms: All runs of its outcome.
        comparison: What was found.
        inference: Level and pairing.
        num_tests: Among how many it is corrected, where its interval has no level.
    """
    contrast, is_relative = comparison.contrast, comparison.is_relative
    scaled = arms.logarithms if is_relative else arms
    sample = scaled.sample(contrast, comparison.families, inference.paired)
    variances = [noise.variance for noise in sample.noises]
    effect = abs(float(np.dot(sample.weights, [arm.mean() for arm in sample.arms])))
    level = comparison.level_simultaneous or inference.level / num_tests
    detectable = minimum_detectable_effect(comparison.standard_error or 0.0, comparison.df or 0.0, 1 - level)
    return Power(
        comparison=comparison,
        sd=percent_or_own(math.sqrt(np.mean(variances)), is_relative),
        detectable=None if detectable is None else percent_or_own(detectable, is_relative),
        seeds_to_detect=runs_to_detect(effect, variances, sample.weights, level, choice=sample.choice),
        seeds_for_equivalence=_seeds_for_equivalence(
            sample, margins_of(arms, contrast, comparison.families), inference.level
        ),
    )


def _seeds_for_equivalence(
    sample: Sample, margins: Mapping[Family, float] | None, level: float
) -> int | None:
    """Find how many seeds show equivalence in every family, which that of the average asks for."""
    if margins is None:
        return None
    power, needed = equivalence_power_each(len(margins)), []
    for family, margin in margins.items():
        own = sample.of_family(family)
        variances = [noise.variance for noise in own.noises]
        needed.append(runs_to_show_equivalence(margin, variances, own.weights, level, power, own.choice))
    known = [seeds for seeds in needed if seeds is not None]
    return max(known) if len(known) == len(needed) else None


def equivalence_power_each(num_families: int) -> float:
    """Return the power in each family with which all of them pass at the usual power."""
    return POWER ** (1 / num_families)


def percent_or_own(size: float, is_relative: bool) -> float:
    """Return a difference of 100 times logarithms in percent; any other as it is."""
    return 100 * math.expm1(size / 100) if is_relative else size
