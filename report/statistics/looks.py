"""Interim analyses: p-values of a study that is tested several times while runs are added.

``looks.at(num_runs)`` is one look. It turns the p-value of the test made there into the sequential
p-value, the smallest level at which this look would have rejected (Liu and Anderson 2008), and a level into
that of the test made there. Corrections for several comparisons are made over sequential p-values, so that
each comparison spends its own local level (Maurer and Bretz 2013).

One-sided tests (the two of an equivalence) spend half of a symmetric two-sided plan: ``one_sided``.

Several looks together spend one level (Lan and DeMets 1983). A look is a test made while runs are still being
added. Its information is its number of runs in every arm,
n, over that of the last look planned. What may be spent by then, on each side, is O'Brien and Fleming's share
2 (1 - Phi(z / sqrt(information))). So early looks find overwhelming differences only, and the last one tests
at nearly the whole level.

The joint distribution of the looks is integrated numerically from each to the next (Armitage, McPherson and
Rowe 1969) for normal statistics with the correlation sqrt(u1 / u2) of two looks. Of means u is n. Of Welch's
t it is n - 1, the degrees of freedom: at few runs two t statistics agree less than their means do. With n in
its place looks at every n from 3 to 10 would be wrong in 5.1% of studies, simulation says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.special as special  # "from scipy" would load it where nothing is computed

from base.errors import UsageError

# A normal density is nothing beyond; 200 points between resolve looks that follow each other run by run.
_FAR = 9.0
_quadrature = lru_cache(maxsize=1)(lambda: np.polynomial.legendre.leggauss(200))
# The normal distribution's tail is zero in double precision a little farther out.
FARTHEST = 37.0


def obrien_fleming(information: float, level: float) -> float:
    """Return what of a two-sided level may be spent, half of it on each side, by an information of 0 to 1."""
    return float(4 * special.ndtr(special.ndtri(level / 4) / np.sqrt(min(information, 1.0))))


def boundaries(spent: Sequence[float], information: Sequence[float]) -> np.ndarray:
    """Return how far out a normal statistic must be at each look for the looks to spend just what they may.

    Args:
        spent: (K,) what may be spent by each look, both sides together, ascending.
        information: (K,) of the statistics, ascending: two have the correlation sqrt(u1 / u2).

    Returns:
        (K,) distances from 0, in standard errors.
    """
    # Looks at 3, 6 and 10 runs may have spent 0.0001, 0.008 and 0.05 of 0.05: the first look has a boundary
    # of its own, each further one spends what was added, by studies that crossed nothing before.
    distances = [min(float(-special.ndtri(spent[0] / 2)), FARTHEST)]
    points = _points(distances[0])
    mass = points[1] * np.exp(-(points[0] ** 2) / 2) / np.sqrt(2 * np.pi)
    for look in range(1, len(spent)):
        # Given the statistic z of the look before, this one is normal about correlation * z.
        correlation = np.sqrt(information[look - 1] / information[look])
        spread = np.sqrt(1 - correlation**2)
        centres = correlation * points[0]
        distances.append(_boundary(centres, mass, spread, spent[look] - spent[look - 1]))
        points = _points(distances[-1])
        steps = (points[0][:, None] - centres) / spread
        density = (mass * np.exp(-(steps**2) / 2)).sum(1) / spread / np.sqrt(2 * np.pi)
        mass = points[1] * density
    return np.array(distances)


def _points(bound: float) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of the quadrature between the two boundaries."""
    half, (points, weights) = min(bound, _FAR), _quadrature()
    return half * points, half * weights


def _boundary(centres: np.ndarray, mass: np.ndarray, spread: float, chance: float) -> float:
    """Find the boundary that a study not stopped yet crosses with probability ``chance``, two-sided.

    Its statistic is a mixture of normals with these centres, this mass and one spread.
    """

    def excess(bound: float) -> float:
        return float(2 * (mass * special.ndtr((centres - bound) / spread)).sum()) - chance

    if excess(0.0) <= 0:
        return 0.0
    if excess(FARTHEST) >= 0:
        return FARTHEST
    from scipy import optimize  # takes half a second

    return float(np.asarray(optimize.brentq(excess, 0.0, FARTHEST, xtol=1e-12)))


Plan = tuple[int, ...]
"""Numbers of runs in every arm, ascending."""
FEWEST = 2
"""Runs in every arm at a look: one has no spread."""
MOST_LOOKS = 30
# Levels between which nominal levels are interpolated, as distances of normal statistics: 1 to 1e-10.
_LEVELS = [0.05 * step for step in range(131)]
_LOWEST = math.erfc(_LEVELS[-1] / math.sqrt(2))  # of that distance; scipy is slow to load


def read_plan(value: Any, where: str) -> Plan | None:
    """Read looks as a study's file or a command line has them.

    Args:
        value: A list of numbers (or their digits); None or an empty list for none.
        where: A flag or a file's key that it stands in, for the error; empty where others name it.

    Raises:
        UsageError: For anything else.
    """
    values = list(value) if isinstance(value, list | tuple) else [] if value is None else [value]
    numbers = [int(x) if str(x).isdecimal() and len(str(x)) < 7 else 0 for x in values]
    if any(n < FEWEST for n in numbers) or numbers != sorted(set(numbers)) or len(numbers) > MOST_LOOKS:
        is_flag = where.startswith("--")
        raise UsageError(
            f"{where}{': ' if where else ''}{' '.join(map(str, values)) if is_flag else repr(value)} is no "
            f"plan; write at most {MOST_LOOKS} ascending numbers of runs in every arm, each at least "
            f"{FEWEST}, such as {'3 6 10' if is_flag else '[3, 6, 10]'}"
        )
    return tuple(numbers) or None


def one_sided(look: Look, p: float) -> float:
    """Return the sequential p-value of a one-sided test.

    A two-sided plan at twice the level spends the level on each side. What is left out is a statistic that
    crosses one side at one look and the other at a later one, which does not happen (below 1e-6 of studies).
    """
    # A p from 0.5 on lies on the other side of zero, where two-sided looks would take it for evidence.
    return p if p >= 0.5 else look.p(2 * p) / 2


@dataclass(frozen=True)
class OneLook:
    """No looks: the test is made once, and is its own look."""

    def at(self, num_runs: int) -> OneLook:
        """Return the only look."""
        return self

    def p(self, p: float) -> float:
        """Return p itself."""
        return p

    def nominal(self, level: float) -> float:
        """Return the level itself."""
        return level

    def runs_needed(self, needed: Callable[[float], int | None], level: float) -> int | None:
        """Return how many runs in every arm a test at the level needs."""
        return needed(level)


@dataclass(frozen=True)
class PlannedLooks:
    """Looks at numbers of runs in every arm that were named before the results.

    A planned look that was not made costs a little power and no error, as its share is not used. A look
    behind the last planned number counts as the last one: whoever looks there again adds to the level.
    """

    plan: tuple[int, ...]

    def at(self, num_runs: int) -> PlannedLook:
        """Return the look at a comparison whose smaller arm has so many runs."""
        return _planned(self.path(num_runs), self.plan[-1])

    def path(self, num_runs: int) -> tuple[int, ...]:
        """Return the looks up to this one: planned, and itself."""
        before = self.plan[:-1] if num_runs > self.plan[-1] else self.plan
        return (*(n for n in before if n < num_runs), num_runs)

    def runs_needed(self, needed: Callable[[float], int | None], level: float) -> int | None:
        """Return how many runs in every arm the last look needs, or a new study where the plan is too short.

        Args:
            needed: Returns the number for the level of one test; None for too many.
            level: Of all looks together, and of the only test of a new study.
        """
        last = self.plan[-1]
        runs = needed(self.at(last).nominal(level))
        if runs is not None and runs <= last:
            return runs
        runs = needed(level)
        return None if runs is None else max(runs, last + 1)


@dataclass(frozen=True, eq=False)
class PlannedLook:
    """One look: ``p(p) < level`` exactly where ``p < nominal(level)``.

    Levels stand as distances of a normal statistic: those of the study in ascending order, and that of the
    test made at this look for each.
    """

    levels: np.ndarray
    tests: np.ndarray

    def p(self, p: float) -> float:
        """Return the sequential p-value; never below ``p``."""
        distance = min(float(-special.ndtri(p / 2)), FARTHEST)
        return max(p, float(2 * special.ndtr(-np.interp(distance, self.tests, self.levels))))

    def nominal(self, level: float) -> float:
        """Return the level of the test made at this look."""
        if level < _LOWEST:
            return 0.0
        distance = float(-special.ndtri(level / 2))
        return min(level, float(2 * special.ndtr(-np.interp(distance, self.levels, self.tests))))


def nominal_levels(path: Sequence[int], last: int, level: float) -> np.ndarray:
    """Return the two-sided level of the test at each look of a path.

    Args:
        path: (K,) runs in every arm at each look, ascending, at least 2.
        last: Runs at the last look planned; from there on the whole level may be spent.
        level: Two-sided, of all looks together.
    """
    spent = [obrien_fleming(n / last, level) for n in path]
    return 2 * special.ndtr(-boundaries(spent, [n - 1 for n in path]))


@lru_cache(maxsize=256)
def _planned(path: tuple[int, ...], last: int) -> PlannedLook:
    """Tabulate the last look of a path."""
    nominal = [nominal_levels(path, last, float(2 * special.ndtr(-z)))[-1] for z in _LEVELS]
    distances = np.minimum(-special.ndtri(np.array(nominal) / 2), FARTHEST)
    return PlannedLook(np.array(_LEVELS), np.maximum.accumulate(np.maximum(distances, _LEVELS)))


Look = OneLook | PlannedLook
"""One look at a comparison, with ``p`` and ``nominal``."""
Looks = OneLook | PlannedLooks
"""When a study is looked at, with ``at``."""


def find_looks(plan: Plan | None) -> Looks:
    """Return the looks of a plan."""
    return OneLook() if plan is None else PlannedLooks(plan)
