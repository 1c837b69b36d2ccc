"""The correction that uses what claims share: one baseline, paired seeds, runs with several outcomes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from eval.significance.arms import ArmTable, Key
from eval.significance.axes import Benchmark
from eval.significance.comparison import Comparison, Inference
from eval.significance.statistics.bootstrap import MaxT
from eval.significance.statistics.joint_null import (
    Cells,
    cells_of_arms,
    cells_of_pairs,
    p_of_ranks,
    p_of_t,
    resampled,
    simulated,
)


def max_t_of(
    comparisons: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> MaxT:
    """Draw a study without any difference, by the method that verdicts rest on.

    Args:
        comparisons: What is corrected together, in this order; those without a p are never in question.
        tables: The runs of every outcome.
        inference: How comparisons are made.
    """
    cells = cells_of(comparisons, tables, inference)
    rng = np.random.default_rng([inference.generator_seed, zlib.crc32(b"max-t")])
    if inference.method == "bootstrap":
        return MaxT(p_of_ranks(resampled(cells, inference.resamples, rng)))
    return MaxT(p_of_t(simulated(cells, inference.resamples, rng)))


def cells_of(
    comparisons: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> Cells:
    """Arrange the runs of comparisons as whole runs with all of their outcomes."""
    keys = sorted({(f, v) for c in comparisons for f in c.families for v in c.contrast.weights()})
    benchmarks = list(dict.fromkeys(c.benchmark for c in comparisons))
    arms = {key: place for place, key in enumerate(keys)}
    weights = np.zeros((len(comparisons), len(keys)))
    for row, comparison in zip(weights, comparisons, strict=True):
        for family in comparison.families:
            for variant, weight in comparison.contrast.weights().items():
                row[arms[family, variant]] = weight / len(comparison.families)
    scaled = [_scaled(tables[c.benchmark], c) for c in _first_of_each(comparisons)]
    scores = _scores(scaled, keys)
    outcomes = np.array([benchmarks.index(c.benchmark) for c in comparisons], int)
    if not inference.paired:
        return cells_of_arms(scores, weights, outcomes)
    return cells_of_pairs(scores, weights, outcomes, np.array([str(family) for family, _ in keys]))


def _first_of_each(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """One comparison of every outcome: all of them are in one scale."""
    return list({c.benchmark: c for c in reversed(comparisons)}.values())[::-1]


def _scaled(arms: ArmTable, comparison: Comparison) -> ArmTable:
    return arms.logarithms if arms.has_ratios(comparison.families) else arms


def _scores(tables: Sequence[ArmTable], keys: Sequence[Key]) -> np.ndarray:
    """(A, S, O) scores, nan where missing; the rows of a family are its seeds."""
    seeds = {
        family: sorted(
            {seed for t in tables for (f, _), arm in t.runs.items() if f == family for seed in arm.index}
        )
        for family, _ in keys
    }
    found = np.full((len(keys), max(map(len, seeds.values()), default=0), len(tables)), np.nan)
    for outcome, table in enumerate(tables):
        for place, (family, variant) in enumerate(keys):
            arm = table.runs.get((family, variant))
            if arm is not None:
                found[place, np.searchsorted(seeds[family], arm.index), outcome] = arm.to_numpy()
    return found
