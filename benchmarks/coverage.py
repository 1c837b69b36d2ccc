"""How often the report's 95% intervals hold the true difference, and how often its verdicts are wrong.

    python -m benchmarks.coverage

Simulates studies, for each number of seeds and each shape of the spread over seeds. Beside Welch's interval
stand the report's studentized bootstrap, the percentile and the BCa bootstrap (Efron 1987), the source
study's, and what it costs to look at seven variants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from scipy import special, stats
from tqdm import tqdm

from base.command_line import parse_flags
from base.errors import run_cli
from base.sections import Section
from eval.significance.statistics.bootstrap import MIN_RUNS, ResampledArm, resample, studentized
from eval.significance.statistics.corrections import Holm
from eval.significance.statistics.equivalence import equivalence_p
from eval.significance.statistics.power import minimum_detectable_effect
from eval.significance.statistics.welch import Welch, welch

Sampler = Callable[[np.random.Generator, tuple[int, ...], int], np.ndarray]
NUM_VARIANTS = 8
Bootstrap = Literal["studentized", "percentile", "bca"]
FEWEST = {"studentized": MIN_RUNS, "percentile": 2, "bca": 2}
"""Runs that every arm needs."""


class CoverageArgs(Section):
    """Simulate the coverage of the report's intervals and the error rates of its verdicts."""

    studies: int = 20_000
    """Simulated studies for each cell of a table."""
    bootstrap_studies: int = 4_000
    """The same for the bootstraps, which are slower."""
    resamples: int = 2_000
    """Resamples of each bootstrap."""
    seeds: tuple[int, ...] = (3, 5, 6, 10)
    """Runs in every arm."""
    generator_seed: int = 0
    """Seed of the simulation."""


def bootstrap_interval(
    method: Bootstrap,
    arms: Sequence[np.ndarray],
    resampled: Sequence[ResampledArm],
    weights: Sequence[float],
    confidence: float,
) -> tuple[float, float] | None:
    """Return both ends of an interval for a weighted sum of arm means.

    Args:
        method: ``studentized``, ``percentile`` or ``bca``.
        arms: C arrays of run scores.
        resampled: What ``resample`` made of each.
        weights: (C,) contrast weights.
        confidence: Level of the two-sided interval.

    Returns:
        None where an arm has fewer runs than ``FEWEST`` or no arm has any spread.
    """
    if min(map(len, arms)) < FEWEST[method]:
        return None
    found = studentized(arms, resampled, weights)
    if found is None:
        return None
    if method == "studentized":
        return found.interval(1 - confidence)
    estimates = np.asarray(sum(w * r.means for w, r in zip(weights, resampled, strict=True)))
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        tails = _bca_tails(tails, found.estimate, estimates, arms, weights)
    low, high = np.quantile(estimates, tails)
    return float(low), float(high)


def _bca_tails(
    tails: np.ndarray,
    estimate: float,
    estimates: np.ndarray,
    arms: Sequence[np.ndarray],
    weights: Sequence[float],
) -> np.ndarray:
    """Shift the tails by the bias and the acceleration, the latter from the influence of every run."""
    below = ((estimates < estimate).mean() + (estimates <= estimate).mean()) / 2
    bias = special.ndtri(below)
    influence = [w * (c - c.mean()) / len(c) for w, c in zip(weights, arms, strict=True)]
    cubes, squares = (sum((x**power).sum() for x in influence) for power in (3, 2))
    shifted = bias + special.ndtri(tails)
    return special.ndtr(bias + shifted / (1 - cubes / (6 * squares**1.5) * shifted))


def normal(rng: np.random.Generator, shape: tuple[int, ...], arm: int) -> np.ndarray:
    """Equal spread in both arms."""
    return rng.normal(size=shape)


def unequal(rng: np.random.Generator, shape: tuple[int, ...], arm: int) -> np.ndarray:
    """Standard deviations 1 and 3."""
    return rng.normal(size=shape) * (1, 3)[arm]


def skewed(rng: np.random.Generator, shape: tuple[int, ...], arm: int) -> np.ndarray:
    """Gamma with shape 2, centred."""
    return rng.gamma(2.0, size=shape) - 2.0


def outliers(rng: np.random.Generator, shape: tuple[int, ...], arm: int) -> np.ndarray:
    """One run in twenty lies five times as far out."""
    return rng.normal(size=shape) * np.where(rng.random(shape) < 0.05, 5, 1)


SAMPLERS: dict[str, Sampler] = {
    "normal": normal,
    "standard deviations 1 and 3": unequal,
    "skewed (gamma, shape 2)": skewed,
    "one run in twenty five times as far out": outliers,
}

UNEQUAL_RUNS = ((2, 2), (2, 3), (2, 6), (2, 10), (3, 6), (3, 10), (5, 10))
UNEQUAL_SPREADS = {
    "equal spread": (1.0, 1.0),
    "spread 3 in the first": (3.0, 1.0),
    "spread 3 in the second": (1.0, 3.0),
}


def compare_arms(
    sampler: Sampler,
    runs: int,
    families: int,
    studies: int,
    rng: np.random.Generator,
    difference: float = 0.0,
) -> Welch:
    """Compare two arms averaged over families, the first better by ``difference``."""
    cells = np.stack([sampler(rng, (studies, runs), arm) for _ in range(families) for arm in (0, 1)], axis=1)
    cells[:, ::2] += difference
    weights = np.tile([1.0, -1.0], families) / families
    return welch(cells.mean(-1), cells.var(-1, ddof=1), np.full(2 * families, runs), weights)


def welch_coverage(found: Welch) -> float:
    """Return the percentage of intervals that hold the true difference, zero."""
    return 100 * float(((found.low <= 0) & (found.high >= 0)).mean())


def unequal_coverage(
    runs: tuple[int, int],
    spreads: tuple[float, float],
    families: int,
    studies: int,
    rng: np.random.Generator,
) -> tuple[float, float, float]:
    """Compare arms of so many runs and such spreads.

    Returns:
        Coverage of Welch's interval in percent, that with one degree of freedom less than the smallest arm
        has runs (Hsu 1938), and how many times as wide the latter is in the median study.
    """
    arms = [
        rng.normal(0, sd, (studies, n)) for _ in range(families) for n, sd in zip(runs, spreads, strict=True)
    ]
    means, variances = (
        np.stack(x, axis=1) for x in ([a.mean(1) for a in arms], [a.var(1, ddof=1) for a in arms])
    )
    weights = np.tile([1.0, -1.0], families) / families
    found = welch(means, variances, np.tile(runs, families), weights)
    half_width = found.standard_error * stats.t.ppf(0.975, min(runs) - 1)
    smallest = 100 * float((np.abs(found.estimate) <= half_width).mean())
    return welch_coverage(found), smallest, float(np.median(2 * half_width / (found.high - found.low)))


def bootstrap_coverage(
    method: Bootstrap, sampler: Sampler, runs: int, args: CoverageArgs, rng: np.random.Generator
) -> float | None:
    """Return the same for a bootstrap in one family; None where it needs more runs."""
    held = 0
    for _ in tqdm(range(args.bootstrap_studies), desc=f"{method}, {runs} seeds", leave=False, disable=None):
        cells = [sampler(rng, (runs,), arm) for arm in (0, 1)]
        resampled = [resample(cell, args.resamples, rng) for cell in cells]
        interval = bootstrap_interval(method, cells, resampled, [1.0, -1.0], 0.95)
        if interval is None:
            return None
        held += interval[0] <= 0 <= interval[1]
    return 100 * held / args.bootstrap_studies


def source_study_coverage(sampler: Sampler, runs: int, args: CoverageArgs, rng: np.random.Generator) -> float:
    """Return the same for the source study's bootstrap, which draws both arms with one generator state."""
    drawn = [np.random.RandomState(i).randint(0, runs, size=runs) for i in range(args.resamples)]
    held = 0
    for _ in range(args.bootstrap_studies):
        first, second = (sampler(rng, (runs,), arm) for arm in (0, 1))
        low, high = np.percentile((first - second)[drawn].mean(1), [2.5, 97.5])
        held += low <= 0 <= high
    return 100 * held / args.bootstrap_studies


def any_called_different(sampler: Sampler, runs: int, studies: int, rng: np.random.Generator) -> float:
    """Return the percentage of studies that call any of seven variants like their baseline different."""
    variants = np.stack([sampler(rng, (studies, NUM_VARIANTS - 1, runs), 0) for _ in range(2)], axis=2)
    baseline = np.stack([sampler(rng, (studies, 1, runs), 1) for _ in range(2)], axis=2)
    cells = np.concatenate([variants, baseline.repeat(NUM_VARIANTS - 1, axis=1)], axis=2)
    found = welch(cells.mean(-1), cells.var(-1, ddof=1), np.full(4, runs), [0.5, 0.5, -0.5, -0.5])
    wrong = [any(p < 0.05 for p in Holm().adjust(of_study.tolist()) if p is not None) for of_study in found.p]
    return 100 * float(np.mean(wrong))


def called_equivalent(
    sampler: Sampler, runs: int, families: int, margin: float, studies: int, rng: np.random.Generator
) -> float:
    """Return the percentage of studies that call a true difference as large as the margin equivalent."""
    found = compare_arms(sampler, runs, families, studies, rng, difference=margin)
    p = equivalence_p(found.estimate, found.standard_error, found.df, margin)
    return 100 * float((p < 0.05).mean())


def detectable(runs: int, families: int) -> float:
    """Return the smallest true difference found with 80% power, in standard deviations over seeds."""
    standard_error = np.sqrt(2 / runs / families)
    effect = minimum_detectable_effect(standard_error, 2 * families * (runs - 1))
    return float("nan") if effect is None else effect


def main() -> None:
    """Print the tables as markdown."""
    args = parse_flags(CoverageArgs, prog="python -m benchmarks.coverage", description=__doc__)
    rng = np.random.default_rng(args.generator_seed)
    header = [f"n = {runs}" for runs in args.seeds]
    _coverage_table(args, header, rng)
    _unequal_table(args, rng)
    _error_table(args, header, rng)
    _print_row("n", "one family", "average of two families")
    _print_row("---", "---", "---")
    for runs in (2, *args.seeds):
        _print_row(runs, *_rounded([detectable(runs, families) for families in (1, 2)]))


def _coverage_table(args: CoverageArgs, header: Sequence[str], rng: np.random.Generator) -> None:
    _print_row("method", "families", "scores", *header)
    _print_row(*["---"] * (3 + len(header)))
    for families in (1, 2):
        for name, sampler in SAMPLERS.items():
            found = [compare_arms(sampler, runs, families, args.studies, rng) for runs in args.seeds]
            _print_row("Welch", families, name, *_rounded([welch_coverage(x) for x in found]))
    methods: tuple[Bootstrap, ...] = ("studentized", "percentile", "bca")
    for method in methods:
        for name, sampler in SAMPLERS.items():
            values = [bootstrap_coverage(method, sampler, runs, args, rng) for runs in args.seeds]
            _print_row(f"{method} bootstrap", 1, name, *_rounded(values))
    values = [source_study_coverage(normal, runs, args, rng) for runs in args.seeds]
    _print_row("source study's bootstrap", 1, "normal", *_rounded(values))
    print()


def _unequal_table(args: CoverageArgs, rng: np.random.Generator) -> None:
    _print_row("runs", "families", "scores", "Welch", "smallest arm's df", "times as wide")
    _print_row(*["---"] * 6)
    for runs in UNEQUAL_RUNS:
        for families in (1, 2):
            for name, spreads in UNEQUAL_SPREADS.items():
                own, smallest, wider = unequal_coverage(runs, spreads, families, args.studies, rng)
                cells = _rounded([own, smallest, wider])
                _print_row(f"{runs[0]} against {runs[1]}", families, name, *cells)
    print()


def _error_table(args: CoverageArgs, header: Sequence[str], rng: np.random.Generator) -> None:
    _print_row("wrong claim", "families", "scores", *header)
    _print_row(*["---"] * (3 + len(header)))
    for name, sampler in SAMPLERS.items():
        values = [any_called_different(sampler, runs, args.studies, rng) for runs in args.seeds]
        _print_row("any of 7 called different", 2, name, *_rounded(values))
    for families in (1, 2):
        for name, sampler in SAMPLERS.items():
            values = [called_equivalent(sampler, n, families, 1.0, args.studies, rng) for n in args.seeds]
            _print_row("a difference of the margin called equivalent", families, name, *_rounded(values))
    print()


def _rounded(values: Sequence[float | None]) -> list[str]:
    return ["-" if value is None else f"{value:.1f}" for value in values]


def _print_row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    run_cli(main)
