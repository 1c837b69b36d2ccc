"""How often the standing table tells equal variants apart, and what it tells apart where they differ.

    python -m benchmarks.ranking_error_rates
    python -m benchmarks.ranking_error_rates --runs runs/zoo-null

Simulates tables of variants whose runs are normal, or skewed as exponential ones are, compares every pair as
the report does (``eval.significance.statistics.all_pairs``), and beside it by the studentized range with
Welch's degrees of freedom (Games and Howell 1976), which it does not use. With ``--runs`` tables are real
runs of one variant, dealt to as many names as have five each. Prints markdown; numbers are percentages of
tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats
from scipy.interpolate import PchipInterpolator

from base.command_line import parse_flags
from base.errors import UsageError, run_cli
from base.sections import Section
from eval.significance.statistics.all_pairs import told_apart
from eval.significance.statistics.welch import welch
from pretrain.run.folders import RunFolder
from pretrain.run.manifest import read_completion
from pretrain.run.run_dir import read_run

LEVEL = 0.05
SIZES = (5, 16, 40)
SEEDS = (3, 5, 8)
DEALT = 5
"""Real runs for each name that they are dealt to."""
DFS = (2, 3, 4, 5, 6, 8, 10, 14, 20, 40, 200)
"""Degrees of freedom at which the studentized range is computed; in between it is interpolated."""


class RankingArgs(Section):
    """Simulate standing tables."""

    tables: int = 1_000
    """Simulated tables for each row."""
    generator_seed: int = 0
    """Seed of the simulation."""
    runs: Path | None = None
    """Deal the finished runs of this study, which must be of one variant, instead of simulating."""


def equal_arms(kind: str, variants: int, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """(V, S) runs of variants with one mean."""
    shape, skewed = (variants, seeds), "skewed" in kind
    runs = rng.exponential(size=shape) - 1 if skewed else rng.normal(size=shape)
    if "both ways" in kind:
        runs[::2] *= -1
    if "lognormal" in kind:
        runs *= np.exp(rng.normal(0, 0.6, (variants, 1)))
    if kind == "one":
        runs[0] *= 5
    return runs


def games_howell(means: np.ndarray, variances: np.ndarray, seeds: int, critical: PchipInterpolator) -> bool:
    """Whether any pair is told apart by the studentized range."""
    pairs = np.stack(np.triu_indices(len(means), 1), -1)
    found = welch(means[pairs], variances[pairs], seeds, (1.0, -1.0))
    limit = np.exp(critical(1 / found.df)) / np.sqrt(2)
    return bool((np.abs(found.estimate) > limit * found.standard_error).any())


def studentized_range(variants: int) -> PchipInterpolator:
    """The logarithm of its critical value, by one over the degrees of freedom."""
    inverse = np.array([1 / df for df in reversed(DFS)])
    values = [stats.studentized_range.ppf(1 - LEVEL, variants, df) for df in reversed(DFS)]
    return PchipInterpolator(inverse, np.log(values))


def null_row(variants: int, seeds: int, kind: str, options: RankingArgs) -> list[str]:
    """How often any pair of equal variants is told apart, by both rules."""
    rng = np.random.default_rng([options.generator_seed, variants, seeds, len(kind)])
    critical, false = studentized_range(variants), np.zeros((options.tables, 2))
    for row in false:
        runs = equal_arms(kind, variants, seeds, rng)
        means, variances = runs.mean(-1), runs.var(-1, ddof=1)
        row[0] = told_apart(means, variances, seeds, LEVEL).any()
        row[1] = games_howell(means, variances, seeds, critical)
    return [str(variants), str(seeds), kind, *(f"{100 * share:.1f}" for share in false.mean(0))]


def power_row(variants: int, seeds: int, step: float, options: RankingArgs) -> list[str]:
    """Share of pairs told apart by their distance, where means stand in even steps of the spread."""
    rng = np.random.default_rng([options.generator_seed, variants, seeds, round(100 * step)])
    places = np.arange(variants)
    distance = np.abs(places[:, None] - places) * step
    shown, false = np.zeros((variants, variants)), 0
    for _ in range(options.tables):
        runs = step * places[:, None] + rng.normal(size=(variants, seeds))
        differ = told_apart(runs.mean(-1), runs.var(-1, ddof=1), seeds, LEVEL)
        shown += differ
        order = np.sign(runs.mean(-1)[:, None] - runs.mean(-1)) != np.sign(places[:, None] - places)
        false += bool((differ & order).any())
    cells = [
        f"{100 * shown[np.isclose(distance, wanted)].mean() / options.tables:.0f}"
        for wanted in (2.0, 4.0, 8.0)
    ]
    return [str(variants), str(seeds), f"{step:g}", *cells, f"{100 * false / options.tables:.1f}"]


def held_out_losses(study: Path) -> np.ndarray:
    """(N,) final held-out losses of the finished runs in a study's folder, by seed.

    Raises:
        UsageError: If it has runs of several variants, or fewer than four times ``DEALT``.
    """
    runs = {read_run(marker.parent).seed: marker.parent for marker in study.glob("*/*/*/COMPLETED")}
    if len({run.parent for run in runs.values()}) != 1 or len(runs) < 4 * DEALT:
        raise UsageError(f"--runs {study}: it must have {4 * DEALT} finished runs or more, of one variant")
    ends = [read_completion(RunFolder(run)) for _, run in sorted(runs.items())]
    return np.array([end.results["eval_loss"] for end in ends if end is not None], dtype=float)


def dealt_row(losses: np.ndarray, options: RankingArgs) -> list[str]:
    """How often runs that are dealt to names are told apart: by seed as they come, and in any other way."""
    rng, variants = np.random.default_rng(options.generator_seed), len(losses) // DEALT

    def differ(runs: np.ndarray) -> bool:
        names = runs[: variants * DEALT].reshape(variants, DEALT)
        return bool(told_apart(names.mean(-1), names.var(-1, ddof=1), DEALT, LEVEL).any())

    false = np.mean([differ(rng.permutation(losses)) for _ in range(options.tables)])
    by_seed = "some" if differ(losses) else "none"
    return [str(len(losses)), f"{losses.std(ddof=1):.3f}", str(variants), by_seed, f"{100 * false:.1f}"]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rows))


def main(args: Sequence[str] | None = None) -> int:
    """Print both tables, or that of real runs."""
    options = parse_flags(RankingArgs, args, prog="python -m benchmarks.ranking_error_rates")
    if options.runs is not None:
        header = ["runs", "spread", "names", "told apart by seed", "told apart, dealt in any way"]
        print(table(header, [dealt_row(held_out_losses(options.runs), options)]))
        return 0
    kinds = ("equal", "lognormal", "one", "equal, skewed", "lognormal, skewed", "equal, skewed both ways")
    header = ["variants", "seeds", "spreads", "told apart", "by the studentized range"]
    print(table(header, [null_row(v, s, k, options) for v in SIZES for s in SEEDS for k in kinds]))
    header = [
        "variants",
        "seeds",
        "step",
        "2 spreads apart",
        "4 spreads",
        "8 spreads",
        "any in the wrong order",
    ]
    print("\n" + table(header, [power_row(v, s, 1.0, options) for v in (16, 40) for s in (5, 8)]))
    return 0


if __name__ == "__main__":
    run_cli(main)
