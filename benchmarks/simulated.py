"""Simulated studies, and what the report says of them: from tables of scores to its first sentences.

Shapes: F families, V variants beside the baseline, O outcomes, n runs in every arm. Scores have a standard
deviation of 1 within an arm, and outcomes of a run a correlation of one half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from eval.report.sections.answer import answer, explored
from eval.report.verdicts.findings import Findings, find
from eval.results.outcome import Outcome
from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark
from eval.significance.claims import Claims
from eval.significance.comparison import EQUIVALENT, WITHIN_MARGIN, Comparison, Inference
from eval.significance.statistics.corrections import Holm

BASELINE = "gelu"
LEVEL_OF_SCORES = 60.0
DIFFERENCE = ("is better", "is worse")
"""How the answer says a difference."""

Noise = Callable[[np.random.Generator, tuple[int, int, int, int]], np.ndarray]
Measures = Mapping[str, float]


def correlated(rng: np.random.Generator, shape: tuple[int, int, int, int]) -> np.ndarray:
    """(F, V + 1, n, O) normal deviations, the baseline's first; half of the variance is the run's."""
    return np.sqrt(0.5) * (rng.normal(size=(*shape[:3], 1)) + rng.normal(size=shape))


def skewed(rng: np.random.Generator, shape: tuple[int, int, int, int]) -> np.ndarray:
    """Gamma of shape 2 instead of normal."""
    return 0.5 * (rng.gamma(2.0, size=(*shape[:3], 1)) + rng.gamma(2.0, size=shape) - 4)


def unequal(rng: np.random.Generator, shape: tuple[int, int, int, int]) -> np.ndarray:
    """The baseline is spread three times as widely as the variants."""
    deviations = correlated(rng, shape)
    deviations[:, 0] *= 3
    return deviations


def collapsed(rng: np.random.Generator, shape: tuple[int, int, int, int]) -> np.ndarray:
    """One run of the study, of whatever arm, lies twenty standard deviations below the others."""
    deviations = correlated(rng, shape)
    deviations[tuple(rng.integers(size) for size in shape[:3])] -= 20
    return deviations


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Studies of one kind."""

    truth: np.ndarray
    """(F, V, O) true differences to the baseline, in standard deviations."""
    runs: int
    noise: Noise = correlated
    margin: float = 1.0

    def draw(self, rng: np.random.Generator) -> dict[Benchmark, ArmTable]:
        """Draw the scores of one study."""
        families, variants, outcomes = self.truth.shape
        scores = LEVEL_OF_SCORES + self.noise(rng, (families, variants + 1, self.runs, outcomes))
        scores[:, 1:] += self.truth[:, :, None]
        seeds, names = pd.RangeIndex(self.runs), (BASELINE, *variant_names(variants))
        return {
            benchmark: ArmTable(
                {
                    (f"family{f}", variant): pd.Series(scores[f, v, :, o], seeds)
                    for f in range(families)
                    for v, variant in enumerate(names)
                },
                benchmark,
                outcome=Outcome(name=str(benchmark), margin=self.margin),
            )
            for o, benchmark in enumerate(map(Benchmark, outcome_names(outcomes)))
        }

    def truths(self, comparison: Comparison) -> np.ndarray:
        """(F,) true differences that a comparison with the baseline is about."""
        variant = variant_names(self.truth.shape[1]).index(comparison.contrast.compared)
        outcome = outcome_names(self.truth.shape[2]).index(str(comparison.benchmark))
        return self.truth[:, variant, outcome]


def variant_names(count: int) -> list[str]:
    """Name variants so that they are sorted by number."""
    return [f"variant{place:02}" for place in range(count)]


def outcome_names(count: int) -> list[str]:
    """Name outcomes in the same way."""
    return [f"outcome{place:02}" for place in range(count)]


def findings_of(
    tables: Mapping[Benchmark, ArmTable], inference: Inference | None = None, only_claims: bool = True
) -> Findings:
    """Compare and correct as the report does, leaving out what no first sentence rests on."""
    arms = next(iter(tables.values()))
    others = [name for name in arms.variants() if name != BASELINE]
    claims = Claims(tables, tuple(tables), inference or Inference())
    return find(claims, "ffn", arms.families, BASELINE, others, thorough=False, only_claims=only_claims)


def measure_claims(scenario: Scenario, findings: Findings) -> Measures:
    """Hold what the report claims against the truth."""
    claims, said = findings.claims, " ".join(answer(findings))
    truths = [scenario.truths(c) for c in claims]
    of_claims = [(c, float(truth.mean())) for c, truth in zip(claims, truths, strict=True)]
    beyond = [c for c, t in zip(claims, truths, strict=True) if np.abs(t).max() >= scenario.margin]
    return {
        "says a difference": any(words in said for words in DIFFERENCE),
        "says equivalent": "equivalent to `" in said and not said.startswith("No variant was shown"),
        "false difference": any(c.is_different and not _is_right(c, t) for c, t in of_claims),
        "false equivalence": any(c.verdict == EQUIVALENT for c in beyond),
        "false within margin": any(c.verdict == WITHIN_MARGIN for c in beyond),
        "intervals with zero": all(_holds(c, t) for c, t in of_claims if not c.is_different),
        "all intervals": all(_holds(c, t) for c, t in of_claims),
        **_power(claims, np.array([t != 0 for _, t in of_claims])),
    }


def measure_explored(findings: Findings) -> Measures:
    """Say what is told beside the claims, and what would be claimed with less correction.

    Args:
        findings: With single families.
    """
    said = explored(findings)
    scopes = [findings.of(name, scope) for name in findings.benchmarks for scope in findings.scopes(name)]
    return {
        "explores": bool(said),
        "explores a difference": any(words in said for words in (*DIFFERENCE, "differ", "disagree")),
        "within each scope": any(map(any, map(_rejected, scopes))),
        "uncorrected": any(_is_below(c.p, c) for c in findings.claims),
    }


def _is_right(comparison: Comparison, truth: float) -> bool:
    return (comparison.estimate or 0.0) * truth > 0


def _holds(comparison: Comparison, truth: float) -> bool:
    low, high = comparison.interval or (-np.inf, np.inf)
    return low <= truth <= high


def _is_below(p: float | None, comparison: Comparison) -> bool:
    return p is not None and p < 1 - comparison.confidence


def _rejected(comparisons: Sequence[Comparison]) -> list[bool]:
    """Say which of them Holm's correction over them alone would call different."""
    corrected = Holm().adjust([c.p for c in comparisons])
    return [_is_below(p, c) for p, c in zip(corrected, comparisons, strict=True)]


def _power(claims: Sequence[Comparison], is_true: np.ndarray) -> Measures:
    """Return the share of true differences found, by what is corrected for."""
    if not is_true.any():
        return {}
    names = dict.fromkeys(c.benchmark for c in claims)  # claims stand by outcome
    within = [found for name in names for found in _rejected([c for c in claims if c.benchmark == name])]
    found = {
        "found uncorrected": [_is_below(c.p, c) for c in claims],
        "found within outcomes": within,
        "found": [c.is_different for c in claims],
    }
    return {name: float(np.mean(np.array(shown)[is_true])) for name, shown in found.items()}
