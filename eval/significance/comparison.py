"""One comparison with everything the report says of it, and what was chosen before the results were seen."""

from __future__ import annotations

from dataclasses import dataclass

from eval.significance.axes import Benchmark, Family
from eval.significance.contrasts import Contrast
from eval.significance.statistics.bootstrap import RESAMPLES, Bootstrap
from eval.significance.statistics.welch import CONFIDENCE

DEFAULT_MARGIN = 1.0

DIFFERENT, NEGLIGIBLE, EQUIVALENT = "different", "different but negligible", "equivalent"
INCONCLUSIVE, NOT_ESTIMABLE = "inconclusive", "not estimable"


@dataclass(frozen=True, kw_only=True)
class Inference:
    """How comparisons are made; none of it is ever chosen by looking at the scores."""

    confidence: float = CONFIDENCE
    """Level of the intervals; one minus it is the level of every test."""
    margin: float = DEFAULT_MARGIN
    """Percentage points below which a difference is called negligible."""
    paired: bool = False
    """Compare runs of one family and seed with each other instead of the means of arms."""
    bootstrap: Bootstrap = "studentized"
    resamples: int = RESAMPLES
    generator_seed: int = 0

    @property
    def level(self) -> float:
        """Level of every test."""
        return 1 - self.confidence


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One contrast on one benchmark, in percentage points; ``None`` where the runs do not allow a number."""

    benchmark: Benchmark
    contrast: Contrast
    family: Family | None
    """None: averaged over ``families`` with equal weights."""
    families: tuple[Family, ...]
    part: str | None = None
    """Phenomenon or task of the benchmark that this is about; None for the whole benchmark."""
    num_runs_plus: int
    num_runs_minus: int
    estimate: float | None = None
    standard_error: float | None = None
    df: float | None = None
    confidence: float = CONFIDENCE
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    """Corrected over the variants of this benchmark and scope; None outside such a group of tests."""
    p_bh: float | None = None
    """Corrected by Benjamini and Hochberg over all parts and variants of this benchmark."""
    margin: float = DEFAULT_MARGIN
    """Percentage points named negligible before the results."""
    p_equivalence: float | None = None
    """The larger p of the two one-sided tests at ``margin``."""
    smallest_margin: float | None = None
    """The smallest margin at which the two one-sided tests would pass."""
    p_interaction: float | None = None
    """Whether families differ in this difference; None within one family."""
    p_permutation: float | None = None
    permutation_floor: float | None = None
    """The smallest p that so many runs allow."""
    bootstrap: Bootstrap | None = None
    """Which interval stands beside Welch's."""
    bootstrap_low: float | None = None
    bootstrap_high: float | None = None
    hedges_g: float | None = None
    probability_of_superiority: float | None = None
    """Share of pairs of runs in which the first scores higher, ties counted half."""
    minimum_detectable_effect: float | None = None
    """Smallest true difference found with 80% power by this test at this spread, before any correction."""
    reason: str | None = None
    """Why it is not estimable."""
    dropped: tuple[str, ...] = ()
    """Runs without a partner, where runs are paired by seed."""

    @property
    def verdict(self) -> str:
        """One of five; the last two never say that there is no effect."""
        p = next((p for p in (self.p_bh, self.p_holm, self.p) if p is not None), None)
        if p is None or self.p_equivalence is None:
            return NOT_ESTIMABLE
        is_negligible = self.p_equivalence < 1 - self.confidence
        if p < 1 - self.confidence:
            return NEGLIGIBLE if is_negligible else DIFFERENT
        return EQUIVALENT if is_negligible else INCONCLUSIVE

    @property
    def is_different(self) -> bool:
        """Whether a difference is shown, of whatever size."""
        return self.verdict in (DIFFERENT, NEGLIGIBLE)

    @property
    def largest_remaining(self) -> float | None:
        """The largest difference, in either direction, that the interval leaves possible."""
        return None if self.low is None or self.high is None else max(abs(self.low), abs(self.high))
