"""Error rates of studies whose seeds are added until their comparisons are decided, simulated.

The rule is written here a second time, for many studies at once: Welch's t and two one-sided tests at each
look, Holm over all comparisons of a study, a decision stays with the numbers that it was made with.
"""

import numpy as np
import pytest
from scipy import stats

from report.statistics.looks import Look, find_looks, one_sided

LOOKS = (3, 6, 9, 12)
LEVEL = 0.05
NUM_STUDIES = 20_000


def simulate(means: list[float], margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Run studies of one baseline, whose mean is 0, and variants with these means; all spreads are 1.

    Returns:
        (N, M): for which variants a difference was shown, and which were shown to be equivalent.
    """
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(NUM_STUDIES, 1 + len(means), LOOKS[-1])) + np.array([0.0, *means])[:, None]
    looks = find_looks(LOOKS)
    shape = (NUM_STUDIES, len(means))
    different, equivalent = np.zeros(shape, bool), np.zeros(shape, bool)
    p, p_within = np.ones(shape), np.ones(shape)
    for num in LOOKS:
        undecided = ~(different | equivalent)
        now, within = p_values_of(scores[:, :, :num], margin)
        look = looks.at(num)
        p[undecided] = sequential(now[undecided], look)
        p_within[undecided] = sequential(within[undecided], look, is_one_sided=True)
        different |= undecided & (holm(p) < LEVEL)
        equivalent |= undecided & ~different & (holm(p_within) < LEVEL)
    # Whatever came later: a correction over the numbers of then and of now takes no decision back.
    assert (holm(p)[different] < LEVEL).all()
    assert (holm(p_within)[equivalent] < LEVEL).all()
    return different, equivalent


def p_values_of(scores: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Two-sided p of Welch's test of every variant with the baseline, and the larger of two one-sided."""
    mean, error = scores.mean(axis=2), scores.var(axis=2, ddof=1) / scores.shape[2]
    total = error[:, 1:] + error[:, :1]
    df = total**2 * (scores.shape[2] - 1) / (error[:, 1:] ** 2 + error[:, :1] ** 2)
    size = np.abs(mean[:, 1:] - mean[:, :1])
    return 2 * stats.t.sf(size / np.sqrt(total), df), stats.t.cdf((size - margin) / np.sqrt(total), df)


def sequential(p: np.ndarray, look: Look, is_one_sided: bool = False) -> np.ndarray:
    """Sequential p-values of those that may be below the level; they are never below p."""
    found = p.copy()
    for place in np.flatnonzero(p < LEVEL):
        found[place] = one_sided(look, p[place]) if is_one_sided else look.p(p[place])
    return found


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's corrected p-values along the last axis."""
    order = np.argsort(p, axis=1)
    steps = np.take_along_axis(p, order, axis=1) * np.arange(p.shape[1], 0, -1)
    corrected = np.empty_like(p)
    np.put_along_axis(corrected, order, np.maximum.accumulate(steps, axis=1), axis=1)
    return corrected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("means", "margin"),
    [
        *(([0.0] * num, margin) for num in (1, 3, 8) for margin in (1.0, 3.0)),
        ([6.0, 6.0, 3.0, 0.0, 0.0, 0.0], 1.0),
    ],
)
def test_equal_variants_are_called_different_in_at_most_one_study_of_twenty(means, margin):
    """By themselves and among others."""
    different, _ = simulate(means, margin)
    rate = different[:, np.array(means) == 0].any(axis=1).mean()
    print(f"means {means}, margin {margin:g}: {rate:.2%} different")
    assert rate < LEVEL + 0.004  # two standard errors and more
    assert rate > 0.03 or margin > 1 or any(means)  # the level is not given away, unless equivalence is first


@pytest.mark.slow
@pytest.mark.parametrize(("num", "margin"), [(1, 1.5), (4, 1.5), (1, 3.0), (4, 3.0)])
def test_variants_at_the_margin_are_called_equivalent_in_at_most_one_study_of_twenty(num, margin):
    _, equivalent = simulate([margin] * num, margin)
    rate = equivalent.any(axis=1).mean()
    print(f"{num} variants at the margin of {margin:g}: {rate:.2%} equivalent")
    assert rate < LEVEL + 0.004
