"""The hierarchical model: simulation-based calibration, Welch for many runs, closed forms of shrinkage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.hierarchical import Prior, posterior_means, sample, within_scale
from eval.significance.statistics.welch import welch

# Runs by family and variant: unequal arms, one of a single run and one of none; spreads are in prior scales.
UNEQUAL = ((4, 2, 3), (1, 0, 3))
BALANCED = ((5, 5, 5, 5, 5), (5, 5, 5, 5, 5))
PAIRED = ((4, 3, 4), (3, 2, 4))
ONE_FAMILY = ((3, 2),)
NUM_RANKS = 16


def prior_of(scores: np.ndarray, is_paired: bool = False) -> Prior:
    scale = within_scale(scores, is_paired)
    assert scale is not None
    return Prior(scale)


def half_t(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return 2 * np.abs(rng.standard_t(3, size=shape))


def calibration(counts: tuple[tuple[int, ...], ...], num_parts: int, num_studies: int, is_paired: bool):
    """Ranks of true values among draws from the posterior, by parameter (Talts et al. 2018, algorithm 1).

    True values come from the prior, scores from them; what is flat in the prior may have any value.
    """
    rng = np.random.default_rng([num_parts, num_studies, is_paired])
    runs = np.array(counts)
    num_families, num_variants = runs.shape
    shape = (num_studies, num_parts, num_families, num_variants)
    tau_a, tau_b = half_t(rng, (num_studies, 1, 1)), half_t(rng, (num_studies, 1, 1, 1))
    tau_b = tau_b if num_families > 1 else 0 * tau_b
    family_sds = 2 * np.abs(rng.normal(size=(*shape[:3], 1)))
    sds = family_sds / np.sqrt(rng.chisquare(4, size=shape) / 4)
    a = tau_a[..., None] * rng.standard_t(4, size=(*shape[:2], 1, num_variants))
    means = 70 + a + tau_b * rng.standard_t(4, size=shape)
    scores = means[..., None] + sds[..., None] * rng.normal(size=(*shape, runs.max()))
    if is_paired:
        scores += 5 * rng.normal(size=(*shape[:3], 1, runs.max()))
    scores[:, :, np.arange(runs.max()) >= runs[..., None]] = np.nan
    found = sample(scores, Prior(1.0), rng, 40, NUM_RANKS - 1, thinning=10, is_paired=is_paired)
    true = {"tau_a": tau_a[:, 0, 0], "smallest sd": sds.min((1, 2, 3))}
    drawn = {"tau_a": found.effect_scales[..., 0], "smallest sd": found.run_sds.min((2, 3, 4))}
    if num_families > 1:
        true["tau_b"], drawn["tau_b"] = tau_b[:, 0, 0, 0], found.effect_scales[..., 1]
    for v in range(1, num_variants):
        true[f"difference {v}"] = (means[..., v] - means[..., 0]).mean((1, 2))
        drawn[f"difference {v}"] = (found.means[..., v] - found.means[..., 0]).mean((2, 3))
    true["last in one family"] = means[:, -1, -1, -1] - means[:, -1, -1, 0]
    drawn["last in one family"] = found.means[:, :, -1, -1, -1] - found.means[:, :, -1, -1, 0]
    return {name: (drawn[name] < true[name].reshape(num_studies)).sum(0) for name in true}


def uniformity_p(ranks: np.ndarray) -> float:
    return float(stats.chisquare(np.bincount(ranks, minlength=NUM_RANKS)).pvalue)


@pytest.mark.parametrize(("counts", "is_paired"), [(UNEQUAL, False), (PAIRED, True)])
@pytest.mark.ci
def test_ranks_of_true_values_are_uniform(counts, is_paired: bool):
    found = {name: uniformity_p(ranks) for name, ranks in calibration(counts, 2, 300, is_paired).items()}
    assert min(found.values()) > 1e-3, found


def test_ranks_tell_a_posterior_that_is_too_narrow():
    shares = stats.norm.cdf(1.3 * stats.norm.rvs(size=500, random_state=1))
    narrow = stats.binom.rvs(NUM_RANKS - 1, shares, random_state=2)
    assert uniformity_p(narrow) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "num_parts", "is_paired"),
    [
        (UNEQUAL, 1, False),
        (UNEQUAL, 3, False),
        (PAIRED, 3, True),
        (BALANCED, 1, False),
        (BALANCED, 1, True),
        (ONE_FAMILY, 1, False),
    ],
)
def test_ranks_of_true_values_are_uniform_in_many_studies(counts, num_parts, is_paired):
    found = {
        name: uniformity_p(ranks) for name, ranks in calibration(counts, num_parts, 4_000, is_paired).items()
    }
    print(counts, num_parts, is_paired, {name: round(p, 3) for name, p in found.items()})
    assert min(found.values()) > 1e-3, found


def many_runs(num_runs: int) -> np.ndarray:
    """One part, two families of other levels and spreads, three variants; the second arm spreads widely."""
    rng = np.random.default_rng(5)
    means = np.array([[70.0, 74.0, 65.0], [60.0, 61.0, 64.0]])
    sds = np.array([[1.0, 3.0, 1.0], [0.5, 0.5, 1.0]])
    return (means[..., None] + sds[..., None] * rng.normal(size=(2, 3, num_runs)))[None]


@pytest.mark.parametrize("variant", [1, 2])
def test_of_many_runs_intervals_are_those_of_welch_and_of_its_two_tests(variant: int):
    scores = many_runs(80)
    drawn = posterior_means(scores, prior_of(scores), np.random.default_rng(0))[:, 0]
    drawn = (drawn[..., variant] - drawn[..., 0]).mean(1)
    arms = scores[0][:, [variant, 0]].reshape(4, -1)
    expected = welch(arms.mean(1), arms.var(1, ddof=1), [80] * 4, [0.5, -0.5] * 2)
    interval = np.quantile(drawn, [0.025, 0.975])
    error = float(expected.standard_error)
    assert interval == pytest.approx([float(expected.low), float(expected.high)], abs=0.2 * error)
    assert (drawn > 0).mean() == pytest.approx(
        1 - stats.t.sf(expected.estimate / error, expected.df), abs=0.03
    )
    for margin in abs(float(expected.estimate)) + error * np.array([-1, 0, 1, 2]):
        # The p-values of the two one-sided tests.
        of_less, of_more = stats.t.sf((np.array([1, -1]) * expected.estimate + margin) / error, expected.df)
        within = 1 - of_less - of_more
        assert (np.abs(drawn) < margin).mean() == pytest.approx(within, abs=0.05)


def expected_share(scores: np.ndarray, prior: Prior) -> float:
    """E[tau^2 / (tau^2 + r^2 / n)] of one balanced family whose arms have one spread r, by quadrature."""
    num_variants, num_runs = scores.shape
    means = scores.mean(1)
    within, between = ((scores - means[:, None]) ** 2).sum(), ((means - means.mean()) ** 2).sum()
    grid = np.exp(np.linspace(-7, 5, 600)) * prior.scale
    tau, r = grid[:, None], grid[None]
    total = tau**2 + r**2 / num_runs
    log_density = (
        stats.t.logpdf(tau / (2 * prior.scale), 3) + np.log(tau) + stats.norm.logpdf(r / (2 * prior.scale))
        + np.log(r) - num_variants * (num_runs - 1) * np.log(r) - within / (2 * r**2)
        - (num_variants - 1) / 2 * np.log(total) - between / (2 * total)
    )  # fmt: skip
    density = np.exp(log_density - log_density.max())
    return float((density * tau**2 / total).sum() / density.sum())


@pytest.mark.parametrize(("num_variants", "spread"), [(2, 1.0), (5, 0.3), (8, 1.0), (40, 0.7)])
def test_balanced_differences_shrink_by_the_closed_form(num_variants: int, spread: float):
    rng = np.random.default_rng(num_variants)
    scores = 50 + spread * rng.normal(size=(num_variants, 1)) + rng.normal(size=(num_variants, 4))
    prior = Prior(1.1, effect_df=1e7, arm_df=1e7)
    drawn = posterior_means(scores[None, None], prior, np.random.default_rng(0))[:, 0, 0].mean(0)
    share, raw = expected_share(scores, prior), scores.mean(1)
    assert drawn - drawn.mean() == pytest.approx(share * (raw - raw.mean()), abs=0.05)
    if num_variants == 40:
        james_stein = (
            1 - (num_variants - 3) * scores.var(1, ddof=1).mean() / 4 / ((raw - raw.mean()) ** 2).sum()
        )
        assert share == pytest.approx(james_stein, abs=0.05)


def test_parts_lend_each_other_the_spread_of_their_effects():
    """Where eleven parts show nothing, the twelfth is believed less than by itself."""
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(12, 2, 4, 5))
    scores[0, :, 1] += 1.5
    prior = prior_of(scores)
    together = posterior_means(scores, prior, np.random.default_rng(0))[:, 0]
    alone = posterior_means(scores[:1], prior, np.random.default_rng(0))[:, 0]
    among, by_itself = ((x[..., 1] - x[..., 0]).mean() for x in (together, alone))
    raw = (scores[0, :, 1] - scores[0, :, 0]).mean()
    assert 0 < among < by_itself < raw


def test_draws_follow_unit_and_level_of_the_scores():
    scores = many_runs(4)
    drawn = posterior_means(scores, prior_of(scores), np.random.default_rng(0))
    other = 1e-3 * scores - 7
    assert posterior_means(other, prior_of(other), np.random.default_rng(0)) == pytest.approx(
        1e-3 * drawn - 7, abs=1e-8
    )


def test_an_arm_without_runs_is_predicted_with_less_certainty():
    scores = many_runs(6)
    whole = posterior_means(scores, prior_of(scores), np.random.default_rng(0))
    scores[0, 1, 2] = np.nan
    drawn = posterior_means(scores, prior_of(scores), np.random.default_rng(0))
    whole_sd, sd = ((x[:, 0, 1, 2] - x[:, 0, 1, 0]).std() for x in (whole, drawn))
    assert np.isfinite(drawn).all()
    assert sd > 1.5 * whole_sd


@pytest.mark.parametrize("num_families", [1, 2, 3])
def test_variants_that_lie_a_million_spreads_apart_are_neither_moved_nor_fatal(num_families: int):
    rng = np.random.default_rng(6)
    means = 1e6 * rng.normal(size=(3, 1, 5, 1))
    scores = means + rng.normal(size=(3, num_families, 5, 4))
    drawn = posterior_means(scores, prior_of(scores), np.random.default_rng(0))
    raw = scores.mean(-1)
    assert np.median(drawn, axis=0) - raw == pytest.approx(0, abs=1)


def test_pairs_take_off_what_seeds_share():
    rng = np.random.default_rng(4)
    seeds = 5 * rng.normal(size=(1, 1, 1, 6))
    scores = seeds + np.array([0.0, 1.0])[:, None] + 0.3 * rng.normal(size=(1, 1, 2, 6))
    drawn = {
        is_paired: posterior_means(scores, prior_of(scores, is_paired), np.random.default_rng(0), is_paired)
        for is_paired in (False, True)
    }
    sds = {is_paired: (x[..., 1] - x[..., 0]).std() for is_paired, x in drawn.items()}
    pairs = scores[0, 0, 1] - scores[0, 0, 0]
    assert (drawn[True][..., 1] - drawn[True][..., 0]).mean() == pytest.approx(pairs.mean(), abs=0.1)
    error = pairs.std(ddof=1) / np.sqrt(6)
    assert sds[True] == pytest.approx(error * np.sqrt(5 / 3), rel=0.35)  # that of a t with five degrees
    assert sds[False] > 4 * sds[True]


def test_the_spread_within_arms_is_pooled_by_degrees_of_freedom():
    scores = np.full((1, 1, 3, 4), np.nan)
    scores[0, 0, 0], scores[0, 0, 1, :2], scores[0, 0, 2, 0] = [1, 2, 4, 7], [10, 13], 100
    variances = [np.var([1, 2, 4, 7], ddof=1), np.var([10, 13], ddof=1)]
    assert within_scale(scores) == pytest.approx(np.sqrt(np.average(variances, weights=[3, 1])))
    assert within_scale(scores[..., :1]) is None
    both = scores[0, 0, 0, :2] - scores[0, 0, 1, :2]
    assert within_scale(scores, is_paired=True) == pytest.approx(both.std(ddof=1) / np.sqrt(2))
