"""Simulated studies with a known truth, and what the report's own code claims of them.

Shapes: F families, V variants beside the baseline, O outcomes, n runs of an arm. The scores of an arm have a
standard deviation of 1 where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from report.significance.comparison import (
    EQUIVALENT,
    WITHIN_MARGIN,
    Comparison,
    Inference,
    compare_with_baseline,
)
from report.significance.multiple_comparisons import MultipleComparisons
from report.statistics.corrections import Holm
from report.statistics.welch import welch
from report.verdicts.findings import Findings, find
from scores.metrics import Metric

BASELINE = "gelu"
LEVEL = 0.05
LEVEL_OF_SCORES = 60.0
THRICE = 3.0
ITEMS, SHARE_RIGHT = 50, 0.9
COLLAPSE = 20.0
"""Standard deviations by which a collapsed run is worse."""

Tables = Mapping[Benchmark, ArmTable]


class Noise(NamedTuple):
    """How runs spread about the mean of their arm."""

    quantile: Callable[[np.ndarray], np.ndarray] = np.asarray
    """From standard normal values to deviations of mean 0 and variance 1."""
    widths: Callable[[np.random.Generator, tuple[int, int]], np.ndarray] = lambda rng, shape: np.ones(shape)
    """(F, V + 1) standard deviation of every arm, the baseline's first."""
    correlation: float = 0.5
    """Between the outcomes of a run, before ``quantile``."""
    has_collapsed_run: bool = False

    def draw(self, rng: np.random.Generator, shape: tuple[int, int, int, int]) -> np.ndarray:
        """(F, V + 1, n, O) deviations."""
        shared, own = rng.normal(size=(*shape[:3], 1)), rng.normal(size=shape)
        normal = np.sqrt(self.correlation) * shared + np.sqrt(1 - self.correlation) * own
        families, arms = shape[:2]
        deviations = self.quantile(normal) * self.widths(rng, (families, arms))[:, :, None, None]
        if self.has_collapsed_run:
            deviations[tuple(rng.integers(size) for size in shape[:3])] -= COLLAPSE
        return deviations


def heavy_tailed(normal: np.ndarray) -> np.ndarray:
    """Student's t with 3 degrees of freedom."""
    return special.stdtrit(3, special.ndtr(normal)) / np.sqrt(3)


def skewed(normal: np.ndarray) -> np.ndarray:
    """Gamma of shape 2."""
    return (special.gammaincinv(2, special.ndtr(normal)) - 2) / np.sqrt(2)


def of_items(normal: np.ndarray) -> np.ndarray:
    """The share of right answers among 50, of which 45 are expected: it moves in steps of half a spread."""
    right = np.searchsorted(stats.binom.cdf(np.arange(ITEMS), ITEMS, SHARE_RIGHT), special.ndtr(normal))
    return (right - ITEMS * SHARE_RIGHT) / np.sqrt(ITEMS * SHARE_RIGHT * (1 - SHARE_RIGHT))


def wide(*places: int | slice) -> Callable[[np.random.Generator, tuple[int, int]], np.ndarray]:
    """Give the arms at some places thrice the spread."""

    def widths(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        found = np.ones(shape)
        for place in places:
            found[:, place] = THRICE
        return found

    return widths


def unlike(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Draw every arm's spread, by a factor of 1.8 for one standard deviation of its logarithm."""
    return np.exp(rng.normal(0, 0.6, shape))


BASELINE_WIDE, OTHERS_WIDE = "the baseline thrice", "all others thrice"
NOISES: dict[str, Noise] = {
    "alike": Noise(),
    BASELINE_WIDE: Noise(widths=wide(0)),
    OTHERS_WIDE: Noise(widths=wide(slice(1, None))),
    "one variant thrice": Noise(widths=wide(-1)),
    "unlike (lognormal, 0.6)": Noise(widths=unlike),
    "outcomes correlated by 0.9": Noise(correlation=0.9),
    "heavy tails (t, 3 df)": Noise(quantile=heavy_tailed),
    "skewed (gamma, shape 2)": Noise(quantile=skewed),
    "skewed, all others thrice": Noise(quantile=skewed, widths=wide(slice(1, None))),
    "accuracies of 50 items": Noise(quantile=of_items),
    "one run collapsed": Noise(has_collapsed_run=True),
}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Studies of one kind."""

    truth: np.ndarray
    """(F, V, O) true differences to the baseline, in standard deviations."""
    runs: tuple[int, int]
    """Of every variant, and of the baseline."""
    noise: Noise = NOISES["alike"]
    margin: float = 1.0

    def draw(self, rng: np.random.Generator) -> dict[Benchmark, ArmTable]:
        """Draw the scores of one study."""
        families, variants, metrics = self.truth.shape
        scores = LEVEL_OF_SCORES + self.noise.draw(rng, (families, variants + 1, max(self.runs), metrics))
        scores[:, 1:] += self.truth[:, :, None]
        names = {BASELINE: self.runs[1], **dict.fromkeys(variant_names(variants), self.runs[0])}
        return {
            benchmark: ArmTable(
                {
                    (f"family{f}", variant): pd.Series(scores[f, v, :runs, o], pd.RangeIndex(runs))
                    for f in range(families)
                    for v, (variant, runs) in enumerate(names.items())
                },
                benchmark,
                metric=Metric(name=str(benchmark), margin=self.margin),
            )
            for o, benchmark in enumerate(map(Benchmark, outcome_names(metrics)))
        }

    def truths(self, comparison: Comparison) -> np.ndarray:
        """(F,) true differences that a comparison with the baseline is about."""
        variant = variant_names(self.truth.shape[1]).index(comparison.contrast.compared)
        metric = outcome_names(self.truth.shape[2]).index(str(comparison.benchmark))
        return self.truth[:, variant, metric]


def variant_names(count: int) -> list[str]:
    """Name variants so that they are sorted by number."""
    return [f"variant{place:02}" for place in range(count)]


def outcome_names(count: int) -> list[str]:
    """Name outcomes in the same way."""
    return [f"outcome{place:02}" for place in range(count)]


def findings_of(tables: Tables, inference: Inference | None = None) -> Findings:
    """Compare and correct as the report does, leaving out what no verdict rests on."""
    arms = next(iter(tables.values()))
    others = [name for name in arms.variants() if name != BASELINE]
    claims = MultipleComparisons(tables, tuple(tables), inference or Inference())
    return find(claims, "ffn", arms.families, BASELINE, others)


def may_claim(tables: Tables, inference: Inference) -> bool:
    """Whether any p is below the level before correction: no correction makes one smaller."""
    names = next(iter(tables.values())).variants()
    others = [name for name in names if name != BASELINE]
    found = [
        c.p for arms in tables.values() for c in compare_with_baseline(arms, BASELINE, others, inference)
    ]
    return any(p is None or p < inference.level for p in found)


def judged(scenario: Scenario, findings: Findings) -> dict[str, float]:
    """Hold what the report claims against the truth; every value is a share, or 0 or 1."""
    claims = [c for c in findings.comparisons if c.is_primary]
    truths = [scenario.truths(c) for c in claims]
    means = [float(truth.mean()) for truth in truths]
    differ = [(c, mean) for c, mean in zip(claims, means, strict=True) if mean]
    beyond = [c for c, t in zip(claims, truths, strict=True) if np.abs(t).max() >= scenario.margin]
    return {
        "false": any(c.is_different and not is_right(c, m) for c, m in zip(claims, means, strict=True)),
        "found": float(np.mean([c.is_different and is_right(c, m) for c, m in differ])) if differ else 0.0,
        "missed by an interval": not all(holds(c, m) for c, m in zip(claims, means, strict=True)),
        "refused": any(c.p is None for c in claims),
        "false equivalence": any(c.verdict == EQUIVALENT for c in beyond),
        "false within margin": any(c.verdict == WITHIN_MARGIN for c in beyond),
    }


def is_right(comparison: Comparison, truth: float) -> bool:
    """Whether an estimate has the sign of a true difference that is not zero."""
    return (comparison.estimate or 0.0) * truth > 0


def holds(comparison: Comparison, truth: float) -> bool:
    """Whether the interval beside the verdict holds the truth."""
    low, high = comparison.interval or (-np.inf, np.inf)
    return low <= truth <= high


def judged_by_holm(scenario: Scenario, tables: Tables) -> dict[str, float]:
    """The same of Welch's tests with Holm's correction, which know nothing of other arms."""
    families, variants, _ = scenario.truth.shape
    scores = [
        [
            [arms.runs[f"family{f}", v].to_numpy() for v in (BASELINE, *variant_names(variants))]
            for f in range(families)
        ]
        for arms in tables.values()
    ]
    means, variances, counts = (
        _in_pairs(np.array([[[of(arm) for arm in family] for family in metric] for metric in scores]))
        for of in (np.mean, lambda arm: np.var(arm, ddof=1), len)
    )
    tests = welch(means, variances, counts, np.tile([1.0, -1.0], families) / families)
    p = [None if np.isnan(one) else float(one) for one in tests.p.ravel()]
    significant = np.array([one is not None and one < LEVEL for one in Holm().adjust(p)])
    true = scenario.truth.mean(0).T.ravel()
    is_found = significant & (tests.estimate.ravel() * true > 0)
    return {
        "false": bool((significant & ~is_found).any()),
        "found": float(is_found[true != 0].mean()) if true.any() else 0.0,
    }


def _in_pairs(moments: np.ndarray) -> np.ndarray:
    """(O, F, V + 1) of every arm to (O, V, 2 F): of each variant and its baseline, family by family."""
    variants = moments[..., 1:]
    pairs = np.stack([variants, np.broadcast_to(moments[..., :1], variants.shape)], axis=-1)
    return np.moveaxis(pairs, 1, 2).reshape(len(moments), variants.shape[-1], -1)
