"""What a study could see of each outcome: signal, noise, detectable difference and the seeds it needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from eval.report.scores.power import Power, percent_or_own, power_of
from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark, Family
from eval.significance.comparison import AT_CHANCE, Comparison, Inference
from eval.significance.statistics.signal_noise import SignalNoise, signal_noise


@dataclass(frozen=True, kw_only=True)
class OutcomeRow:
    """One outcome in one scope, in the unit of its comparisons; None where the runs do not allow a number."""

    comparisons: tuple[Comparison, ...]
    """Of every variant with the baseline."""
    power: tuple[Power, ...]
    """Of those that are estimable."""
    spreads: SignalNoise | None
    """Between variants and between seeds, of those variants that have a run in every family."""
    num_arms: int
    num_above_chance: int
    """Arms that are shown to score more than the margin above chance; all of them where it is not known."""

    @property
    def benchmark(self) -> Benchmark:
        """Which outcome."""
        return self.comparisons[0].benchmark

    @property
    def family(self) -> Family | None:
        """One family, or None for the average."""
        return self.comparisons[0].family

    @property
    def margin(self) -> float | None:
        """What was named negligible."""
        return next((c.margin for c in self.comparisons if c.margin is not None), None)

    @property
    def is_at_chance(self) -> bool:
        """Whether no arm is shown to have learnt anything, or no comparison has a verdict for that reason."""
        verdicts = {c.verdict for c in self.comparisons if c.p is not None}
        return self.num_above_chance == 0 or verdicts == {AT_CHANCE}

    @property
    def detectable(self) -> float | None:
        """The smallest difference that is found: the median over variants."""
        known = [power.detectable for power in self.power if power.detectable is not None]
        return median(known) if known else None

    @property
    def detectable_in_margins(self) -> float | None:
        """The same as a multiple of the margin: above 1, what is found is never negligible."""
        detectable, margin = self.detectable, self.margin
        return None if detectable is None or margin is None else detectable / margin

    def seeds_for(self, share: float) -> int | None:
        """Return how many seeds in every arm give a verdict on this share of the estimable variants."""
        needed = sorted(float("inf") if power.seeds is None else power.seeds for power in self.power)
        found = needed[max(0, int(np.ceil(share * len(needed))) - 1)] if needed else float("inf")
        return None if found == float("inf") else int(found)


def outcome_rows(
    tables: Sequence[ArmTable], comparisons: Sequence[Comparison], inference: Inference
) -> Iterable[OutcomeRow]:
    """Describe every outcome, averaged over families and in each.

    Args:
        tables: The runs of every outcome.
        comparisons: Of every variant with the baseline, in every scope.
        inference: How they were made.
    """
    num_claims = sum(c.is_primary and c.p is not None for c in comparisons)
    for arms in tables:
        own = [c for c in comparisons if c.benchmark == arms.benchmark]
        for family in dict.fromkeys(c.family for c in own):
            yield _row(arms, tuple(c for c in own if c.family == family), num_claims, inference)


def _row(
    arms: ArmTable, comparisons: tuple[Comparison, ...], num_claims: int, inference: Inference
) -> OutcomeRow:
    families, is_relative = comparisons[0].families, comparisons[0].is_relative
    scaled = arms.logarithms if is_relative else arms
    variants = [v for v in arms.variants() if all(len(arms.runs.get((f, v), ())) for f in families)]
    scores = [[scaled.runs[f, v].to_numpy() for v in variants] for f in families]
    spreads = signal_noise(scores)
    if spreads is not None and is_relative:
        signal, noise = (percent_or_own(x, True) for x in (spreads.signal, spreads.noise))
        spreads = replace(spreads, signal=signal, noise=noise)
    estimable = [c for c in comparisons if c.p is not None]
    keys = [key for key, arm in arms.runs.items() if key[0] in families and len(arm)]
    return OutcomeRow(
        comparisons=comparisons,
        power=tuple(
            power_of(arms, c, inference, num_claims if c.is_primary else len(estimable)) for c in estimable
        ),
        spreads=spreads,
        num_arms=len(keys),
        num_above_chance=sum(key in arms.above_chance for key in keys),
    )
