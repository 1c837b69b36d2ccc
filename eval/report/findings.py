"""What is shown by comparisons with the baseline: all that a report's first sentences are spoken from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark, Family, Level
from eval.significance.claims import Claims
from eval.significance.compare import compare_with_baseline, scopes
from eval.significance.comparison import Comparison, Inference
from eval.significance.factor import NOUNS, Factor


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Every comparison with the baseline, corrected, and the runs of every outcome."""

    factor: Factor
    """Whose levels the variants are."""
    inference: Inference
    families: tuple[Family, ...]
    baseline: Level
    variants: tuple[Level, ...]
    """The baseline first."""
    tables: Mapping[Benchmark, ArmTable]
    """The runs of every outcome, in the order in which they are shown."""
    comparisons: tuple[Comparison, ...]

    @property
    def noun(self) -> str:
        """What a variant is called: variant, head or combination of both."""
        return NOUNS[self.factor]

    @property
    def is_of_heads(self) -> bool:
        """Whether several scores are those of one pretrained model under several heads."""
        return self.factor != "ffn"

    @property
    def confidence(self) -> float:
        """Level of the intervals."""
        return self.inference.confidence

    @property
    def others(self) -> tuple[Level, ...]:
        """Every variant but the baseline."""
        return self.variants[1:]

    @property
    def benchmarks(self) -> tuple[Benchmark, ...]:
        """Every outcome, in the order of ``tables``."""
        return tuple(self.tables)

    @property
    def claims(self) -> list[Comparison]:
        """What was corrected together, and may be concluded."""
        return [c for c in self.comparisons if c.is_primary and c.p is not None]

    @property
    def primary(self) -> list[Benchmark]:
        """The outcomes that claims are about."""
        return list(dict.fromkeys(c.benchmark for c in self.comparisons if c.is_primary))

    def scopes(self, benchmark: Benchmark) -> list[Family | None]:
        """The average over families first, then each; the average is None."""
        present = self.tables[benchmark].families
        return scopes([family for family in self.families if family in present])

    def overall(self, benchmark: Benchmark) -> list[Comparison]:
        """One comparison per variant, averaged over families or in the only one."""
        return self.of(benchmark, self.scopes(benchmark)[0])

    def of(self, benchmark: Benchmark, family: Family | None) -> list[Comparison]:
        """One comparison per variant other than the baseline, in the order of ``others``."""
        return [c for c in self.comparisons if c.benchmark == benchmark and c.family == family]


def find(
    claims: Claims,
    factor: Factor,
    families: Sequence[Family],
    baseline: Level,
    others: Sequence[Level],
    thorough: bool = True,
    only_claims: bool = False,
) -> Findings:
    """Compare every variant with the baseline on every outcome in every scope, and correct all of it.

    Args:
        claims: The runs of every outcome, which of them are claimed about, and how they are compared.
        factor: Whose levels the variants are.
        families: All of them, in the order in which they are shown.
        baseline: The variant that the others are compared with.
        others: The others, in the order wanted.
        thorough: Also what no verdict rests on: permutation, bootstrap, power.
        only_claims: Leave out single families, which no claim rests on.
    """
    how = claims.inference
    alone = [
        comparison
        for arms in claims.tables.values()
        for comparison in compare_with_baseline(arms, baseline, others, how, thorough, only_claims)
    ]
    return Findings(
        factor=factor,
        inference=how,
        families=tuple(families),
        baseline=baseline,
        variants=(baseline, *others),
        tables=claims.tables,
        comparisons=tuple(claims.with_intervals(claims.correct(alone))),
    )
