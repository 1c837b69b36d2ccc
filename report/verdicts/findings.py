"""What is shown by comparisons with the baseline: all that a report's first sentences are spoken from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from report.document.markdown import family_label, title
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark, Family, Level, places_of
from report.significance.comparison import (
    AT_CHANCE,
    NOT_ESTIMABLE,
    SHOWN,
    Comparison,
    Inference,
    compare_with_baseline,
)
from report.significance.factor import FACTORS, OF_HEADS, Contrast, Factor, noun
from report.significance.multiple_comparisons import MultipleComparisons, question
from report.statistics.corrections import Holm
from report.statistics.welch import inequality_p

FIRST = 3
"""Outcomes on the first screen."""


@dataclass(frozen=True)
class AtSharedRate:
    """A difference of a tuned study at one rate for all, beside the comparison at each one's own."""

    shared: Comparison
    """By itself: a size, of which no verdict is told."""
    own: Comparison
    """As reported, each variant at its own rate."""


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
    contrasts: tuple[Comparison, ...] = ()
    """Those asked for beside the comparisons with the baseline, corrected with them."""
    is_drawn: bool = True
    """Whether comparisons are corrected by whole studies that were drawn, else by Holm."""
    at_shared_rate: tuple[AtSharedRate, ...] = ()
    """Of the outcome that a tuned study selects by, where it ran the shared rate, too."""

    @property
    def noun(self) -> str:
        """What a variant is called: variant, head, combination of both, size or level."""
        return noun(self.factor)

    @property
    def stratum(self) -> str:
        """What a family is called: a setting where it stands at several places on the axes of a study."""
        return "setting" if any(map(places_of, self.families)) else "family"

    @property
    def strata(self) -> str:
        """Several of them."""
        return "settings" if self.stratum == "setting" else "families"

    @property
    def is_tuned(self) -> bool:
        """Whether each variant was tuned before it was compared, and what the choice adds is known."""
        return any(table.choices for table in self.tables.values())

    @property
    def is_of_heads(self) -> bool:
        """Whether several scores are those of one pretrained model under several heads."""
        return self.factor in OF_HEADS

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
        return [c for c in self.corrected if c.is_primary and c.p is not None]

    @property
    def corrected(self) -> list[Comparison]:
        """Every comparison and contrast, each question once."""
        return [*{question(c): c for c in (*self.contrasts, *self.comparisons)}.values()]

    @property
    def primary(self) -> list[Benchmark]:
        """The outcomes that claims are about."""
        return list(dict.fromkeys(c.benchmark for c in self.comparisons if c.is_primary))

    def scopes(self, benchmark: Benchmark) -> list[Family | None]:
        """The average over families first, where there is one, then each; the average is None."""
        return self.tables[benchmark].scopes(self.families)

    def overall(self, benchmark: Benchmark) -> list[Comparison]:
        """One comparison per variant, averaged over families or in the only one."""
        return self.of(benchmark, self.scopes(benchmark)[0])

    def of(self, benchmark: Benchmark, family: Family | None) -> list[Comparison]:
        """One comparison per variant other than the baseline, in the order of ``others``."""
        return [c for c in self.comparisons if c.benchmark == benchmark and c.family == family]


def find(
    claims: MultipleComparisons,
    factor: Factor,
    families: Sequence[Family],
    baseline: Level,
    others: Sequence[Level],
    contrasts: Sequence[Contrast] = (),
) -> Findings:
    """Compare every variant with the baseline on every metric in every scope, and correct all of it.

    Args:
        claims: The runs of every outcome, which of them are claimed about, and how they are compared.
        factor: Whose levels the variants are.
        families: All of them, in the order in which they are shown.
        baseline: The variant that the others are compared with.
        others: The others; of FFN variants and heads the best comes first.
        contrasts: Further comparisons that were asked for.
    """
    how = claims.inference
    alone = [
        comparison
        for arms in claims.tables.values()
        for comparison in compare_with_baseline(arms, baseline, others, how)
    ]
    comparisons, corrected_contrasts = claims.correct_with(alone, claims.compare(contrasts))
    found = Findings(
        factor=factor,
        inference=how,
        families=tuple(families),
        baseline=baseline,
        variants=(baseline, *others),
        tables=claims.tables,
        comparisons=tuple(comparisons),
        contrasts=tuple(corrected_contrasts),
        is_drawn=claims.is_drawn,
    )
    return best_first(found)


def best_first(findings: Findings) -> Findings:
    """Put variants behind the baseline in one order for all tables and figures.

    The best estimate on the leading metric first, those without one last; sizes and levels have their own
    order.
    """
    if findings.factor not in FACTORS:
        return findings
    leading = by_standing(findings)[0]
    sign = findings.tables[leading].metric.sign
    estimates = {c.contrast.plus[0]: c.estimate for c in findings.overall(leading)}
    others = sorted(findings.others, key=lambda level: rank(estimates[level], sign))
    scopes = list(dict.fromkeys((c.benchmark, c.family) for c in findings.comparisons))

    def place(comparison: Comparison) -> tuple[int, int]:
        scope = scopes.index((comparison.benchmark, comparison.family))
        return scope, others.index(comparison.contrast.plus[0])

    comparisons = tuple(sorted(findings.comparisons, key=place))
    return replace(findings, variants=(findings.baseline, *others), comparisons=comparisons)


def rank(estimate: float | None, sign: int) -> tuple[bool, float]:
    """Sort the best first, and what cannot be estimated last."""
    return estimate is None, -sign * (estimate or 0.0)


def with_shared_rate(findings: Findings, benchmark: Benchmark, shared: ArmTable | None) -> Findings:
    """Set the differences at the shared rate beside the comparisons at each one's own.

    Args:
        findings: What is found at each one's own.
        benchmark: The metric that the study was tuned by.
        shared: Its runs at the shared rate; None where there are none.
    """
    if shared is None or benchmark not in findings.tables:
        return findings
    table = ArmTable(shared.runs, benchmark, metric=shared.metric)
    alone = compare_with_baseline(table, findings.baseline, findings.others, findings.inference)
    at_shared = {(c.family, c.contrast): c for c in alone}
    both = tuple(
        AtSharedRate(at_shared[c.family, c.contrast], c)
        for c in findings.comparisons
        if c.benchmark == benchmark and (c.family, c.contrast) in at_shared
    )
    return replace(findings, at_shared_rate=both)


def uneven(findings: Findings, benchmark: Benchmark) -> dict[Contrast, list[Comparison]]:
    """Return the differences in families, from low to high, of each variant for which they are not the same.

    Welch's test of one difference in all families, of every variant with a claim on their average; by Holm
    over variants.
    """
    average, *families = findings.scopes(benchmark)
    each = zip(findings.of(benchmark, average), *(findings.of(benchmark, f) for f in families), strict=True)
    within = [x for whole, *x in each if whole.is_primary and len(x) > 1 and all(c.p is not None for c in x)]
    p_values = Holm().adjust([_inequality_p(x) for x in within])
    return {
        x[0].contrast: sorted(x, key=lambda c: c.estimate or 0.0)
        for x, p in zip(within, p_values, strict=True)
        if average is None and p is not None and p < findings.inference.level
    }


def _inequality_p(comparisons: Sequence[Comparison]) -> float:
    numbers = np.array([(c.estimate, c.standard_error, c.df) for c in comparisons], dtype=float)
    return max(c.look.p(inequality_p(*numbers.T)) for c in comparisons)


def are_opposite(comparisons: Sequence[Comparison]) -> bool:
    """Whether the lowest and the highest difference, of several in that order, each point another way."""
    first, last = comparisons[0], comparisons[-1]
    is_clear = all((c.p_sequential or 0.0) < 1 - c.confidence for c in (first, last))
    return is_clear and first.is_better is not last.is_better


def named(findings: Findings, comparison: Comparison) -> str:
    """Name a comparison as a sentence does, with its metric and family where there are several."""
    contrast = comparison.contrast
    name = contrast.compared if contrast.minus == (findings.baseline,) else str(contrast)
    metric = f" on {title(comparison.benchmark)}" if len(findings.primary) > 1 else ""
    is_of_one = comparison.family is not None and len(findings.families) > 1
    return f"`{name}`{metric}" + (f" in {family_label(comparison.family)}" if is_of_one else "")


def asked_beside(findings: Findings) -> list[Comparison]:
    """Return primary contrasts asked for that are no comparison with the baseline."""
    with_baseline = set(map(question, findings.comparisons))
    return [c for c in findings.contrasts if c.is_primary and question(c) not in with_baseline]


def place(findings: Findings, benchmark: Benchmark) -> str:
    """Name a metric, with the family when only one of several was scored on it."""
    scopes = findings.scopes(benchmark)
    if len(scopes) > 1 or len(findings.families) == 1:
        return title(benchmark)
    return f"{title(benchmark)} ({family_label(scopes[0])} only)"


def tally(findings: Findings, benchmark: Benchmark) -> str:
    """Count the verdicts on a metric: on average, or of all families without one; empty without claims.

    For instance ``none better, 2 worse, 1 undecided``.
    """
    is_averaged = findings.scopes(benchmark)[0] is None
    of_metric = (c for c in findings.comparisons if c.benchmark == benchmark)
    comparisons = [c for c in of_metric if c.family is None or not is_averaged]
    words = Counter(c.verdict for c in comparisons if c.is_primary)
    if not words:
        return ""
    sides = [f"{words.pop(word, 'none')} {word}" for word in ("better", "worse")]
    return ", ".join([*sides, *(f"{number} {word}" for word, number in words.most_common())])


def can_tell(findings: Findings, benchmark: Benchmark) -> bool:
    """Whether anything is shown on it by a primary comparison."""
    return any(c.verdict in SHOWN for c in findings.comparisons if c.benchmark == benchmark and c.is_primary)


def is_at_chance(findings: Findings, benchmark: Benchmark) -> bool:
    """Whether every comparison that can be made on it is at chance, on average and in each family."""
    verdicts = {c.verdict for scope in findings.scopes(benchmark) for c in findings.of(benchmark, scope)}
    return AT_CHANCE in verdicts and verdicts <= {AT_CHANCE, NOT_ESTIMABLE}


def by_standing(findings: Findings) -> list[Benchmark]:
    """Sort outcomes: those of the claims first; those that can tell, the open ones, those at chance."""
    primary = findings.primary
    return sorted(
        findings.benchmarks,
        key=lambda name: (name not in primary, not can_tell(findings, name), is_at_chance(findings, name)),
    )


def shown_first(findings: Findings) -> list[Benchmark]:
    """Return the outcomes drawn on the first screen: claims that can tell, else the first open ones."""
    order = by_standing(findings)
    claimed = [name for name in order if name in findings.primary] or order
    telling = [name for name in claimed if can_tell(findings, name)]
    return (telling or [name for name in claimed if not is_at_chance(findings, name)] or claimed)[:FIRST]
