"""The anytime-valid t-test against its Bayes factor, the R package's published example, and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from eval.significance.statistics.looks import MIXTURE, anytime_level, anytime_p


@pytest.mark.parametrize(
    ("t", "df", "num_runs", "mixture"), [(3.1, 4, 3, 0.3), (8, 7.3, 5, 1.0), (5, 10, 6, 2.0)]
)
def test_p_is_one_over_the_bayes_factor_of_a_normal_prior(t: float, df: float, num_runs: int, mixture: float):
    """The density of t under differences drawn from the prior, over its density without a difference."""

    def weighed(effect: float) -> float:
        prior = stats.norm.pdf(effect, scale=1 / np.sqrt(mixture))
        return float(stats.nct.pdf(t, df, effect * np.sqrt(num_runs)) * prior)

    mixed = integrate.quad(weighed, -12, 12, points=[0, t / np.sqrt(num_runs)], limit=400)[0]
    expected = stats.t.pdf(t, df) / mixed
    assert anytime_p(2 * stats.t.sf(t, df), num_runs, df, mixture) == pytest.approx(
        min(1, expected), rel=1e-6
    )


@pytest.mark.parametrize(("t", "published"), [(5.776, 9.77e-06), (8.190, 8.07e-10), (10.769, 3.19e-14)])
def test_agrees_with_the_example_of_the_r_package(t: float, published: float):
    """avlm 0.1.0's README: 100 observations, 8 coefficients, the mixture that is narrowest there."""
    radius = lambda log_g: stats.t.isf(anytime_level(0.05, 100, 92, np.exp(log_g)) / 2, 92)  # noqa: E731
    mixture = np.exp(optimize.minimize_scalar(radius, bounds=(-3, 5), method="bounded").x)
    assert anytime_p(2 * stats.t.sf(t, 92), 100, 92, mixture) == pytest.approx(published, rel=4e-3)


@pytest.mark.parametrize("level", [0.1, 0.05, 0.05 / 54])
@pytest.mark.parametrize(("num_runs", "df"), [(3, 4), (6, 7.7), (20, 76)])
def test_level_inverts_p(level: float, num_runs: int, df: float):
    nominal = anytime_level(level, num_runs, df)
    if nominal == 0:  # so few runs reject nothing
        assert anytime_p(0.0, num_runs, df) >= level
        return
    assert anytime_p(nominal, num_runs, df) == pytest.approx(level, rel=1e-9)
    assert anytime_p(nominal * 1.01, num_runs, df) > level > anytime_p(nominal * 0.99, num_runs, df)


def test_the_mixture_is_near_the_narrowest_where_studies_are():
    """Within 3% of it from 4 to 10 runs in every arm, at 5% in one family."""
    for num_runs in range(4, 11):
        df = 2 * (num_runs - 1)
        radius = [
            stats.t.isf(anytime_level(0.05, num_runs, df, g) / 2, df)
            for g in (MIXTURE, *np.geomspace(0.02, 5, 200))
        ]
        assert radius[0] <= 1.035 * min(radius)
