"""The correction that uses what comparisons share: one baseline, paired seeds, runs with several outcomes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from report.significance.arms import ArmTable, Key
from report.significance.axes import Benchmark
from report.significance.comparison import NUM_DRAWS, Comparison, Inference
from report.statistics.corrections import MaxT
from report.statistics.joint_null import (
    Cells,
    cells_of_arms,
    cells_of_pairs,
    p_of_t,
    simulated,
)
from report.statistics.tuning import NO_CHOICE


def max_t_of(
    comparisons: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> MaxT:
    """Draw whole studies without any difference.

    Args:
        comparisons: What is corrected together, in this order; those without a p are never in question.
        tables: The runs of every outcome.
        inference: How comparisons are made.
    """
    cells, rng = cells_of(comparisons, tables, inference), _generator(inference)
    sizes = [
        min(NUM_DRAWS, inference.num_draws - begun) for begun in range(0, inference.num_draws, NUM_DRAWS)
    ]
    parts = [list(map(p_of_t, simulated(cells, size, rng))) for size in sizes]
    return MaxT(*map(np.concatenate, zip(*parts, strict=True)))


def _generator(inference: Inference) -> np.random.Generator:
    return np.random.default_rng([inference.generator_seed, zlib.crc32(b"max-t")])


def cells_of(
    comparisons: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], inference: Inference
) -> Cells:
    """Arrange the runs of comparisons as whole runs with all of their outcomes."""
    benchmarks = list(dict.fromkeys(c.benchmark for c in comparisons))
    of_outcomes = [tables[benchmark] for benchmark in benchmarks]
    families = sorted({family for c in comparisons for family in c.families})
    keys = _keys(comparisons, of_outcomes, families, inference)
    weights = np.zeros((len(comparisons), len(keys)))
    places = {key: place for place, key in enumerate(keys)}
    for row, comparison in zip(weights, comparisons, strict=True):
        for family in comparison.families:
            for variant, weight in comparison.contrast.weights().items():
                row[places[family, variant]] = weight / len(comparison.families)
    scores = _scores(of_outcomes, keys)
    outcomes = np.array([benchmarks.index(c.benchmark) for c in comparisons], int)
    family_of = np.array([families.index(family) for family, _ in keys])
    if inference.paired:
        choices = _choices_of_pairs(comparisons, tables, families)
        return cells_of_pairs(scores, weights, outcomes, family_of, choices)
    variants = list(dict.fromkeys(variant for _, variant in keys))
    choices = [[arms.choices.get(key, NO_CHOICE) for arms in of_outcomes] for key in keys]
    return cells_of_arms(
        scores,
        weights,
        outcomes,
        family_of,
        np.moveaxis(np.array(choices), -1, 0),
        np.array([variants.index(variant) for _, variant in keys]),
    )


def _keys(
    comparisons: Sequence[Comparison],
    tables: Sequence[ArmTable],
    families: Sequence[object],
    inference: Inference,
) -> list[Key]:
    """Every arm of the families, as all of them tell what is usual; of pairs only those compared."""
    compared = {(f, v) for c in comparisons for f in c.families for v in c.contrast.weights()}
    others = {key for table in tables for key in table.runs if key[0] in families}
    return sorted(compared if inference.paired else compared | others)


def _choices_of_pairs(
    comparisons: Sequence[Comparison], tables: Mapping[Benchmark, ArmTable], families: Sequence
) -> np.ndarray:
    """(2, F, m) what tuning adds to each difference within each family."""
    choices = [[tables[c.benchmark].choice(c.contrast, family) for c in comparisons] for family in families]
    return np.moveaxis(np.array(choices, dtype=float), -1, 0)


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
