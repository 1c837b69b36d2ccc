"""Seeds and items, and variance components: formulas, draws and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.items import benchmark_scores, infer, task_sizes
from eval.significance.statistics.variance_components import (
    Components,
    arm_components,
    pooled_components,
    score_shares,
)

SIZES = (7, 30, 12)
TASKS = np.repeat(np.arange(3), SIZES)


def outcomes_of(num_runs: int, seed: int = 0) -> np.ndarray:
    """Right, wrong and a few ties, with some items harder than others."""
    generator = np.random.default_rng(seed)
    hard = generator.random(len(TASKS))
    right = (generator.random((num_runs, len(TASKS))) < hard).astype(np.float32)
    right[generator.random(right.shape) < 0.05] = 0.5
    return right


def mean_of_task_means(values: np.ndarray, tasks: np.ndarray) -> float:
    return 100 * float(np.mean([values[tasks == task].astype(float).mean() for task in np.unique(tasks)]))


def test_scores_are_means_over_tasks_of_means_over_items():
    outcomes = outcomes_of(4)
    expected = [mean_of_task_means(run, TASKS) for run in outcomes]
    assert benchmark_scores(outcomes, TASKS) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("tasks", [[], [1, 1], [0, 2], [0, 1, 0]])
def test_items_must_be_sorted_by_task(tasks: list[int]):
    with pytest.raises(ValueError, match="sorted by task"):
        task_sizes(np.array(tasks, dtype=int))


WEIGHTS = [0.5, -0.5, 0.5, -0.5]


def arms_of(num_runs: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    outcomes = outcomes_of(sum(num_runs), seed)
    return np.split(outcomes, np.cumsum(num_runs)[:-1])


def test_standard_errors_are_those_of_runs_and_of_items_by_themselves():
    arms = arms_of((6, 5, 6, 7))
    result = infer(arms, TASKS, WEIGHTS, 0.95)
    scores = [[mean_of_task_means(run, TASKS) for run in arm] for arm in arms]
    assert result.estimate == pytest.approx(sum(w * np.mean(x) for w, x in zip(WEIGHTS, scores, strict=True)))
    seeds = sum(np.var(x, ddof=1) / len(x) / 4 for x in scores)
    assert result.standard_error_seeds == pytest.approx(np.sqrt(seeds))
    of_item = 100 * sum(w * arm.astype(float).mean(axis=0) for w, arm in zip(WEIGHTS, arms, strict=True))
    variance = sum(of_item[task == TASKS].var(ddof=1) / size for task, size in enumerate(SIZES))
    assert result.standard_error_items == pytest.approx(np.sqrt(variance) / len(SIZES))


def test_the_error_over_items_is_the_spread_over_items_drawn_anew():
    arms = arms_of((6, 5, 6, 7))
    result, rng = infer(arms, TASKS, WEIGHTS, 0.95), np.random.default_rng(0)
    of_item = 100 * sum(w * arm.astype(float).mean(axis=0) for w, arm in zip(WEIGHTS, arms, strict=True))
    drawn = [
        rng.choice(own, (20_000, size)).mean(1) * np.sqrt(size / (size - 1))  # draws spread by 1 - 1 / size
        for size in SIZES
        for own in [of_item[SIZES.index(size) == TASKS]]
    ]
    assert np.std(np.mean(drawn, axis=0)) == pytest.approx(result.standard_error_items, rel=0.03)


def test_the_interval_is_that_of_welchs_test_where_items_are_alike():
    """Nothing but seeds is left: one outcome a run, the same on all items of a task."""
    scores = [np.array([0.5, 0.6, 0.7, 0.55]), np.array([0.5, 0.4, 0.45])]
    arms = [np.repeat(x[:, None], len(TASKS), axis=1) for x in scores]
    result = infer(arms, TASKS, [1, -1], 0.9)
    expected = stats.ttest_ind(100 * scores[0], 100 * scores[1], equal_var=False).confidence_interval(0.9)
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high))
    assert result.standard_error_items == pytest.approx(0, abs=1e-12)


def test_swapping_arms_mirrors_the_interval():
    arms = arms_of((6, 6))
    there, back = infer(arms, TASKS, [1, -1], 0.95), infer(arms, TASKS, [-1, 1], 0.95)
    assert [back.low, back.high] == pytest.approx([-there.high, -there.low])


def test_one_run_gives_the_error_over_items_alone():
    result = infer(arms_of((1, 6)), TASKS, [1, -1], 0.95)
    assert np.isnan([result.low, result.high, result.standard_error_seeds]).all()
    assert result.standard_error_items > 0


def test_equal_arms_give_no_interval():
    result = infer([np.ones((3, len(TASKS)))] * 2, TASKS, [1, -1], 0.95)
    assert np.isnan(result.low)
    assert result.standard_error_items == 0


@pytest.mark.ci
@pytest.mark.parametrize("families", [1, 2])
def test_coverage_of_the_population_difference(families: int):
    """Seeds and items are drawn; the arms do not differ over all seeds and all items."""
    generator, studies, runs, tasks = np.random.default_rng(11), 1000, 6, np.repeat(np.arange(8), 50)
    weights = np.tile([1.0, -1.0], families) / families
    held = {"seeds and items": 0, "seeds": 0, "items as replicates": 0}
    for _ in range(studies):
        arms = []
        for _ in weights:
            # Effects of item x variant with sd 0.2, seeds 0.012, seed x item 0.1.
            of_item = generator.normal(0.5, 0.2, len(tasks))
            noise = generator.normal(0, 0.1, (runs, len(tasks)))
            arms.append((of_item + generator.normal(0, 0.012, (runs, 1)) + noise).astype(np.float32))
        result = infer(arms, tasks, weights, 0.95)
        within = [
            w**2 * benchmark_scores(x, tasks).var(ddof=1) / runs for w, x in zip(weights, arms, strict=True)
        ]
        df = sum(within) ** 2 / sum(x**2 / (runs - 1) for x in within)
        as_replicates = sum(w**2 * (100 * arm).var() / arm.size for w, arm in zip(weights, arms, strict=True))
        held["seeds and items"] += result.low <= 0 <= result.high
        held["seeds"] += abs(result.estimate) <= stats.t.ppf(0.975, df) * result.standard_error_seeds
        held["items as replicates"] += abs(result.estimate) <= 1.96 * np.sqrt(as_replicates)
    covered = {name: count / studies for name, count in held.items()}
    assert 0.93 <= covered["seeds and items"] <= 0.98, covered
    assert covered["seeds"] < 0.8, covered
    assert covered["items as replicates"] < 0.6, covered


# Eight tasks in three groups, one of them with a single task; no two tasks of one size.
GROUPS = np.array([0, 0, 0, 1, 1, 1, 1, 2])
GROUP_SIZES = np.array([5, 9, 6, 12, 8, 7, 15, 10])
NESTED = np.repeat(np.arange(8), GROUP_SIZES)
TRUE = Components(seed=1.0, seed_group=4.0, seed_task=2.0, residual=9.0, group=16.0, task=8.0, item=25.0)


def simulated_cell(generator: np.random.Generator, num_runs: int) -> np.ndarray:
    """Normal effects with the variances of ``TRUE`` in squared percentage points."""
    sd = Components(*np.sqrt(TRUE))
    of_group = generator.normal(0, sd.group, 3) + generator.normal(0, sd.seed_group, (num_runs, 3))
    of_task = generator.normal(0, sd.task, 8) + generator.normal(0, sd.seed_task, (num_runs, 8))
    of_item = generator.normal(0, sd.item, len(NESTED))
    residual = generator.normal(0, sd.residual, (num_runs, len(NESTED)))
    seeds = generator.normal(0, sd.seed, (num_runs, 1))
    return (50 + seeds + (of_group[:, GROUPS] + of_task)[:, NESTED] + of_item + residual) / 100


def test_components_are_unbiased():
    generator = np.random.default_rng(5)
    found = np.array([arm_components(simulated_cell(generator, 4), NESTED, GROUPS) for _ in range(3000)])
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - np.array(TRUE)) < 4 * error).all(), found.mean(axis=0)
    assert (error[:4] < 0.06 * np.array(TRUE[:4])).all(), error


def test_components_of_seeds_add_up_to_the_variance_over_seeds():
    cell = simulated_cell(np.random.default_rng(6), 5)
    parts, shares = arm_components(cell, NESTED, GROUPS), score_shares(NESTED, GROUPS)
    total = sum(part * share for part, share in zip(parts[:4], shares[:4], strict=True))
    assert total == pytest.approx(np.var([mean_of_task_means(run, NESTED) for run in cell], ddof=1))
    assert shares.item == shares.residual == pytest.approx((1 / GROUP_SIZES).sum() / 64)
    assert shares.seed_group == shares.group == pytest.approx((9 + 16 + 1) / 64)


def test_components_of_a_balanced_design_are_those_of_its_anova_table():
    """Expected mean squares of the textbook: 3 groups of 2 tasks of 4 items, all crossed with 5 seeds."""
    n, g, t, k = 5, 3, 2, 4
    tasks, groups = np.repeat(np.arange(g * t), k), np.repeat(np.arange(g), t)
    outcomes = np.random.default_rng(8).normal(size=(n, g * t * k))
    y = 100 * outcomes.reshape(n, g, t, k)
    ss = dict.fromkeys(("s", "g", "t", "i", "sg", "st", "e"), 0.0)
    for s in range(n):
        for a in range(g):
            for b in range(t):
                for c in range(k):
                    ss["s"] += (y[s].mean() - y.mean()) ** 2
                    ss["g"] += (y[:, a].mean() - y.mean()) ** 2
                    ss["t"] += (y[:, a, b].mean() - y[:, a].mean()) ** 2
                    ss["i"] += (y[:, a, b, c].mean() - y[:, a, b].mean()) ** 2
                    ss["sg"] += (y[s, a].mean() - y[s].mean() - y[:, a].mean() + y.mean()) ** 2
                    own, mean = y[s, a, b].mean() - y[s, a].mean(), y[:, a, b].mean() - y[:, a].mean()
                    ss["st"] += (own - mean) ** 2
                    rest = y[s, a, b, c] - y[s, a, b].mean() - y[:, a, b, c].mean() + y[:, a, b].mean()
                    ss["e"] += rest**2
    df = {"s": n - 1, "g": g - 1, "t": g * (t - 1), "i": g * t * (k - 1)}
    df |= {"sg": (n - 1) * df["g"], "st": (n - 1) * df["t"], "e": (n - 1) * df["i"]}
    ms = {name: ss[name] / df[name] for name in ss}
    expected = Components(
        seed=(ms["s"] - ms["sg"]) / (g * t * k),
        seed_group=(ms["sg"] - ms["st"]) / (t * k),
        seed_task=(ms["st"] - ms["e"]) / k,
        residual=ms["e"],
        group=(ms["g"] - ms["t"] - ms["sg"] + ms["st"]) / (n * t * k),
        task=(ms["t"] - ms["i"] - ms["st"] + ms["e"]) / (n * k),
        item=(ms["i"] - ms["e"]) / n,
    )
    assert arm_components(outcomes, tasks, groups) == pytest.approx(expected)


def test_components_that_a_design_cannot_tell_are_nan():
    outcomes = outcomes_of(4)
    one_group = arm_components(outcomes, TASKS, np.zeros(3, int))
    assert np.isnan([one_group.seed_group, one_group.group]).all()
    one_task_each = arm_components(outcomes, TASKS, np.arange(3))
    assert np.isnan([one_task_each.seed_task, one_task_each.task]).all()
    spread = benchmark_scores(outcomes, TASKS).var(ddof=1)
    for found, groups in ((one_group, np.zeros(3, int)), (one_task_each, np.arange(3))):
        shares = score_shares(TASKS, groups)
        assert np.nansum(np.array(found[:4]) * np.array(shares[:4])) == pytest.approx(spread)


def test_cells_pool_by_their_degrees_of_freedom():
    generator = np.random.default_rng(9)
    cells = [simulated_cell(generator, num_runs) for num_runs in (3, 1, 6)]
    first, last = (np.array(arm_components(cells[place], NESTED, GROUPS)) for place in (0, 2))
    assert pooled_components(cells, NESTED, GROUPS) == pytest.approx(tuple((2 * first + 5 * last) / 7))
    assert pooled_components([cells[1]], NESTED, GROUPS) is None
