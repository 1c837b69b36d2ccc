"""How often what a report says across sizes is wrong: verdicts of trends, and exponents of power laws.

    python -m benchmarks.scaling

Simulates studies over sizes whose truth is known, and prints markdown; every number is a percentage unless it
is said to be nats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import special, stats

from base.command_line import parse_flags
from base.errors import run_cli
from base.sections import Section
from benchmarks.tables import print_table
from eval.report.parts.sizes import FEWEST_SIZES, fit_power_law
from eval.significance.statistics.size_trends import (
    CHANGES_SIGN,
    GROWS,
    HOLDS,
    SHRINKS,
    SizeTrend,
    size_trend,
    trend_verdicts,
)

MARGIN = 2.0
"""In standard deviations over seeds."""
TRUTHS: Mapping[str, tuple[tuple[float, ...], set[str]]] = {
    "no difference at any size": ((0, 0, 0), {SHRINKS, GROWS, CHANGES_SIGN}),
    "the same difference of 5": ((5, 5, 5), {SHRINKS, GROWS, CHANGES_SIGN}),
    "from 5 to -5": ((5, 0, -5), {SHRINKS, GROWS, HOLDS}),
    "from 0 to 5": ((0, 2.5, 5), {SHRINKS, CHANGES_SIGN, HOLDS}),
    "from 5 to 0": ((5, 2.5, 0), {GROWS, CHANGES_SIGN, HOLDS}),
    "changes by the margin": ((5, 4, 3), {GROWS, CHANGES_SIGN, HOLDS}),
    "from 1 to -1, the margin apart": ((1, 0, -1), {SHRINKS, GROWS, HOLDS}),
}
"""Differences at three sizes, and what is false to say of them."""
SPREADS: Mapping[str, tuple[float, ...]] = {"equal": (1, 1, 1), "falls tenfold": (3, 1, 0.3)}
PARAMETERS = (1e5, 2.5e5, 6e5, 1.5e6, 4e6)
FLOOR, SCALE, EXPONENT = 1.5, 60.0, 0.3
"""3.4, 3.0, 2.6, 2.3 and 2.1 nats."""


class ScalingArgs(Section):
    """Simulate what is said across sizes."""

    studies: int = 1_000
    """Simulated studies for each entry about trends; of one variant, and of eight."""
    laws: int = 1_000
    """The same about power laws."""
    runs: tuple[int, ...] = (3, 6)
    """Runs of each variant at each size."""
    generator_seed: int = 0
    """Seed of the simulation."""


def draw_trends(
    rng: np.random.Generator,
    shape: tuple[int, int],
    truth: Sequence[float],
    spread: Sequence[float],
    runs: int,
) -> tuple[SizeTrend, np.ndarray]:
    """Trends of (studies, variants) against one baseline a study, and p of the weighted line beside them."""
    sd = np.asarray(spread)[:, None]
    baseline = rng.normal(size=(shape[0], 1, len(spread), runs)) * sd
    scores = rng.normal(size=(*shape, len(spread), runs)) * sd + np.asarray(truth, dtype=float)[:, None]
    arms = np.stack([scores, np.broadcast_to(baseline, scores.shape)], axis=-2)
    means, variances = arms.mean(-1), arms.var(-1, ddof=1)
    log_sizes = np.log([PARAMETERS[: len(truth)]])
    counts = np.full((1, len(truth), 2), runs)
    trend = size_trend(log_sizes, means[:, :, None], variances[:, :, None], counts)
    differences = means[..., 0] - means[..., 1]
    return trend, weighted_p(log_sizes[0], differences, variances.sum(-1) / runs, runs)


def weighted_p(x: np.ndarray, differences: np.ndarray, variances: np.ndarray, runs: int) -> np.ndarray:
    """Return p of the slope by weights of estimated precision, degrees of freedom those of all seeds."""
    weights = 1 / variances
    centred = x - (weights * x).sum(-1, keepdims=True) / weights.sum(-1, keepdims=True)
    square = (weights * centred**2).sum(-1)
    slope = (weights * centred * differences).sum(-1) / square
    return 2 * special.stdtr(2 * len(x) * (runs - 1), -np.abs(slope) * np.sqrt(square))


def study_verdicts(trend: SizeTrend, margin: float) -> Iterator[list[str]]:
    """Verdicts of one study after another, over its variants."""
    for study, variants in enumerate(trend.change.p):
        yield trend_verdicts([trend.of((study, variant)) for variant in range(len(variants))], margin)


def _trend_rows(args: ScalingArgs) -> Iterator[dict[str, object]]:
    for name, (truth, false) in TRUTHS.items():
        for spread_name, spread in SPREADS.items():
            for runs in args.runs:
                row: dict[str, object] = {"truth": name, "spread with size": spread_name, "n": runs}
                for variants in (1, 8):
                    rng = np.random.default_rng([args.generator_seed, runs, variants])
                    shape = (args.studies, variants)
                    trend, weighted = draw_trends(rng, shape, truth, spread, runs)
                    found = list(study_verdicts(trend, MARGIN))
                    many = "1 variant" if variants == 1 else f"{variants} variants"
                    row[f"false, {many}"] = _percent([bool(false & set(x)) for x in found])
                    if variants == 1:
                        row["said"] = _most_said([x[0] for x in found])
                        changes = truth[0] != truth[-1]
                        row["false by weights of precision"] = "" if changes else _percent(weighted < 0.05)
                yield row


def _most_said(verdicts: list[str]) -> str:
    counts = pd.Series(verdicts).value_counts(normalize=True)
    return ", ".join(f"{name} {100 * share:.0f}" for name, share in counts.items() if share >= 0.05)


def _law_rows(args: ScalingArgs) -> Iterator[dict[str, object]]:
    for num_sizes in (3, 4, 5):
        for spread_name, spread in (("equal", np.ones(num_sizes)), ("falls tenfold", _falling(num_sizes))):
            for runs in args.runs:
                for sd in (0.01, 0.05):
                    row = {
                        "sizes": num_sizes,
                        "spread with size": spread_name,
                        "n": runs,
                        "spread (nats)": f"{sd:g}",
                    }
                    yield row | _law_row(args, num_sizes, runs, sd * spread)


def _falling(num_sizes: int) -> np.ndarray:
    """Spreads that fall tenfold from the smallest size to the largest, 1 in the middle."""
    return np.geomspace(10**0.5, 10**-0.5, num_sizes)


def _law_row(args: ScalingArgs, num_sizes: int, runs: int, spread: np.ndarray) -> dict[str, object]:
    """One entry: whether the exponent is determined, and whether its standard error is large enough."""
    rng = np.random.default_rng([args.generator_seed, num_sizes, runs])
    sizes = np.repeat(PARAMETERS[:num_sizes], runs)
    truth, sd = FLOOR + SCALE * sizes**-EXPONENT, np.repeat(spread, runs)
    reach = stats.t.ppf(0.975, len(sizes) - FEWEST_SIZES)
    laws = [fit_power_law(sizes, truth + sd * rng.normal(size=len(sizes))) for _ in range(args.laws)]
    determined = [law for law in laws if law is not None]
    exponents = [law.exponent for law in determined]
    middle, low, high = np.quantile(exponents, [0.5, 0.025, 0.975])
    return {
        "determined": _percent([law is not None for law in laws]),
        "exponent (truth 0.3)": f"{middle:.2f} ({low:.2f} to {high:.2f})",
        "t times its standard error holds it": _percent(
            [bool(abs(law.exponent - EXPONENT) <= reach * law.exponent_error) for law in determined]
        ),
    }


def _percent(values: Sequence[bool] | np.ndarray) -> str:
    return f"{100 * np.mean(values):.1f}"


def main() -> None:
    """Print the tables as markdown."""
    args = parse_flags(ScalingArgs, prog="python -m benchmarks.scaling", description=__doc__)
    print_table("Trends over three sizes", _trend_rows(args))
    print_table("Power laws", _law_rows(args))


if __name__ == "__main__":
    run_cli(main)
