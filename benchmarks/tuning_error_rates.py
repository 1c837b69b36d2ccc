"""How often a tuned study finds a difference that is none, and finds one that is there.

    python -m benchmarks.tuning_error_rates

Simulates studies of a baseline and its variants: a tuning on a grid of seven rates, the choice of the lowest
mean, runs at the chosen rate on seeds of their own, and the report's rule (``eval.significance.statistics``).
Prints markdown; numbers are percentages of studies unless said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from base.command_line import parse_flags
from base.errors import run_cli
from base.sections import Section
from eval.significance.statistics.all_pairs import told_apart
from eval.significance.statistics.equivalence import equivalence_p
from eval.significance.statistics.tuning import lowest, moderated_noise
from eval.significance.statistics.welch import Welch, welch

LEVEL = 0.05
MARGIN = 0.02
"""Of held-out loss, in nats."""
RATES = 7
GROUP = 3
"""Variants on each side of a contrast of groups."""
DRAWS = 200
"""For each variant of a study, of what its choice adds, in place of the report's integral over the same."""
LATE = 0.3
THREEFOLD = float(np.log(3))


class TuningArgs(Section):
    """Simulate tuned studies."""

    studies: int = 1_000
    """Simulated studies for each row."""
    generator_seed: int = 0
    """Seed of the simulation."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Studies of one kind; losses and their spread in nats."""

    variants: int = 6
    """The baseline is one of them."""
    factor: float = 3.0
    """From one rate of the grid to the next."""
    tuning_seeds: int = 3
    seeds: int = 6
    """Of the main runs."""
    cost: float = 0.05
    """What a threefold wrong rate costs."""
    spread: float = 0.02
    """Standard deviation of runs over seeds."""
    optima: str = "anywhere"
    """Where the best rates lie: ``anywhere`` among the middle three rates; ``between`` two rates, but that of
    the baseline on one; ``threefold`` above the baseline's, which lies anywhere, or ``threefold from a rate``
    of the grid."""
    steeper: float = 0.0
    """How the curve bends: its second derivative is exp(this) times as large a threefold higher."""
    late: float = 0.0
    """Share of the runs at higher rates than the best that end ``LATE`` nats higher, as those do that leave
    the plateau of word frequencies late."""
    unstable: float = 1.0
    """How many times as wide the last variant's runs spread."""
    uneven: float = 0.0
    """Standard deviation over variants of the logarithm of their spread."""
    difference: float = 0.0
    """The true one of every variant to the baseline, each at its own best."""

    @property
    def truth(self) -> np.ndarray:
        """(V - 1,) differences."""
        return np.full(self.variants - 1, self.difference)

    def draw_spreads(self, studies: int, rng: np.random.Generator) -> np.ndarray:
        """(S, V, 1, 1) of each variant's runs."""
        found = np.exp(self.uneven * rng.standard_normal((studies, self.variants)))
        found[:, -1] *= self.unstable
        return self.spread * found[..., None, None]

    @property
    def rates(self) -> np.ndarray:
        """(R,) logarithms, in threefolds."""
        return (np.arange(RATES) - RATES // 2) * np.log(self.factor) / THREEFOLD

    def draw_optima(self, studies: int, rng: np.random.Generator) -> np.ndarray:
        """(S, V) places of the best rates, in threefolds."""
        step = self.rates[1] - self.rates[0]
        if self.optima == "between":
            return np.tile([0.0] + [step / 2] * (self.variants - 1), (studies, 1))
        found = rng.uniform(-1.5, 1.5, (studies, self.variants)) * step
        if self.optima.startswith("threefold"):
            found[:] = 0.0 if self.optima.endswith("rate") else rng.uniform(-1, 0, (studies, 1)) * step
            found[:, 1:] += 1.0
        return found

    def losses(self, optima: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """(S, V, ...) true losses at rates (S, V, ...), in threefolds; zero at the baseline's best."""
        off = rates - optima[..., None]
        bent = self.steeper
        shape = off**2 if not bent else 2 * (np.expm1(bent * off) - bent * off) / bent**2
        return self.cost * shape + np.array([0.0, *self.truth])[:, None]

    def is_late(self, optima: np.ndarray, rates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(S, V, R, n) which runs at rates (S, V, R, n), in threefolds, leave the plateau late."""
        step = self.rates[1] - self.rates[0]
        is_high = rates > optima[..., None, None] + step / 2 + 1e-9  # half a step above is not higher
        return is_high & (rng.random(rates.shape) < self.late)


@dataclass(frozen=True)
class Found:
    """What studies find of every variant against the baseline; arrays are (S, V - 1)."""

    welch: Welch
    truth: np.ndarray

    @property
    def is_shown(self) -> np.ndarray:
        """Whether Holm's correction over all variants of a study shows a difference."""
        order = np.argsort(self.welch.p, -1)
        ordered = np.take_along_axis(self.welch.p, order, -1)
        number = ordered.shape[-1]
        is_below = np.logical_and.accumulate(ordered < LEVEL / (number - np.arange(number)), -1)
        return np.take_along_axis(is_below, np.argsort(order, -1), -1)

    @property
    def false_differences(self) -> float:
        """Percentage of studies that show one where there is none, or with the wrong sign."""
        is_right = self.welch.estimate * self.truth > 0
        return _percent((self.is_shown & ~is_right).any(-1))

    @property
    def true_differences(self) -> float:
        """Percentage of variants that differ which are shown to."""
        return _percent(self.is_shown[:, self.truth != 0])

    @property
    def coverage(self) -> float:
        """Percentage of single 95% intervals that hold the truth, of the variant where they do it least."""
        return _percent(((self.welch.low <= self.truth) & (self.truth <= self.welch.high)).mean(0).min())

    @property
    def equivalent(self) -> float:
        """Percentage of variants called equivalent, each by itself."""
        found = self.welch
        p = equivalence_p(found.estimate, found.standard_error, found.df, MARGIN, found.regret)
        return _percent(p < LEVEL)


def _percent(values: ArrayLike) -> float:
    found = np.asarray(values, dtype=float)
    return 100 * float(found.mean()) if found.size else float("nan")


@dataclass(frozen=True)
class Studies:
    """What the three ways of comparing find in the same studies."""

    shared: Found
    """All at the baseline's rate."""
    plain: Found
    """Each at its own, by Welch's test alone."""
    tuned: Found
    """Each at its own, with what the choice adds."""
    any_pair: np.ndarray
    """(S,) whether the order of all variants tells any two apart."""
    group: np.ndarray
    """(S,) whether the mean of the first three variants is shown to differ from that of the next three."""

    @property
    def wider(self) -> float:
        """How many times as wide the interval is for what the choice adds, in the median comparison."""
        return float(np.median(self.tuned.welch.standard_error / self.plain.welch.standard_error))


def simulate(setting: Setting, studies: int, rng: np.random.Generator) -> Studies:
    """Draw studies, tune each of their variants, and compare."""
    optima = setting.draw_optima(studies, rng)
    on_grid = setting.losses(optima, np.broadcast_to(setting.rates, (*optima.shape, RATES)))
    spreads = setting.draw_spreads(studies, rng)
    tuning = on_grid[..., None] + spreads * rng.standard_normal((*on_grid.shape, setting.tuning_seeds))
    at = np.broadcast_to(setting.rates[:, None], tuning.shape)
    tuning = tuning + LATE * setting.is_late(optima, at, rng)
    of_rates = tuning.mean(-1)
    chosen = of_rates.argmin(-1)
    own, one = (
        np.take_along_axis(on_grid, places[..., None], -1)
        + spreads[..., 0] * rng.standard_normal((*chosen.shape, setting.seeds))
        + LATE * _late_at(setting, optima, places, rng)
        for places in (chosen, np.repeat(chosen[:, :1], setting.variants, axis=1))
    )
    one[:, 0] = own[:, 0]  # the baseline's runs are the same
    noise, df = _noise(tuning, chosen, own)
    error = np.sqrt(noise / setting.tuning_seeds)[..., None]
    added = drawn_variance(setting.rates, of_rates, error, df[0, 0], chosen, rng)
    nothing = np.zeros_like(added)
    means, variances = own.mean(-1), own.var(-1, ddof=1)
    any_pair = [
        told_apart(mean, variance, setting.seeds, LEVEL, added=more, added_df=df[0, 0]).any()
        for mean, variance, more in zip(means, variances, added, strict=True)
    ]
    weights = np.zeros(setting.variants)
    weights[:GROUP], weights[GROUP : 2 * GROUP] = 1 / GROUP, -1 / GROUP
    return Studies(
        *(
            Found(_compare(runs, extra, df[0, 0]), setting.truth)
            for runs, extra in ((one, nothing), (own, nothing), (own, added))
        ),
        any_pair=np.array(any_pair),
        group=welch(means, variances, setting.seeds, weights, added=added, added_df=df[0, 0]).p < LEVEL,
    )


def drawn_variance(
    rates: ArrayLike,
    means: np.ndarray,
    error: np.ndarray,
    df: float,
    chosen: np.ndarray,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> np.ndarray:
    """(...) what ``added_variance`` integrates, as a mean over random draws.

    Args:
        rates: (R,) logarithms.
        means: (..., R) over tuning seeds.
        error: (..., 1) standard errors of the means.
        df: Their degrees of freedom, above 2.
        chosen: (...) places of the chosen rates.
        rng: Random numbers.
        draws: How many.
    """
    scale = np.sqrt(df / rng.chisquare(df - 2, draws)).reshape(-1, *[1] * means.ndim)
    drawn = means / (scale * error) + rng.standard_normal((draws, *means.shape))
    places = np.broadcast_to(chosen, drawn.shape[:-1])[..., None]
    regret = np.take_along_axis(drawn, places, -1)[..., 0] - lowest(rates, drawn).loss
    return df / (df - 2) * error[..., 0] ** 2 * (regret**2).mean(0)


def _noise(tuning: np.ndarray, chosen: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S, V) variances over seeds as the report takes them, and their degrees of freedom."""
    at_best = np.take_along_axis(tuning, chosen[..., None, None], -2)[..., 0, :]
    parts = [(x.var(-1, ddof=1), x.shape[-1] - 1) for x in (at_best, own) if x.shape[-1] > 1]
    df = sum(of for _, of in parts)
    return moderated_noise(sum(variance * of for variance, of in parts) / df, df)


def _late_at(
    setting: Setting, optima: np.ndarray, places: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """(S, V, n) which of the main runs are late."""
    at = np.broadcast_to(setting.rates[places][..., None, None], (*places.shape, 1, setting.seeds))
    return setting.is_late(optima, at, rng)[:, :, 0]


def _compare(runs: np.ndarray, added: np.ndarray, df: float) -> Welch:
    """Compare every variant with the baseline; runs are (S, V, n)."""

    def pairs(arms: np.ndarray) -> np.ndarray:
        return np.stack([arms[:, 1:], np.repeat(arms[:, :1], arms.shape[1] - 1, 1)], -1)

    means, variances, extra = map(pairs, (runs.mean(-1), runs.var(-1, ddof=1), added))
    counts = np.full(2, runs.shape[-1])
    return welch(means, variances, counts, [1.0, -1.0], added=extra, added_df=df)


BASE = Setting()
EQUAL: tuple[Setting, ...] = (
    BASE,
    replace(BASE, optima="between"),
    replace(BASE, factor=2.0),
    replace(BASE, factor=10**0.5, optima="between"),
    replace(BASE, tuning_seeds=2),
    replace(BASE, tuning_seeds=5),
    replace(BASE, seeds=3),
    replace(BASE, tuning_seeds=2, seeds=12),
    replace(BASE, spread=0.005),
    replace(BASE, spread=0.005, optima="between"),
    replace(BASE, spread=0.005, factor=2.0, optima="between"),
    replace(BASE, spread=0.05),
    replace(BASE, spread=0.05, factor=10**0.5, optima="between"),
    replace(BASE, cost=0.005),
    replace(BASE, cost=0.2),
    replace(BASE, cost=0.2, spread=0.05, tuning_seeds=5, optima="between"),
    replace(BASE, steeper=1.0),
    replace(BASE, steeper=1.0, optima="between"),
    replace(BASE, steeper=1.0, factor=10**0.5, spread=0.005, optima="between"),
    replace(BASE, steeper=1.0, factor=2.0, spread=0.01, tuning_seeds=5, seeds=12, optima="between"),
    replace(BASE, factor=2.0, tuning_seeds=2, seeds=5, late=0.3),
    replace(BASE, factor=2.0, tuning_seeds=2, seeds=5, late=0.3, cost=0.2),
    replace(BASE, factor=2.0, late=0.5, optima="between"),
    replace(BASE, optima="threefold"),
    replace(BASE, optima="threefold", factor=2.0, spread=0.005),
    replace(BASE, unstable=5.0),
    replace(BASE, unstable=5.0, factor=1.4, tuning_seeds=2, seeds=5, cost=0.2),
    replace(BASE, factor=1.4, tuning_seeds=2, seeds=5, cost=0.2),
    replace(BASE, factor=1.4, tuning_seeds=2, seeds=5, cost=0.2, optima="between"),
    replace(BASE, factor=1.4, tuning_seeds=2, seeds=5, late=0.3, cost=0.2),
    replace(BASE, factor=1.4, tuning_seeds=2, seeds=5, cost=0.2, variants=40),
    replace(BASE, factor=2.0, tuning_seeds=2, seeds=5, late=0.3, cost=0.2, variants=40),
    *(
        replace(BASE, factor=2.0, tuning_seeds=2, seeds=seeds, uneven=1.0, variants=variants)
        for variants in (6, 40)
        for seeds in (2, 3, 5)
    ),
)
DIFFERENT: tuple[Setting, ...] = tuple(
    replace(BASE, spread=spread, factor=factor, difference=difference)
    for spread, differences in ((0.005, (-0.01, -0.02, -0.04)), (0.02, (-0.02, -0.04, -0.08)))
    for factor in (2.0, 3.0)
    for difference in differences
) + tuple(
    replace(at, optima="between", difference=-MARGIN)
    for at in (
        replace(BASE, spread=0.003, cost=0.01),
        replace(BASE, spread=0.003, factor=2.0, cost=0.02, tuning_seeds=10, seeds=10),
        replace(BASE, spread=0.005, cost=0.01, tuning_seeds=10, seeds=12),
    )
)
REVERSED: tuple[Setting, ...] = tuple(
    replace(BASE, spread=spread, optima="threefold from a rate", difference=-0.05)
    for spread in (0.005, 0.01, 0.02)
)
"""Better at their own best by what a threefold wrong rate costs: alike at the baseline's, a rate of the grid.
"""


def _row(setting: Setting) -> list[str]:
    factor = f"{setting.factor:.3g}"
    curve = f"{setting.cost:g}" + (", bent" if setting.steeper else "")
    curve += f", {setting.late:.0%} late" if setting.late else ""
    curve += f", one spreads {setting.unstable:g} times as far" if setting.unstable != 1 else ""
    curve += ", unlike spreads" if setting.uneven else ""
    curve += f", {setting.variants} variants" if setting.variants != BASE.variants else ""
    numbers = (setting.tuning_seeds, setting.seeds, curve, f"{setting.spread:g}", setting.optima)
    return [factor, *map(str, numbers)]


WHAT = ("factor", "tuning seeds", "seeds", "cost of threefold", "spread", "optima")


def _print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}\n")
    for row in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(row) + " |", flush=True)


def main() -> None:
    """Print the tables as markdown."""
    args = parse_flags(TuningArgs, prog="python -m benchmarks.tuning_error_rates", description=__doc__)
    rng = np.random.default_rng(args.generator_seed)
    header = [*WHAT, "shared", "own, Welch", "own", "pairs", "groups", "coverage", "equivalent", "wider"]
    rows = []
    for setting in EQUAL:
        x = simulate(setting, args.studies, rng)
        found = (x.shared.false_differences, x.plain.false_differences, x.tuned.false_differences)
        found += (_percent(x.any_pair), _percent(x.group))
        numbers = (*found, x.tuned.coverage, x.tuned.equivalent, x.wider)
        rows.append([*_row(setting), *(f"{number:.1f}" for number in numbers)])
    _print_table("Nothing differs at each one's own best.", header, rows)
    header = [*WHAT, "difference", "shared", "own, Welch", "own", "coverage", "equivalent"]
    for title, settings in (("All differ.", DIFFERENT), ("Alike at the shared rate.", REVERSED)):
        rows = []
        for setting in settings:
            x = simulate(setting, args.studies, rng)
            found = (x.shared.true_differences, x.plain.true_differences, x.tuned.true_differences)
            numbers = (*found, x.tuned.coverage, x.tuned.equivalent)
            difference = f"{setting.difference:g}"
            rows.append([*_row(setting), difference, *(f"{number:.1f}" for number in numbers)])
        _print_table(title, header, rows)


if __name__ == "__main__":
    run_cli(main)
