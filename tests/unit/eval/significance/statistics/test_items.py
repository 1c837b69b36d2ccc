"""Seeds x items bootstrap and variance components: materialised resamples, formulas and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.items import (
    benchmark_scores,
    infer,
    item_counts,
    resample_arm,
    resample_items,
    task_sizes,
)
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


def test_counts_are_those_of_the_items_drawn():
    counts = item_counts(9, 50, np.random.default_rng(3))
    drawn = np.random.default_rng(3).integers(9, size=(50, 9))
    expected = [[list(resample).count(item) for item in range(9)] for resample in drawn]
    assert np.array_equal(counts, expected)


def test_item_resamples_equal_those_materialised(monkeypatch):
    outcomes = outcomes_of(5)
    found = resample_items(outcomes, TASKS, 40, np.random.default_rng(1))
    generator, expected = np.random.default_rng(1), np.zeros((5, 40))
    for task, size in enumerate(SIZES):
        of_task, drawn = outcomes[:, task == TASKS], generator.integers(size, size=(40, size))
        for run in range(5):
            for resample in range(40):
                chosen = of_task[run][drawn[resample]]
                expected[run, resample] += 100 * chosen.astype(float).mean() / len(SIZES)
    assert found == pytest.approx(expected, abs=1e-10)
    # In blocks the same numbers are drawn.
    monkeypatch.setattr("eval.significance.statistics.items.BLOCK", 100)
    assert np.array_equal(resample_items(outcomes, TASKS, 40, np.random.default_rng(1)), found)


def test_cell_resamples_equal_those_materialised():
    outcomes = outcomes_of(6)
    scores = benchmark_scores(outcomes, TASKS)
    item_scores = resample_items(outcomes, TASKS, 20, np.random.default_rng(1))
    cell = resample_arm(scores, item_scores, 3, np.random.default_rng(2))
    drawn = np.random.default_rng(2).integers(6, size=(20, 3, 6))
    chosen = [item_scores[drawn[b, k], b] for b in range(20) for k in range(3)]
    assert cell.means == pytest.approx([x.mean() for x in chosen])
    assert cell.variances == pytest.approx([x.var(ddof=1) for x in chosen])
    assert (cell.num_runs, cell.mean, cell.variance) == pytest.approx((6, scores.mean(), scores.var(ddof=1)))
    assert cell.item_means == pytest.approx(item_scores.mean(axis=0))


def resampled(num_runs: tuple[int, ...], seed: int = 0, resamples: int = 500):
    """Cells of so many runs, all resampled under the same items."""
    generator = np.random.default_rng(seed)
    outcomes = outcomes_of(sum(num_runs), seed)
    item_scores = resample_items(outcomes, TASKS, resamples, generator)
    scores, places = (
        benchmark_scores(outcomes, TASKS),
        np.split(np.arange(sum(num_runs)), np.cumsum(num_runs)),
    )
    cells = [resample_arm(scores[at], item_scores[at], 4, generator) for at in places[:-1]]
    return outcomes, [outcomes[at] for at in places[:-1]], cells


def test_standard_error_over_items_is_the_formula():
    weights = np.array([0.5, -0.5, 0.5, -0.5])
    _, arms, cells = resampled((6, 5, 6, 7), resamples=20_000)
    result = infer(cells, weights, 0.95)
    of_item = 100 * sum(w * arm.astype(float).mean(axis=0) for w, arm in zip(weights, arms, strict=True))
    variance = sum(of_item[task == TASKS].var() / size for task, size in enumerate(SIZES))
    assert result.standard_error_items == pytest.approx(np.sqrt(variance) / len(SIZES), rel=0.02)


def test_interval_is_that_of_a_plain_loop():
    _, _, (plus, minus) = resampled((6, 5))
    result = infer([plus, minus], [1.0, -1.0], 0.9)
    difference = plus.item_means - minus.item_means
    items = sum((x - difference.mean()) ** 2 for x in difference) / (len(difference) - 1)
    t = []
    for a, b, va, vb in zip(plus.means, minus.means, plus.variances, minus.variances, strict=True):
        t.append((a - b - result.estimate) / np.sqrt(va / 6 + vb / 5 + items))
    se = np.sqrt(plus.variance / 6 + minus.variance / 5 + items)
    expected = result.estimate - np.quantile(t, [0.95, 0.05]) * se
    assert [result.low, result.high] == pytest.approx(list(expected))
    assert result.standard_error_seeds == pytest.approx(np.sqrt(plus.variance / 6 + minus.variance / 5))
    assert result.num_resamples == 2000
    assert result.low < result.estimate < result.high


def test_swapping_arms_mirrors_the_interval():
    _, _, (plus, minus) = resampled((6, 6))
    there, back = infer([plus, minus], [1, -1], 0.95), infer([plus, minus], [-1, 1], 0.95)
    assert [back.low, back.high] == pytest.approx([-there.high, -there.low])
    assert back.standard_error_items == pytest.approx(there.standard_error_items)


def test_few_runs_give_standard_errors_and_no_interval():
    _, _, cells = resampled((4, 6))
    result = infer(cells, [1, -1], 0.95)
    assert np.isnan([result.low, result.high]).all()
    assert result.num_resamples == 0
    assert min(result.standard_error_seeds, result.standard_error_items) > 0
    _, _, cells = resampled((1, 6))
    result = infer(cells, [1, -1], 0.95)
    assert np.isnan([result.low, result.standard_error_seeds]).all()
    assert result.standard_error_items > 0


def test_equal_arms_give_no_interval():
    _, _, (cell, _) = resampled((6, 5))
    constant = cell._replace(
        variance=0.0, item_means=np.ones(500), means=np.ones(2000), variances=np.zeros(2000), mean=1.0
    )
    result = infer([constant, constant], [1, -1], 0.95)
    assert np.isnan(result.low)
    assert result.standard_error_items == 0


@pytest.mark.slow
@pytest.mark.parametrize("families", [1, 2])
def test_coverage_of_the_population_difference(families: int):
    """Seeds and items are drawn; the arms do not differ over all seeds and all items."""
    generator, studies, runs, tasks = np.random.default_rng(11), 1000, 6, np.repeat(np.arange(8), 50)
    weights = np.tile([1.0, -1.0], families) / families
    held = {"seeds and items": 0, "seeds": 0, "items as replicates": 0}
    for _ in range(studies):
        cells, within, arms = [], [], []
        for _ in weights:
            # Effects of item x variant with sd 0.2, seeds 0.012, seed x item 0.1.
            of_item = generator.normal(0.5, 0.2, len(tasks))
            noise = generator.normal(0, 0.1, (runs, len(tasks)))
            arms.append((of_item + generator.normal(0, 0.012, (runs, 1)) + noise).astype(np.float32))
        outcomes = np.concatenate(arms)
        scores = benchmark_scores(outcomes, tasks)
        resamples = resample_items(outcomes, tasks, 400, generator)
        for place in range(len(weights)):
            at = slice(place * runs, (place + 1) * runs)
            cells.append(resample_arm(scores[at], resamples[at], 5, generator))
            within.append(weights[place] ** 2 * scores[at].var(ddof=1) / runs)
        result = infer(cells, weights, 0.95)
        df = sum(within) ** 2 / sum(x**2 / (runs - 1) for x in within)
        as_replicates = sum(w**2 * (100 * arm).var() / arm.size for w, arm in zip(weights, arms, strict=True))
        held["seeds and items"] += result.low <= 0 <= result.high
        held["seeds"] += abs(result.estimate) <= stats.t.ppf(0.975, df) * result.standard_error_seeds
        held["items as replicates"] += abs(result.estimate) <= 1.96 * np.sqrt(as_replicates)
    covered = {name: count / studies for name, count in held.items()}
    assert 0.92 <= covered["seeds and items"] <= 0.98, covered
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
