"""How often the report's 95% interval holds the true difference.

    python benchmarks/coverage.py

Simulates studies whose arms do not differ, for each number of seeds and each shape of the spread over seeds,
and counts the intervals that hold zero. Beside Welch's interval stands the percentile bootstrap of the
difference of means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eval.significance import minimum_detectable_effect, welch
from ffn_variants.cli import parse_flags
from ffn_variants.errors import run_cli

Sampler = Callable[[np.random.Generator, tuple[int, ...], int], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class CoverageArgs:
    """Simulate the coverage of the report's intervals."""

    studies: int = 20_000
    """Simulated studies for each cell of the table."""
    bootstrap_studies: int = 4_000
    """The same for the bootstrap, which is slower."""
    resamples: int = 1_000
    """Resamples of each bootstrap."""
    seeds: tuple[int, ...] = (3, 5, 6, 10)
    """Runs in every arm."""
    generator_seed: int = 0
    """Seed of the simulation."""


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


def welch_coverage(
    sampler: Sampler, runs: int, families: int, studies: int, rng: np.random.Generator
) -> float:
    """Return the percentage of Welch intervals that hold the true difference, zero."""
    cells = np.stack([sampler(rng, (studies, runs), arm) for _ in range(families) for arm in (0, 1)], axis=1)
    weights = np.tile([1.0, -1.0], families) / families
    result = welch(cells.mean(-1), cells.var(-1, ddof=1), np.full(2 * families, runs), weights)
    return 100 * float(((result.low <= 0) & (result.high >= 0)).mean())


def bootstrap_coverage(
    sampler: Sampler, runs: int, studies: int, resamples: int, rng: np.random.Generator
) -> float:
    """Return the same for the percentile bootstrap, both arms resampled independently."""
    held = 0
    for _ in range(studies):
        means = []
        for arm in (0, 1):
            scores = sampler(rng, (runs,), arm)
            means.append(scores[rng.integers(runs, size=(resamples, runs))].mean(-1))
        low, high = np.percentile(means[0] - means[1], [2.5, 97.5])
        held += low <= 0 <= high
    return 100 * held / studies


def detectable(runs: int, families: int) -> float:
    """Return the smallest true difference found with 80% power, in standard deviations over seeds."""
    standard_error = np.sqrt(2 / runs / families)
    effect = minimum_detectable_effect(standard_error, 2 * families * (runs - 1))
    return float("nan") if effect is None else effect


def main() -> None:
    """Print both tables as markdown."""
    args = parse_flags(CoverageArgs, prog="python benchmarks/coverage.py", description=__doc__)
    rng = np.random.default_rng(args.generator_seed)
    _print_row("method", "families", "scores", *(f"n = {runs}" for runs in args.seeds))
    _print_row(*["---"] * (3 + len(args.seeds)))
    for families in (1, 2):
        for name, sampler in SAMPLERS.items():
            values = [welch_coverage(sampler, runs, families, args.studies, rng) for runs in args.seeds]
            _print_row("Welch" if families == 1 else "Welch, averaged", families, name, *_rounded(values))
    values = [
        bootstrap_coverage(normal, runs, args.bootstrap_studies, args.resamples, rng) for runs in args.seeds
    ]
    _print_row("percentile bootstrap", 1, "normal", *_rounded(values))
    print()
    _print_row("n", "one family", "average of two families")
    _print_row("---", "---", "---")
    for runs in (2, *args.seeds):
        _print_row(runs, *_rounded([detectable(runs, families) for families in (1, 2)]))


def _rounded(values: Sequence[float]) -> list[str]:
    return [f"{value:.1f}" for value in values]


def _print_row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    run_cli(main)
