"""How often the report, and the source study's own interval, are wrong: simulated, with a fixed generator."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from report.statistics.welch import Welch, equivalence_p, welch

RESAMPLES = 10_000


class SourceStudyInterval(NamedTuple):
    """In percentage points."""

    estimate: float
    """The mean of the resampled differences, which is what the study printed."""
    low: float
    high: float


def source_study_interval(first: np.ndarray, second: np.ndarray) -> SourceStudyInterval:
    """Return the study's percentile bootstrap of the difference of means.

    Args:
        first: (N,) scores of the first arm, all families in the order of the table: the draws depend on it.
        second: (M,) scores of the second; N of them are drawn each time, as the study does.
    """
    one, other = _drawn(len(first), len(first)), _drawn(len(second), len(first))
    differences = first[one].mean(1) - second[other].mean(1)
    low, high = np.percentile(differences, [2.5, 97.5])
    return SourceStudyInterval(float(differences.mean()), float(low), float(high))


@lru_cache(maxsize=32)
def _drawn(bound: int, size: int) -> np.ndarray:
    """What the generators of state 0, 1, 2, ... draw first, one row each."""
    generator = np.random.RandomState()
    drawn = np.empty((RESAMPLES, size), dtype=np.intp)
    for state in range(RESAMPLES):
        generator.seed(state)
        drawn[state] = generator.randint(0, bound, size=size)
    return drawn


STUDIES = 100_000


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


def unequal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard deviations 1 and 3 in the two arms."""
    return rng.normal(size=shape) * np.array([1, 3])[np.arange(shape[1]) % 2, None]


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.gamma(2.0, size=shape) - 2.0


def with_outliers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """One run in twenty lies five times as far out."""
    return rng.normal(size=shape) * np.where(rng.random(shape) < 0.05, 5, 1)


SHAPES = {"normal": normal, "unequal": unequal, "skewed": skewed, "outliers": with_outliers}


def studies(shape: str, num_families: int, num_runs: int, difference: float = 0.0) -> Welch:
    """Compare two arms in so many families, the first better by ``difference``."""
    rng = np.random.default_rng([sorted(SHAPES).index(shape), num_families, num_runs])
    cells = SHAPES[shape](rng, (STUDIES, 2 * num_families, num_runs))
    cells[:, ::2] += difference
    weights = np.tile([1.0, -1.0], num_families) / num_families
    return welch(cells.mean(-1), cells.var(-1, ddof=1), [num_runs] * 2 * num_families, weights)


DESIGNS = [(shape, num_runs, families) for shape in SHAPES for num_runs in (3, 6, 10) for families in (1, 2)]


SLOW_DESIGNS = [pytest.param(*design, marks=pytest.mark.slow) for design in DESIGNS[1:]]
IN_ALL_DESIGNS = pytest.mark.parametrize(("shape", "num_runs", "num_families"), [DESIGNS[0], *SLOW_DESIGNS])


@IN_ALL_DESIGNS
def test_interval_covers_as_often_as_it_says(shape: str, num_runs: int, num_families: int):
    """A little conservative at three seeds and never far below 95%."""
    found = studies(shape, num_families, num_runs)
    holds = (found.low <= 0) & (found.high >= 0)
    assert 0.94 <= holds.mean() <= 0.975
    assert ((found.p > 0.05) == holds).all()


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_heads_of_the_same_models_are_rarely_called_different(shape: str):
    """Three seeds, two families, equal heads, paired by model."""
    rng = np.random.default_rng([9, sorted(SHAPES).index(shape)])
    scores = SHAPES[shape](rng, (STUDIES, 2 * 2, 3)).reshape(STUDIES, 2, 2, 3)
    pairs = scores[:, :, 0] - scores[:, :, 1]
    found = welch(pairs.mean(-1), pairs.var(-1, ddof=1), [3, 3], [0.5, 0.5])
    assert 0.02 <= (found.p < 0.05).mean() <= 0.055


@IN_ALL_DESIGNS
def test_a_difference_of_the_margin_is_rarely_called_equivalent(shape: str, num_runs: int, num_families: int):
    """The worst case of the verdict ``equivalent``: a true difference as large as the margin."""
    found = studies(shape, num_families, num_runs, difference=1.0)
    p = equivalence_p(found.estimate, found.standard_error, found.df, margin=1.0)
    assert (p < 0.05).mean() <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("num_runs", "covered"), [(5, 83.4), (6, 85.4)])
def test_the_source_study_s_interval_covers_too_little(num_runs: int, covered: float):
    """As its code draws them, both arms with one generator state: docs/sources.md."""
    rng = np.random.default_rng(11)
    arms = rng.normal(size=(2_000, 2, num_runs))
    intervals = [source_study_interval(first, second) for first, second in arms]
    holds = 100 * np.mean([found.low <= 0 <= found.high for found in intervals])
    assert holds == pytest.approx(covered, abs=2)


@pytest.mark.slow
def test_the_source_study_s_printed_intervals_come_out(shared_data: Path):
    """Its Tables 3 and 4, from its Table 5 in that order of rows and names: docs/sources.md."""
    scores = pd.read_csv(shared_data / "thesis" / "table5.csv")
    printed = {
        ("blimp", "gelu", "learnable-gelu"): (-0.135, -1.16, 0.636),
        ("glue", "gelu", "learnable-gelu"): (-0.878, -2.674, 0.604),
        ("blimp", "relu+silu", "swish+prelu"): (0.442, -1.85, 2.30),
        ("glue", "relu+silu", "swish+prelu"): (1.355, -0.35, 3.05),
    }
    for (benchmark, *sides), numbers in printed.items():
        of_benchmark = scores[scores.benchmark == benchmark]
        first, second = (
            np.concatenate([of_benchmark.score[of_benchmark.variant == name] for name in side.split("+")])
            for side in sides
        )
        # Printed with two or three decimals, and 0.442 of 0.44295 is cut.
        assert tuple(source_study_interval(first, second)) == pytest.approx(numbers, abs=0.002)
