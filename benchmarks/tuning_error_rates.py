"""How often a tuned study finds a difference that is none, and finds one that is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from base.command_line import parse_flags
from base.errors import run_cli
from base.sections import Section
from report.statistics.tuning_curves import chosen_places, fit_curves, moderated_noise, squared_regret
from report.statistics.welch import Welch, equivalence_p, welch

LEVEL = 0.05
MARGIN = 0.02
"""Of held-out loss, in nats."""
RATES = 7
GROUP = 3
"""Variants on each side of a contrast of groups."""
LATE = 0.3
THREEFOLD = float(np.log(3))


class TuningArgs(Section):
    """How often a tuned study finds a difference that is none, and finds one that is there.

        python -m benchmarks.tuning_error_rates

    Simulates studies of a baseline and its variants: a tuning on a grid of seven rates, a choice by the curve
    through its losses, runs at the chosen rate on seeds of their own, and what the report adds for the choice
    (``report.statistics``). Beside it stands the same with the choice of the lowest mean. Prints markdown;
    numbers are percentages of studies unless said.
    """

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
    the unigram plateau late."""
    unstable: float = 1.0
    """How many times as wide the last variant's runs spread."""
    uneven: float = 0.0
    """Standard deviation over variants of the logarithm of their spread."""
    growth: float = 1.0
    """How many times as wide runs spread from one rate to the next, about the best one."""
    correlation: float = 0.0
    """Of the tuning runs of a seed at two rates."""
    collapsed: float = 0.0
    """How much higher losses are at rates from one and a half steps above the best."""
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
        shape = self.cost * shape + self.collapsed * (off > 1.5 * (self.rates[1] - self.rates[0]))
        return shape + np.array([0.0, *self.truth])[:, None]

    def growths(self, optima: np.ndarray) -> np.ndarray:
        """(S, V, R) how many times as wide runs spread as at the best rate, from -2 to 3 steps off."""
        steps = (self.rates - optima[..., None]) / (self.rates[1] - self.rates[0])
        return self.growth ** np.clip(steps, -2, 3)

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
    def half_width(self) -> float:
        """Of the median interval, in nats."""
        return float(np.median(self.welch.high - self.welch.low)) / 2

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
    """What the ways of comparing find in the same studies."""

    shared: Found
    """All at the baseline's rate."""
    plain: Found
    """Each at its own, by Welch's test alone."""
    lowest: Found
    """Each at its lowest mean, with what the choice adds."""
    tuned: Found
    """Each at the choice by its curve, with what the choice adds."""
    regrets: tuple[float, float]
    """Root mean squares of what the choices of the lowest mean and by the curve miss, in nats."""
    group: np.ndarray
    """(S,) whether the mean of the first three variants is shown to differ from that of the next three."""


def simulate(setting: Setting, studies: int, rng: np.random.Generator) -> Studies:
    """Draw studies, tune each of their variants, and compare."""
    optima = setting.draw_optima(studies, rng)
    on_grid = setting.losses(optima, np.broadcast_to(setting.rates, (*optima.shape, RATES)))
    spreads = setting.draw_spreads(studies, rng) * setting.growths(optima)[..., None]
    alone = rng.standard_normal((*on_grid.shape, setting.tuning_seeds))
    common = rng.standard_normal((*optima.shape, 1, setting.tuning_seeds))
    share = setting.correlation
    tuning = on_grid[..., None] + spreads * (np.sqrt(1 - share) * alone + np.sqrt(share) * common)
    at = np.broadcast_to(setting.rates[:, None], tuning.shape)
    tuning = tuning + LATE * setting.is_late(optima, at, rng)
    lowest, chosen = tuning.mean(-1).argmin(-1), chosen_places(setting.rates, tuning)
    at_lowest, own, one = (
        np.take_along_axis(on_grid, places[..., None], -1)
        + np.take_along_axis(spreads[..., 0], places[..., None], -1)
        * rng.standard_normal((*chosen.shape, setting.seeds))
        + LATE * _late_at(setting, optima, places, rng)
        for places in (lowest, chosen, np.repeat(chosen[:, :1], setting.variants, axis=1))
    )
    one[:, 0] = own[:, 0]  # the baseline's runs are the same
    (of_lowest, df), (added, _) = (
        _what_the_choice_adds(setting, tuning, places, runs)
        for places, runs in ((lowest, at_lowest), (chosen, own))
    )
    nothing = np.zeros_like(added)
    weights = np.zeros(setting.variants)
    weights[:GROUP], weights[GROUP : 2 * GROUP] = 1 / GROUP, -1 / GROUP
    means, variances = own.mean(-1), own.var(-1, ddof=1)
    return Studies(
        *(
            Found(_compare(runs, extra, df), setting.truth)
            for runs, extra in ((one, nothing), (own, nothing), (at_lowest, of_lowest), (own, added))
        ),
        regrets=(_regret(setting, on_grid, lowest), _regret(setting, on_grid, chosen)),
        group=welch(means, variances, setting.seeds, weights, added=added, added_df=df).p < LEVEL,
    )


def _regret(setting: Setting, on_grid: np.ndarray, places: np.ndarray) -> float:
    """Root mean square of true losses (S, V, R) at chosen places (S, V), above those at the best rates."""
    true = np.take_along_axis(on_grid, places[..., None], -1)[..., 0] - np.array([0.0, *setting.truth])
    return float(np.sqrt((true**2).mean()))


def _what_the_choice_adds(
    setting: Setting, tuning: np.ndarray, chosen: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, float]:
    """(S, V) variances as the report takes them, and their degrees of freedom."""
    at_best = np.take_along_axis(tuning, chosen[..., None, None], -2)[..., 0, :]
    parts = [(x.var(-1, ddof=1), x.shape[-1] - 1) for x in (at_best, own) if x.shape[-1] > 1]
    df = sum(of for _, of in parts)
    noise, df_of_noise = moderated_noise(sum(variance * of for variance, of in parts) / df, df)
    curves = fit_curves(setting.rates, tuning, chosen, noise, df_of_noise)
    return squared_regret(curves), float(df_of_noise[0, 0])


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
FINE = Setting(factor=1.4, tuning_seeds=2, seeds=5, cost=0.2)
"""As the standing table was tuned."""
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
    replace(FINE, unstable=5.0),
    FINE,
    replace(FINE, optima="between"),
    replace(FINE, late=0.3),
    replace(FINE, variants=40),
    replace(BASE, factor=2.0, tuning_seeds=2, seeds=5, late=0.3, cost=0.2, variants=40),
    *(
        replace(BASE, factor=2.0, tuning_seeds=2, seeds=seeds, uneven=1.0, variants=variants)
        for variants in (6, 40)
        for seeds in (2, 3, 5)
    ),
    replace(FINE, correlation=0.65),
    replace(FINE, correlation=0.65, variants=40),
    replace(FINE, growth=2.0),
    replace(FINE, growth=2.0, correlation=0.65),
    replace(FINE, growth=2.0, steeper=4.0),
    replace(FINE, steeper=4.0),
    replace(FINE, collapsed=0.3),
    replace(FINE, collapsed=3.0),
    replace(FINE, cost=0.0),
    replace(BASE, factor=2.0, tuning_seeds=2, seeds=5, steeper=2.0, spread=0.005),
    replace(BASE, factor=2.0, tuning_seeds=10, seeds=20, steeper=2.0, spread=0.01, optima="between"),
    replace(BASE, factor=2.0, tuning_seeds=5, seeds=12, steeper=-1.5, spread=0.01, optima="between"),
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
    curve = f"{setting.cost:g}" + (
        {0.0: "", 1.0: ", bent", -1.5: ", bent down"}.get(setting.steeper, ", a cliff")
    )
    curve += f", {setting.late:.0%} late" if setting.late else ""
    curve += f", one spreads {setting.unstable:g} times as far" if setting.unstable != 1 else ""
    curve += ", unlike spreads" if setting.uneven else ""
    curve += f", noise times {setting.growth:g} a rate" if setting.growth != 1 else ""
    curve += f", seeds correlate by {setting.correlation:g}" if setting.correlation else ""
    curve += f", collapsed by {setting.collapsed:g}" if setting.collapsed else ""
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
    args = parse_flags(TuningArgs, prog="python -m benchmarks.tuning_error_rates")
    rng = np.random.default_rng(args.generator_seed)
    both = [f"{what}{of}" for what in ("coverage", "half-width", "regret") for of in (", lowest", "")]
    header = [*WHAT, "shared", "own, Welch", "own, lowest", "own", "groups", "equivalent", *both]
    rows = []
    for setting in EQUAL:
        x = simulate(setting, args.studies // (2 if setting.variants > BASE.variants else 1), rng)
        found = [of.false_differences for of in (x.shared, x.plain, x.lowest, x.tuned)]
        found += [_percent(x.group), x.tuned.equivalent, x.lowest.coverage, x.tuned.coverage]
        rows.append([*_row(setting), *(f"{number:.1f}" for number in found), *_widths(x)])
    _print_table("Nothing differs at each one's own best.", header, rows)
    header = [*WHAT, "difference", "shared", "own, Welch", "own, lowest", "own", "equivalent", *both]
    for title, settings in (("All differ.", DIFFERENT), ("Alike at the shared rate.", REVERSED)):
        rows = []
        for setting in settings:
            x = simulate(setting, args.studies, rng)
            found = [of.true_differences for of in (x.shared, x.plain, x.lowest, x.tuned)]
            found += [x.tuned.equivalent, x.lowest.coverage, x.tuned.coverage]
            numbers = (f"{number:.1f}" for number in found)
            rows.append([*_row(setting), f"{setting.difference:g}", *numbers, *_widths(x)])
        _print_table(title, header, rows)


def _widths(studies: Studies) -> list[str]:
    widths = [found.half_width for found in (studies.lowest, studies.tuned)]
    return [f"{number:.4f}" for number in (*widths, *studies.regrets)]


if __name__ == "__main__":
    run_cli(main)
