"""How often what a report says across sizes is wrong: verdicts of trends, power laws, predictions.

    python -m benchmarks.scaling

Simulates studies over sizes whose truth is known, and prints markdown; every number is a percentage unless it
is said to be nats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

import numpy as np
import pandas as pd
from scipy import special
from tqdm import tqdm

from base.command_line import parse_flags
from base.errors import run_cli
from base.sections import Section
from benchmarks.tables import print_table
from eval.significance.statistics.scaling_laws import fit_power_law, law_interval, predict_largest
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
    laws: int = 200
    """The same about power laws, which take longer."""
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
    for i in range(len(trend.change.p)):
        yield trend_verdicts(trend.of(i), margin)


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
        for runs in args.runs:
            for sd in (0.01, 0.05):
                yield {"sizes": num_sizes, "n": runs, "spread (nats)": sd} | _law_row(
                    args, num_sizes, runs, sd
                )


def _law_row(args: ScalingArgs, num_sizes: int, runs: int, sd: float) -> dict[str, object]:
    """One entry: whether intervals hold the exponent and the error of the prediction its truth."""
    rng = np.random.default_rng([args.generator_seed, num_sizes, runs])
    sizes = PARAMETERS[:num_sizes]
    truth = [FLOOR + SCALE * size**-EXPONENT for size in sizes]
    held, exponents, held_errors, errors = [], [], [], []
    for _ in tqdm(range(args.laws), desc=f"{num_sizes} sizes, n = {runs}", leave=False, disable=None):
        losses = [loss + sd * rng.normal(size=runs) for loss in truth]
        low, high = law_interval(sizes, losses, attrgetter("exponent")) or (np.nan, np.nan)
        held.append(low <= EXPONENT <= high)
        exponents.append(float(fit_power_law(sizes, [x.mean() for x in losses]).exponent))
        predicted = predict_largest(sizes, losses)
        if predicted is not None and predicted.error_interval is not None:
            errors.append(predicted.error)
            held_errors.append(predicted.error_interval[0] <= 0 <= predicted.error_interval[1])
    middle, (low, high) = np.median(exponents), np.quantile(exponents, [0.025, 0.975])
    return {
        "exponent (truth 0.3)": f"{middle:.2f} ({low:.2f} to {high:.2f})",
        "interval holds it": _percent(held),
        "error of the prediction (nats)": f"{np.mean(errors):+.3f} ± {np.std(errors, ddof=1):.3f}",
        "its interval holds 0": _percent(held_errors),
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
