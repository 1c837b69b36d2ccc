"""How many seeds a question needs: from a study's own spread, or from one assumed before anything was run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from eval.report.markdown import table
from eval.significance.arms import ArmTable
from eval.significance.comparison import Comparison, Inference
from eval.significance.contrasts import Contrast
from eval.significance.statistics.power import (
    MAX_RUNS,
    POWER,
    balanced,
    minimum_detectable_effect,
    runs_to_detect,
    runs_to_show_equivalence,
)

EFFECTS = (0.5, 1.0, 2.0)
PLANNED_RUNS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)


@dataclass(frozen=True, kw_only=True)
class Power:
    """Seeds in every arm that a comparison needs, at the spread seen; None: more than are looked for."""

    comparison: Comparison
    sd: float
    """Within arms over seeds, in percentage points: the root of the mean variance."""
    seeds: tuple[int | None, ...]
    """To find a true difference of each of ``EFFECTS`` with 80% power, before any correction."""
    seeds_for_equivalence: int | None
    """To show equivalence at the margin with 80% power where there is no difference."""


def power_of(arms: ArmTable, contrast: Contrast, comparison: Comparison, inference: Inference) -> Power:
    """Work out what an estimable comparison would need, its arms' variances being the true ones."""
    scaled = arms.logarithms if comparison.is_relative else arms
    sample = scaled.sample(contrast, comparison.families, inference.paired)
    variances = [float(arm.var(ddof=1)) for arm in sample.arms]
    return Power(
        comparison=comparison,
        sd=math.sqrt(sum(variances) / len(variances)),
        seeds=tuple(runs_to_detect(effect, variances, sample.weights, inference.level) for effect in EFFECTS),
        seeds_for_equivalence=None
        if comparison.margin is None
        else runs_to_show_equivalence(comparison.margin, variances, sample.weights, inference.level),
    )


def plan(sd: float, variants: int, families: int, margin: float, inference: Inference) -> str:
    """Say what studies of several sizes can find, before anything was run.

    Args:
        sd: Expected standard deviation over seeds within an arm, in percentage points.
        variants: How many in all, the baseline included.
        families: How many are averaged over.
        margin: The largest difference that is negligible, in percentage points.
        inference: Level.
    """
    variances, weights = [sd**2] * 2 * families, [1 / families, -1 / families] * families
    corrected = inference.level / (variants - 1)
    rows = []
    for runs in PLANNED_RUNS:
        error, df = balanced(variances, weights, runs)
        found = [minimum_detectable_effect(error, df, 1 - level) for level in (inference.level, corrected)]
        rows.append([str(runs), str(runs * variants * families), *map(_points, found)])
    sizes = table(["seeds", "runs", "detectable", f"detectable, {variants - 1} tests"], rows)
    needs = [
        [
            f"a difference of {effect:g}",
            *(
                seeds_text(runs_to_detect(effect, variances, weights, level))
                for level in (inference.level, corrected)
            ),
        ]
        for effect in EFFECTS
    ]
    equivalence = runs_to_show_equivalence(margin, variances, weights, inference.level)
    needs.append([f"equivalence within {margin:g}", seeds_text(equivalence), "-"])
    return (
        f"Standard deviation over seeds {sd:g} points, {variants} variants, families: {families}; "
        f"two-sided level {inference.level:.2g}, {POWER:.0%} power.\n\n"
        f"The smallest true difference to the baseline that is found, in points, by itself and as the first "
        f"of {variants - 1} tests under Holm's correction:\n\n{sizes}\n\n"
        f"Seeds in every cell to show, in points:\n\n"
        + table(["to show", "seeds", f"seeds, {variants - 1} tests"], needs)
    )


def seeds_text(seeds: int | None) -> str:
    """Write a number of seeds."""
    return f"over {MAX_RUNS}" if seeds is None else str(seeds)


def _points(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
