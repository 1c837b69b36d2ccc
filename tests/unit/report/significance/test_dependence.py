"""What comparisons share is drawn once, and is that of the study that was compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison, Inference, compare_with_baseline
from report.significance.multiple_comparisons import MultipleComparisons, cells_of, with_interval
from report.statistics.looks import PlannedLooks
from scores.metrics import Declared, find_metric


def tables(seed: int, missing: bool) -> dict[Benchmark, ArmTable]:
    """Two outcomes of one run and one of families that differ in scale; three variants in two families."""
    rng = np.random.default_rng(seed)
    runs = pd.DataFrame(
        [(f, v, s, *rng.normal([60.0, 70.0, 3.0], 1.0)) for f in "ab" for v in ("gelu", "relu", "kan")
         for s in range(6)],
        columns=["family", "variant", "seed", "blimp", "glue", "held-out-loss"],
    )  # fmt: skip
    found = {}
    for name in ("blimp", "glue", "held-out-loss"):
        own = runs.rename(columns={name: "score"})[["family", "variant", "seed", "score"]]
        own["score"] *= np.where((own.family == "b") & (name == "held-out-loss"), 2.0, 1.0)
        if missing and name == "glue":
            own = own[~((own.family == "a") & (own.variant == "kan") & (own.seed > 3))]
        metric = find_metric(name, [name], own.score, Declared(), label=name)
        found[Benchmark(name)] = ArmTable.of_scores(own, Benchmark(name), metric=metric)
    return found


def compared(
    found: dict[Benchmark, ArmTable], inference: Inference
) -> tuple[MultipleComparisons, list[Comparison]]:
    claims = MultipleComparisons(found, tuple(found), inference)
    alone = [
        c for arms in found.values() for c in compare_with_baseline(arms, "gelu", ("relu", "kan"), inference)
    ]
    return claims, [with_interval(c, claims.inference.level) for c in claims.correct(alone)]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("is_paired", [False, True])
def test_what_is_drawn_is_the_study_that_was_compared(is_paired: bool, missing: bool):
    """Estimates and standard errors of the cells are those of the comparisons."""
    inference = Inference(paired=is_paired)
    claims, comparisons = compared(tables(1, missing), inference)
    primary = [c for c in comparisons if c.is_primary]
    assert len(primary) == 8  # two averages, and a loss that has none in two families
    cells = cells_of(primary, claims.tables, inference)
    counts = (~np.isnan(cells.values)).sum(0)
    estimates = cells.weights @ np.nan_to_num(np.nanmean(cells.values, axis=0))
    errors = np.sqrt(cells.weights**2 @ np.nan_to_num(np.nanvar(cells.values, axis=0, ddof=1) / counts))
    for comparison, estimate, error in zip(primary, estimates, errors, strict=True):
        assert error == pytest.approx(comparison.standard_error)
        assert estimate == pytest.approx(comparison.estimate)


@pytest.mark.ci
def test_whole_studies_are_milder_than_holm_which_corrects_planned_looks():
    for seed in range(3):
        of_looks = Inference(looks=PlannedLooks((6,)))
        (by_holm, holm), (claims, found) = (
            compared(tables(seed, missing=False), how) for how in (of_looks, Inference())
        )
        assert not by_holm._corrections
        assert len(claims._corrections) == 5  # the primary ones, and two metrics in each of two families
        for drawn, corrected in zip(found, holm, strict=True):
            assert drawn.p == corrected.p
            assert (drawn.p or 0) <= (drawn.p_corrected or 0)
            if drawn.is_primary:
                assert (drawn.p_corrected or 0) <= (corrected.p_corrected or 0) + 0.01


def test_what_a_study_shares_is_drawn_once():
    """Of other p-values of the same claims, as without one run, the same draws are asked."""
    claims, found = compared(tables(5, missing=False), Inference())
    drawn = [*claims._corrections.values()]
    claims.correct([replace(c, p=0.5) for c in found])
    assert [*claims._corrections.values()] == drawn
