"""A hierarchical model of every outcome, beside the comparisons and in no verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark, Level
from eval.significance.compare import margin_of
from eval.significance.comparison import Inference
from eval.significance.contrasts import Contrast
from eval.significance.statistics.hierarchical import Prior, posterior_means, within_scale
from eval.significance.statistics.welch import NO_SPREAD


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """What is believed of the difference of one variant to the baseline, averaged over families."""

    benchmark: Benchmark
    variant: Level
    part: str | None = None
    """Phenomenon or task; None for the whole benchmark."""
    unit: str | None
    """Of the numbers below; percent of the baseline's scores where families' scores differ in scale."""
    digits: int
    median: float
    low: float
    high: float
    """Ends of the central interval at the level of all intervals."""
    margin: float | None
    """None where nobody named one; ``better`` and ``worse`` are then by anything at all."""
    within: float | None
    """Probability that the difference lies within the margin."""
    better: float
    worse: float
    is_predicted: bool
    """Whether the variant or the baseline lacks runs in a family, which others then stand in for."""


def bayesian_view(
    tables: Iterable[ArmTable],
    parts: Mapping[Benchmark, Sequence[ArmTable]],
    baseline: Level,
    others: Sequence[Level],
    inference: Inference,
) -> list[Posterior]:
    """Model every outcome and its parts.

    Args:
        tables: The runs of every outcome.
        parts: What ``part_tables`` returns.
        baseline: The variant that the others are compared with.
        others: Those.
        inference: Level, pairing and random numbers.

    Returns:
        Nothing of outcomes without any spread between runs of one arm, or without a run of the baseline.
    """
    found = []
    for arms in tables:
        variants = [
            v for v in (baseline, *others) if any(len(arms.runs.get((f, v), ())) for f in arms.families)
        ]
        if variants[:1] == [baseline] and variants[1:]:
            found += _of_outcome(_Outcome(arms, variants, inference), parts.get(arms.benchmark, ()))
    return found


class _Outcome:
    """One outcome in the scale in which it is modelled."""

    def __init__(self, arms: ArmTable, variants: Sequence[Level], inference: Inference) -> None:
        self.arms, self.variants, self.inference = arms, variants, inference
        self.is_relative = arms.has_ratios(arms.families)
        self.seeds = sorted({seed for arm in arms.runs.values() for seed in arm.index})
        self.scores = self.grid(arms)

    def grid(self, arms: ArmTable) -> np.ndarray:
        """(F, V, S) scores by seed, nan where there is none."""
        scaled = arms.logarithms if self.is_relative else arms
        nothing = pd.Series(dtype=float)
        keys = [[(f, v) for v in self.variants] for f in self.arms.families]
        return np.array([[scaled.runs.get(k, nothing).reindex(self.seeds) for k in row] for row in keys])

    def differences(self, scores: np.ndarray, name: str) -> np.ndarray | None:
        """(D, P, V - 1) draws of differences to the first variant from scores (P, F, V, S)."""
        is_paired, rng = self.inference.paired, self.arms.generator(name, self.inference)
        scale, present = within_scale(scores, is_paired), np.isfinite(scores)
        if is_paired:
            present &= present.sum(-2, keepdims=True) > 1
        if scale is None or scale < NO_SPREAD or not present.any((-1, -2)).all():
            return None
        # Without pairs a run may stand at any place.
        packed = scores if is_paired else np.sort(scores)[..., : present.sum(-1).max()]
        means = posterior_means(packed, Prior(scale), rng, is_paired)
        return (means[..., 1:] - means[..., :1]).mean(2)

    def in_unit(self, values: np.ndarray) -> np.ndarray:
        """Turn differences of logarithms into percent."""
        sign = self.arms.sign
        return sign * 100 * np.expm1(sign * values / 100) if self.is_relative else values


def _of_outcome(outcome: _Outcome, parts: Sequence[ArmTable]) -> Iterable[Posterior]:
    whole = outcome.differences(outcome.scores[None], "hierarchical")
    if whole is None:
        return
    yield from _described(outcome, outcome.arms, whole[:, 0])
    deviations = [(part, outcome.grid(part) - outcome.scores) for part in parts]
    # The mean over families needs every one of them.
    known = [(part, own) for part, own in deviations if np.isfinite(own).any((1, 2)).all()]
    own = outcome.differences(np.stack([x for _, x in known]), "hierarchical parts") if known else None
    if own is None:
        return
    for place, (part, _) in enumerate(known):
        yield from _described(outcome, part, whole[:, 0] + own[:, place])


def _described(outcome: _Outcome, arms: ArmTable, draws: np.ndarray) -> Iterable[Posterior]:
    """Describe (D, V - 1) draws of the differences in what these arms have scored."""
    families, tail = outcome.arms.families, (1 - outcome.inference.confidence) / 2
    ends = outcome.in_unit(np.quantile(draws, [tail, 0.5, 1 - tail], axis=0)).T
    for variant, own, (low, median, high) in zip(outcome.variants[1:], draws.T, ends, strict=True):
        contrast = Contrast((variant,), (outcome.variants[0],))
        margin = margin_of(arms, contrast, families)
        gains, limit = own * arms.outcome.sign, margin or 0.0
        yield Posterior(
            benchmark=arms.benchmark,
            variant=variant,
            part=arms.part,
            unit="percent" if outcome.is_relative else arms.outcome.unit,
            digits=arms.digits(families),
            median=float(median),
            low=float(low),
            high=float(high),
            margin=100 * math.expm1(margin / 100) if margin and outcome.is_relative else margin,
            within=None if margin is None else float((np.abs(own) <= margin).mean()),
            better=float((gains > limit).mean()),
            worse=float((gains < -limit).mean()),
            is_predicted=not all(
                len(arms.runs.get((f, v), ())) for f in families for v in contrast.weights()
            ),
        )
