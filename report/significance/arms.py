"""Runs by arm, and what of them enters a contrast: whole arms, or differences of runs paired by seed.

An arm is the runs of one variant, in one family or averaged over families.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, pairwise
from statistics import median_low
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from report.significance.axes import Benchmark, Family, Level, plain
from report.significance.factor import Contrast
from report.statistics.tuning_curves import NO_CHOICE, Noise, Selection, combined
from report.statistics.welch import NO_SPREAD, judged_variances
from scores.metrics import Metric
from scores.rows import run_name
from scores.suites import USUAL_MARGINS

Key = tuple[Family, Level]
MOST_DIGITS = 5
LEVEL_ABOVE_CHANCE = 0.05


@dataclass(frozen=True)
class Sample:
    """Arms of scores or of paired differences; the contrast is the weighted sum of their means."""

    arms: tuple[np.ndarray, ...]
    weights: tuple[float, ...]
    strata: tuple[Family, ...]
    """The family of each arm."""
    reason: str | None = None
    """Why nothing can be inferred; the arms may then be empty."""
    dropped: tuple[str, ...] = ()
    noises: tuple[Noise, ...] = ()
    """The variance of each arm that it is judged with."""
    choices: tuple[Selection, ...] = ()
    """What tuning adds to each arm; none means nothing to any."""

    @cached_property
    def moments(self) -> np.ndarray:
        """(7, C) moments of every arm.

        Mean, number of runs and weight; the variance of a run that it is judged with, and the degrees of
        freedom of that; then what the choice of a rate adds to the variance of the mean, and those of that.
        """
        choices = self.choices or (NO_CHOICE,) * len(self.arms)
        return np.array(
            [
                (arm.mean(), len(arm), w, *noise, *choice)
                for arm, w, noise, choice in zip(self.arms, self.weights, self.noises, choices, strict=True)
            ]
        ).T

    @property
    def choice(self) -> Selection:
        """What tuning adds to the variance of the contrast."""
        return combined(self.choices, self.weights) if self.choices else NO_CHOICE

    def of_family(self, family: Family) -> Sample:
        """Return the part of one family, weighted to its own difference."""
        is_here = [stratum == family for stratum in self.strata]
        num_families = len(set(self.strata))
        return Sample(
            arms=tuple(compress(self.arms, is_here)),
            weights=tuple(weight * num_families for weight in compress(self.weights, is_here)),
            strata=tuple(compress(self.strata, is_here)),
            noises=tuple(compress(self.noises, is_here)),
            choices=tuple(compress(self.choices, is_here)),
        )


class ArmTable:
    """The run scores of one benchmark by arm, or those of one of its parts.

    Args:
        runs: Family and variant to the scores of the arm's runs by seed.
        benchmark: Which one these are of.
        part: Phenomenon or task, None for the whole benchmark.
        metric: What the scores are; None takes percentages of which nothing else is known.
        choices: What tuning adds to the variance of an arm's mean.
    """

    def __init__(
        self,
        runs: Mapping[Key, pd.Series],
        benchmark: Benchmark,
        part: str | None = None,
        metric: Metric | None = None,
        choices: Mapping[Key, Selection] | None = None,
    ) -> None:
        self.runs = runs
        self.choices = choices or {}
        self.benchmark = benchmark
        self.part = part
        self.metric = metric or Metric(name=str(benchmark), margin=USUAL_MARGINS["percent"])
        self.families = sorted({family for family, _ in runs})
        self._samples: dict[tuple[Contrast, tuple[Family, ...], bool], Sample] = {}
        self._squares: dict[Key, tuple[int, float, float]] = {}
        self._noises: dict[Family, dict[Key, Noise]] = {}

    @classmethod
    def of_scores(cls, scores: pd.DataFrame, benchmark: Benchmark, **details: Any) -> ArmTable:
        """Group a table of family, variant, seed and score, one row a run; details are those of the class."""
        ordered = scores.sort_values(["family", "variant", "seed"])
        return cls(dict(arms_in_order(ordered, ["family", "variant"])), benchmark, **details)

    def with_runs(self, runs: Mapping[Key, pd.Series]) -> ArmTable:
        """Return the table with other runs of the same metric."""
        return ArmTable(runs, self.benchmark, self.part, self.metric, self.choices)

    def without(self, family: Family, variant: Level, seed: int) -> ArmTable:
        """Return the table without one run; its arm stays, even if empty."""
        key = (family, variant)
        arm = self.runs[key]
        table = self.with_runs({**self.runs, key: arm[arm.index != seed]})
        # What the other arms and families come to stays: a report leaves out thousands of runs in turn.
        table._squares = {other: squares for other, squares in self._squares.items() if other != key}
        table._noises = {other: noises for other, noises in self._noises.items() if other != family}
        return table

    def squares(self, key: Key) -> tuple[int, float, float]:
        """Return the number of runs of an arm that has any, their mean, and the sum of squares about it."""
        if key not in self._squares:
            arm = self.runs[key].to_numpy()
            mean = arm.mean()
            self._squares[key] = len(arm), float(mean), float(((arm - mean) ** 2).sum())
        return self._squares[key]

    def variants(self) -> list[Level]:
        """Return every variant that has a run, by name."""
        return sorted({variant for _, variant in self.runs})

    def scopes(self, families: Sequence[Family] | None = None) -> list[Family | None]:
        """Return what is compared: the average over families, as None, then each; or the only family.

        Losses of different objectives differ in scale, so they have no average. Settings of one family have
        one objective.

        Args:
            families: In the order wanted, those that have runs; None takes them by name.
        """
        ordered = [family for family in families or self.families if family in self.families]
        has_average = not (self.metric.is_relative and len(set(map(plain, ordered))) > 1)
        return [None, *ordered] if len(ordered) > 1 and has_average else list(ordered)

    def digits(self, families: Sequence[Family]) -> int:
        """Decimals with which the spread over seeds has two digits that count; 2 where there is none.

        It is pooled over arms, but no more than twice that of the middle one: a single collapsed run must not
        round off all other differences.
        """
        return _digits([spread for f in families for spread in self._spreads.get(f, ())])

    @cached_property
    def _spreads(self) -> dict[Family, list[tuple[int, float]]]:
        """Degrees of freedom and variance of every arm with two runs or more, by family."""
        spreads: dict[Family, list[tuple[int, float]]] = {}
        for key, arm in self.runs.items():
            if len(arm) > 1:
                count, _, squares = self.squares(key)
                spreads.setdefault(key[0], []).append((count - 1, squares / (count - 1)))
        return spreads

    @cached_property
    def above_chance(self) -> frozenset[Key]:
        """Arms that are shown to score more than the margin above chance, if chance is known.

        One-sided t-tests at 5% over all arms (Bonferroni), half of it with the variance within all of the
        family and half with that of the arm: one that is spread widely must not hide what others learnt.
        """
        chance, sign = self.metric.chance, self.metric.sign
        if chance is None:
            return frozenset(self.runs)
        level, above = LEVEL_ABOVE_CHANCE / 2 / max(1, len(self.runs)), set()
        for family in self.families:
            arms = {key: self.squares(key) for key, arm in self.runs.items() if key[0] == family and len(arm)}
            pooled = sum(count - 1 for count, _, _ in arms.values()), sum(x for _, _, x in arms.values())
            for key, (count, mean, squares) in arms.items():
                lead = sign * (mean - chance) - (self.metric.margin or 0.0)
                of_arm = [(count - 1, squares)] if squares > NO_SPREAD**2 else []
                if any(_is_above_zero(lead, count, df, total, level) for df, total in (pooled, *of_arm)):
                    above.add(key)
        return frozenset(above)

    def sample(self, contrast: Contrast, families: Sequence[Family], is_paired: bool) -> Sample:
        """Gather what a contrast over these families, weighed alike, is made of."""
        key = (contrast, tuple(families), is_paired)
        if key not in self._samples:
            gather = self._paired if is_paired else self._whole
            self._samples[key] = gather(contrast, families)
        return self._samples[key]

    def noise(self, key: Key) -> Noise:
        """Return the variance of a run of an arm that differences are judged with."""
        family, _ = key
        if family not in self._noises:
            self._noises[family] = self._noises_of(family)
        return self._noises[family][key]

    def _noises_of(self, family: Family) -> dict[Key, Noise]:
        keys = [key for key, arm in self.runs.items() if key[0] == family and len(arm)]
        moments = [self.squares(key) for key in keys]
        df = np.array([count - 1 for count, _, _ in moments], dtype=float)
        variances = np.array([squares for _, _, squares in moments]) / np.maximum(df, 1)
        judged = judged_variances(variances, df)
        noises = map(Noise, judged.variance.tolist(), judged.df.tolist())
        return dict(zip(keys, noises, strict=True))

    def _whole(self, contrast: Contrast, families: Sequence[Family]) -> Sample:
        weights = {(f, v): w / len(families) for f in families for v, w in contrast.weights().items()}
        keys = sorted(weights)
        arms = [self.runs[key].to_numpy() if key in self.runs else np.empty(0) for key in keys]
        return Sample(
            arms=tuple(arms),
            weights=tuple(weights[key] for key in keys),
            strata=tuple(f for f, _ in keys),
            noises=tuple(self.noise(key) for key in keys) if all(map(len, arms)) else (),
            choices=tuple(self.choices.get(key, NO_CHOICE) for key in keys if self.choices),
            reason=_too_few(dict(zip(keys, map(len, arms), strict=True))),
        )

    def choice(self, contrast: Contrast, family: Family) -> Selection:
        """Return what tuning adds to the variance of the mean difference within a family."""
        weights = contrast.weights()
        return combined([self.choices.get((family, v), NO_CHOICE) for v in weights], [*weights.values()])

    def _paired(self, contrast: Contrast, families: Sequence[Family]) -> Sample:
        variants = sorted(contrast.weights())
        keys = sorted((family, variant) for family in families for variant in variants)
        if absent := [f"{f} {v}" for f, v in keys if not len(self.runs.get((f, v), ()))]:
            return Sample((), (), (), reason=f"no run of {', '.join(absent)}")
        arms, dropped = [], []
        for family in families:
            scores = {v: self.runs[family, v] for v in variants}
            table = pd.DataFrame(scores)
            paired = table.dropna()
            unpaired = table.drop(paired.index)
            dropped += [
                run_name((family, v, seed)) for v in scores for seed in unpaired.index[unpaired[v].notna()]
            ]
            arms.append(sum(w * paired[v].to_numpy() for v, w in contrast.weights().items()))
        few = [f"{family} ({len(arm)})" for family, arm in zip(families, arms, strict=True) if len(arm) < 2]
        return Sample(
            arms=tuple(map(np.asarray, arms)),
            weights=(1 / len(families),) * len(families),
            strata=tuple(families),
            noises=tuple(Noise(float(arm.var(ddof=1)), len(arm) - 1) for arm in arms if len(arm) > 1),
            choices=tuple(self.choice(contrast, family) for family in families if self.choices),
            reason=f"number seeds alike: fewer than two pairs in {', '.join(few)}" if few else None,
            dropped=tuple(dropped),
        )


def arms_in_order(scores: pd.DataFrame, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], pd.Series]]:
    """Cut a table that is sorted by ``keys`` into arms: what they have in each, and its scores by seed.

    An arm is a stretch of the table: a report of many tasks makes tens of thousands.
    """
    values, seeds = scores["score"].to_numpy(float), scores["seed"].to_numpy()
    is_start = (scores[keys] != scores[keys].shift()).any(axis=1).to_numpy()
    starts = np.flatnonzero(is_start)
    names = scores[keys].iloc[starts].itertuples(index=False, name=None)
    for name, (start, end) in zip(names, pairwise([*starts, len(scores)]), strict=True):
        yield name, pd.Series(values[start:end], index=seeds[start:end])


def _digits(spreads: Sequence[tuple[int, float]]) -> int:
    df, variances = [df for df, _ in spreads], [variance for _, variance in spreads]
    if not spreads or (pooled := math.sqrt(np.average(variances, weights=df))) < NO_SPREAD:
        return 2
    middle = math.sqrt(median_low(variances))
    spread = pooled if middle < NO_SPREAD else min(pooled, 2 * middle)
    return min(max(1 - math.floor(math.log10(spread)), 1), MOST_DIGITS)


def _is_above_zero(mean: float, count: int, df: int, squares: float, level: float) -> bool:
    """Test one-sided whether a mean of so many runs is above zero, with a variance of squares / df.

    Without any spread every mean above zero is; of a single run without others nothing is known, so it is.
    """
    error = math.sqrt(squares / df / count) if df else 0.0
    return mean > 0 and (error < NO_SPREAD or bool(special.stdtr(df, -mean / error) < level))


def _too_few(runs: Mapping[Key, int]) -> str | None:
    for number, words in ((0, "no run of"), (1, "one run only of")):
        if arms := [f"{family} {variant}" for (family, variant), n in runs.items() if n == number]:
            return f"{words} {', '.join(arms)}"
    return None
