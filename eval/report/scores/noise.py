"""What the items of a study tell: where its noise is, and how sure a difference is beyond these items.

The outcomes of every run on every item lie in ``<run>/eval/items/<benchmark>.parquet``. A benchmark is
analysed when its score is the unweighted mean over tasks of the share of items that are right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from eval.report.scores.item_outcomes import Outcomes, read_outcomes
from eval.results.rows import NO_HEAD
from eval.significance.arms import Key
from eval.significance.axes import Benchmark, Family
from eval.significance.compare import scopes
from eval.significance.comparison import Inference
from eval.significance.contrasts import Contrast
from eval.significance.statistics.items import infer
from eval.significance.statistics.variance_components import pooled_components, score_shares

Arms = Mapping[Key, np.ndarray]  # (family, variant) -> places of its runs

SPREAD_OVER_SEEDS = "spread over seeds"
# The fields of Components that differ between seeds, in words.
SEED_SOURCES = {
    "seed": "seeds, on all phenomena alike",
    "seed_group": "seeds x phenomena",
    "seed_task": "seeds x tasks",
    "residual": "seeds x items",
}


@dataclass(frozen=True, kw_only=True)
class ItemComparison:
    """One contrast on one benchmark over seeds and items, in percentage points."""

    benchmark: Benchmark
    contrast: Contrast
    family: Family | None
    """None: averaged over ``families`` with equal weights."""
    families: tuple[Family, ...]
    estimate: float
    standard_error_seeds: float | None
    """Welch's, over runs on these items; None where an arm has one run."""
    standard_error_items: float
    """Over items, runs fixed."""
    low: float | None
    """Over seeds and items; None with fewer than two runs in an arm."""
    high: float | None
    confidence: float
    num_items: int


@dataclass(frozen=True, kw_only=True)
class NoiseSource:
    """One source of variance on one benchmark, within an arm and pooled over arms."""

    benchmark: Benchmark
    source: str
    sd: float | None
    """Standard deviation of the effect in percentage points, 0 for a negative estimate of the variance."""
    sd_of_score: float | None
    """What it adds to one run's score, as a standard deviation; None for what is fixed by the benchmark."""


@dataclass(frozen=True, kw_only=True)
class ItemAnalysis:
    """What items tell; empty where the source holds none."""

    comparisons: tuple[ItemComparison, ...] = ()
    components: tuple[NoiseSource, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def benchmarks(self) -> tuple[Benchmark, ...]:
        """Those analysed."""
        return tuple(dict.fromkeys(entry.benchmark for entry in (*self.components, *self.comparisons)))


def analyse_items(
    folder: Path,
    tasks: pd.DataFrame,
    scores: pd.DataFrame,
    contrasts: Sequence[Contrast],
    benchmarks: Sequence[Benchmark],
    inference: Inference,
) -> ItemAnalysis:
    """Read the items of a study, one benchmark after the other, and compute what they tell.

    Args:
        folder: Where the scores come from; only a study's folder has items.
        tasks: What ``comparable_scores`` returns.
        scores: What ``mean_scores`` returns of them.
        contrasts: Those wanted, usually of every variant with the baseline.
        benchmarks: Those to look at, in the order wanted.
        inference: Level of the intervals. Runs count as unpaired.
    """
    if not folder.is_dir():
        return ItemAnalysis()
    comparisons: list[ItemComparison] = []
    components: list[NoiseSource] = []
    notes: list[str] = []
    for benchmark in benchmarks:
        of_benchmark = scores[scores.benchmark == benchmark].sort_values(["family", "variant", "seed"])
        runs = of_benchmark.reset_index(drop=True)
        own = tasks[(tasks.benchmark == benchmark) & tasks.run_id.isin(set(runs.run_id))]
        found = _outcomes(folder, benchmark, runs, own)
        if isinstance(found, str):
            notes.append(f"{benchmark}: {found}, so where its noise is was not analysed")
        elif found is not None:
            group_of = dict(zip(own.task, own.group, strict=True))
            arms = _arms(runs)
            components += _components(benchmark, found, arms, group_of)
            comparisons += _comparisons(benchmark, found, arms, contrasts, inference)
    return ItemAnalysis(comparisons=tuple(comparisons), components=tuple(components), notes=tuple(notes))


def _arms(runs: pd.DataFrame) -> Arms:
    keys = list(zip(runs.family, runs.variant, strict=True))
    return {
        key: np.array([place for place, own in enumerate(keys) if own == key]) for key in sorted(set(keys))
    }


def _outcomes(
    folder: Path, benchmark: Benchmark, runs: pd.DataFrame, tasks: pd.DataFrame
) -> Outcomes | str | None:
    """Read how all runs did on the items of the tasks that all of them have."""
    if benchmark.head != NO_HEAD or benchmark.metric:
        return None  # items of several heads lie in one file, and graded ones are no shares of right answers
    counts = tasks.groupby("task").run_id.nunique()
    return read_outcomes(folder, benchmark.name, runs, set(counts.index[counts == len(runs)]))


def _components(
    benchmark: Benchmark, found: Outcomes, arms: Arms, group_of: Mapping[str, str]
) -> list[NoiseSource]:
    """Estimate the variance components of one benchmark; none where every arm has one run."""
    groups = np.unique([group_of[name] for name in found.names], return_inverse=True)[1]
    pooled = pooled_components([found.values[arm] for arm in arms.values()], found.tasks, groups)
    if pooled is None:
        return []
    variances, shares = pooled._asdict(), score_shares(found.tasks, groups)._asdict()

    def of_score(names: Iterable[str]) -> float | None:
        return _root(sum(np.nan_to_num(variances[name]) * shares[name] for name in names))

    sources = [
        (label, _root(variances[name]), None if math.isnan(variances[name]) else of_score([name]))
        for name, label in SEED_SOURCES.items()
    ]
    sources += [
        (SPREAD_OVER_SEEDS, None, of_score(SEED_SOURCES)),
        ("items", _root(pooled.item), of_score(["item"])),
    ]
    # A benchmark's tasks and phenomena are fixed, so they add nothing to what its score would be again.
    sources += [("tasks", _root(pooled.task), None), ("phenomena", _root(pooled.group), None)]
    return [NoiseSource(benchmark=benchmark, source=a, sd=b, sd_of_score=c) for a, b, c in sources]


def _root(variance: float) -> float | None:
    return None if math.isnan(variance) else math.sqrt(max(0.0, variance))


def _comparisons(
    benchmark: Benchmark, found: Outcomes, arms: Arms, contrasts: Sequence[Contrast], inference: Inference
) -> list[ItemComparison]:
    """Compare in every scope where all arms of the contrast have a run."""
    families = sorted({family for family, _ in arms})
    comparisons = []
    for family in scopes(families):
        strata = tuple(families) if family is None else (family,)
        for contrast in contrasts:
            weights = {(f, v): w / len(strata) for f in strata for v, w in contrast.weights().items()}
            if not weights.keys() <= arms.keys():
                continue
            runs = [found.values[arms[key]] for key in weights]
            result = infer(runs, found.tasks, list(weights.values()), inference.confidence)
            comparisons.append(
                ItemComparison(
                    benchmark=benchmark,
                    contrast=contrast,
                    family=family,
                    families=strata,
                    estimate=result.estimate,
                    standard_error_seeds=_known(result.standard_error_seeds),
                    standard_error_items=result.standard_error_items,
                    low=_known(result.low),
                    high=_known(result.high),
                    confidence=inference.confidence,
                    num_items=len(found.tasks),
                )
            )
    return comparisons


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
