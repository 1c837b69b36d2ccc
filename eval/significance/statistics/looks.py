"""What a p-value is worth that is looked at several times while runs are added.

``looks.at(num_runs, df)`` is one look. It turns the p-value of the test made there into the sequential
p-value, the smallest level at which this look would have rejected (Liu and Anderson 2008), and a level into
that of the test made there. Corrections for several comparisons are made over sequential p-values, so that
each comparison spends its own local level (Maurer and Bretz 2013).

One-sided tests (the two of an equivalence) spend half of a symmetric two-sided plan: ``one_sided``.

Levels of the tests at several looks that together spend one level (Lan and DeMets 1983).

A look is a test made while runs are still being added. Its information is its number of runs in every arm,
n, over that of the last look planned. What may be spent by then, on each side, is O'Brien and Fleming's share
2 (1 - Phi(z / sqrt(information))). So early looks find overwhelming differences only, and the last one tests
at nearly the whole level.

The joint distribution of the looks is integrated numerically from each to the next (Armitage, McPherson and
Rowe 1969) for normal statistics with the correlation sqrt(u1 / u2) of two looks. Of means u is n. Of Welch's
t it is n - 1, the degrees of freedom: at few runs two t statistics agree less than their means do. With n in
its place looks at every n from 3 to 10 would be wrong in 5.1% of studies, simulation says.

A t-test that may be looked at after every run and stopped at any time.

The anytime-valid t-test of linear models (Lindon, Ham, Tingley and Bojinov 2022, arXiv 2210.08589). Under the
null hypothesis the Bayes factor of a normal prior on the standardised difference, with the right Haar prior
on mean and variance, is a nonnegative martingale that begins at 1. So it exceeds 1/level at any time in at
most ``level`` of studies (Ville 1939). With r = g / (g + n), nu degrees of freedom and the t statistic,

    G = sqrt(r) * ((1 + t^2/nu) / (1 + r t^2/nu))^((nu + 1) / 2)

and 1/G is the sequential p-value. It is exact for arms of equal variance that grow together. For Welch's t
with Satterthwaite's degrees of freedom simulation shows that it holds (docs/statistics.md, "Looks").
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
from scipy import optimize, special

from base.errors import UsageError

# A normal density is nothing beyond; 200 points between resolve looks that follow each other run by run.
_FAR = 9.0
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(200)
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
    found = [min(float(-special.ndtri(spent[0] / 2)), FARTHEST)]
    points = _points(found[0])
    mass = points[1] * np.exp(-(points[0] ** 2) / 2) / np.sqrt(2 * np.pi)
    for look in range(1, len(spent)):
        correlation = np.sqrt(information[look - 1] / information[look])
        spread = np.sqrt(1 - correlation**2)
        centres = correlation * points[0]
        found.append(_crossed(centres, mass, spread, spent[look] - spent[look - 1]))
        points = _points(found[-1])
        steps = (points[0][:, None] - centres) / spread
        density = (mass * np.exp(-(steps**2) / 2)).sum(1) / spread / np.sqrt(2 * np.pi)
        mass = points[1] * density
    return np.array(found)


def _points(bound: float) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of the quadrature between the two boundaries."""
    half = min(bound, _FAR)
    return half * _POINTS, half * _WEIGHTS


def _crossed(centres: np.ndarray, mass: np.ndarray, spread: float, chance: float) -> float:
    """Find what is crossed, on either side, with this chance by those who have crossed nothing before."""

    def excess(bound: float) -> float:
        return float(2 * (mass * special.ndtr((centres - bound) / spread)).sum()) - chance

    if excess(0.0) <= 0:
        return 0.0
    if excess(FARTHEST) >= 0:
        return FARTHEST
    return float(np.asarray(optimize.brentq(excess, 0.0, FARTHEST, xtol=1e-12)))


Plan = tuple[int, ...] | Literal["any"]
"""Numbers of runs in every arm, ascending; or at any time."""
FEWEST = 2
"""Runs in every arm at a look: one has no spread."""
MOST_LOOKS = 30
# Levels between which nominal levels are interpolated, as distances of normal statistics: 1 to 1e-10.
_LEVELS = np.linspace(0.0, 6.5, 131)
_LOWEST = float(2 * special.ndtr(-_LEVELS[-1]))


class Look(Protocol):
    """One look: p(p) < level exactly where p < nominal(level)."""

    def p(self, p: float) -> float:
        """Return the sequential p-value; never below ``p``."""
        ...

    def nominal(self, level: float) -> float:
        """Return the level of the test made at this look."""
        ...


class Looks(Protocol):
    """When a study is looked at."""

    def at(self, num_runs: int, df: float, claim: str = "") -> Look:
        """Return one look.

        Args:
            num_runs: Of the comparison's arms, the smallest number of runs.
            df: Degrees of freedom of its test.
            claim: What is compared, to tell at how many runs it was looked at before.
        """
        ...


def read_plan(value: Any, where: str) -> Plan | None:
    """Read looks as a study's file or a command line has them.

    Args:
        value: ``any``, or a list of numbers (or their digits); None or an empty list for none.
        where: A flag or a file's key that it stands in, for the error; empty where others name it.

    Raises:
        UsageError: For anything else.
    """
    values = list(value) if isinstance(value, list | tuple) else [] if value is None else [value]
    if values == ["any"]:
        return "any"
    numbers = [int(x) if str(x).isdecimal() and len(str(x)) < 7 else 0 for x in values]
    if any(n < FEWEST for n in numbers) or numbers != sorted(set(numbers)) or len(numbers) > MOST_LOOKS:
        is_flag = where.startswith("--")
        raise UsageError(
            f"{where}{': ' if where else ''}{' '.join(map(str, values)) if is_flag else repr(value)} is no "
            f"plan; write at most {MOST_LOOKS} ascending numbers of runs in every arm, each at least "
            f"{FEWEST}, such as {'3 6 10' if is_flag else '[3, 6, 10]'}, or any"
        )
    return tuple(numbers) or None


def find_looks(plan: Plan | None, taken: Mapping[str, Collection[int]]) -> Looks:
    """Return the looks of a plan, with those made before of each claim."""
    if plan is None:
        return OneLook()
    return AnyLooks() if plan == "any" else PlannedLooks(plan, taken)


def one_sided(look: Look, p: float) -> float:
    """Return the sequential p-value of a one-sided test.

    A two-sided plan at twice the level spends the level on each side. What is left out is a statistic that
    crosses one side at one look and the other at a later one, which does not happen (below 1e-6 of studies).
    """
    return p if p >= 0.5 else look.p(2 * p) / 2


@dataclass(frozen=True)
class OneLook:
    """No looks: the test is made once, and is its own look."""

    def at(self, num_runs: int, df: float, claim: str = "") -> Look:
        """Return the only look."""
        return self

    def p(self, p: float) -> float:
        """Return p itself."""
        return p

    def nominal(self, level: float) -> float:
        """Return the level itself."""
        return level


@dataclass(frozen=True)
class PlannedLooks:
    """Looks at numbers of runs in every arm that were named before the results.

    A planned look that was not made costs a little power and no error, as its share is not used. One that was
    made beside the plan is in ``taken``. A first look behind the last planned number counts as the last look.
    Any later one is made at the last look's level, which costs more than the level.
    """

    plan: tuple[int, ...]
    taken: Mapping[str, Collection[int]] = field(default_factory=dict)
    """Of each claim the numbers of runs at which a report was written before."""

    def at(self, num_runs: int, df: float, claim: str = "") -> Look:
        """Return a look; ``df`` is left to the t distribution."""
        return _planned(self.path(num_runs, claim), self.plan[-1])

    def path(self, num_runs: int, claim: str = "") -> tuple[int, ...]:
        """Return the looks up to this one: planned, made, and itself."""
        last, taken = self.plan[-1], self.taken.get(claim, ())
        if self.is_beyond(num_runs, claim):
            return self.path(min(n for n in taken if n >= last), claim)
        before = {*self.plan, *taken} - ({last} if num_runs > last else set())
        return (*sorted(n for n in before if FEWEST <= n < num_runs), num_runs)

    def is_beyond(self, num_runs: int, claim: str = "") -> bool:
        """Whether the plan's last look was made before, with fewer runs."""
        return any(self.plan[-1] <= n < num_runs for n in self.taken.get(claim, ()))


@dataclass(frozen=True)
class AnyLooks:
    """Looks at any time, as often as one likes, without an end."""

    def at(self, num_runs: int, df: float, claim: str = "") -> Look:
        """Return a look."""
        return _AnytimeLook(num_runs, df)


@dataclass(frozen=True)
class _AnytimeLook:
    num_runs: int
    df: float

    def p(self, p: float) -> float:
        return max(p, anytime_p(p, self.num_runs, self.df))

    def nominal(self, level: float) -> float:
        return min(level, anytime_level(level, self.num_runs, self.df))


@dataclass(frozen=True, eq=False)
class _Table:
    """A planned look: normal distances of ascending levels, and those of its test at each."""

    levels: np.ndarray
    tests: np.ndarray

    def p(self, p: float) -> float:
        distance = min(float(-special.ndtri(p / 2)), FARTHEST)
        return max(p, float(2 * special.ndtr(-np.interp(distance, self.tests, self.levels))))

    def nominal(self, level: float) -> float:
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
def _planned(path: tuple[int, ...], last: int) -> _Table:
    """Tabulate the last look of a path."""
    found = [nominal_levels(path, last, float(2 * special.ndtr(-z)))[-1] for z in _LEVELS]
    distances = np.minimum(-special.ndtri(np.array(found) / 2), FARTHEST)
    return _Table(_LEVELS, np.maximum.accumulate(np.maximum(distances, _LEVELS)))


MIXTURE = 0.3
"""g: how many runs in every arm weigh as much as the prior. Chosen once, for every study: at 5% the interval
is then the narrowest near 5 runs in every arm of one family, and within 3.5% of it from 4 to 10."""


def anytime_p(p: float, num_runs: int, df: float, mixture: float = MIXTURE) -> float:
    """Return the p-value that may be looked at after every run.

    Args:
        p: Two-sided, of the t-test at this number of runs.
        num_runs: In every arm.
        df: Degrees of freedom of the test.
        mixture: The prior's weight, in runs.
    """
    share = mixture / (mixture + num_runs)
    ratio = (_t(p, df) ** 2) / df
    # Far out the quotient is one over the share.
    inside = np.log(share) if np.isinf(ratio) else np.log1p(share * ratio) - np.log1p(ratio)
    log_p = -0.5 * np.log(share) + (df + 1) / 2 * inside
    return float(min(1.0, np.exp(log_p)))


def anytime_level(level: float, num_runs: int, df: float, mixture: float = MIXTURE) -> float:
    """Return the two-sided level of the t-test at this number of runs, the inverse of ``anytime_p``.

    Args:
        level: Of all looks together.
        num_runs: In every arm.
        df: Degrees of freedom.
        mixture: The prior's weight, in runs.

    Returns:
        The level; 0 where so few runs reject nothing.
    """
    share = mixture / (mixture + num_runs)
    quotient = np.exp((-2 * np.log(level) - np.log(share)) / (df + 1)) if level > 0 else np.inf
    if quotient * share >= 1:
        return 0.0
    t = np.sqrt(df * (quotient - 1) / (1 - quotient * share))
    return float(2 * special.stdtr(df, -t))


def _t(p: float, df: float) -> float:
    return float(-special.stdtrit(df, p / 2)) if p > 0 else np.inf
