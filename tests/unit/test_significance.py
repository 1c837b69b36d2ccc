"""Statistics against scipy, published numbers, properties and a simulation."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from eval.aggregate import normalise_rows, primary_metric, run_scores
from eval.contrasts import parse_contrast
from eval.significance import (
    Comparison,
    compare,
    compare_with_baseline,
    holm,
    minimum_detectable_effect,
    welch,
)
from ffn_variants.errors import UsageError

NUMBERS = ("estimate", "standard_error", "df", "p", "low", "high", "hedges_g", "minimum_detectable_effect")


def table(cells: dict[tuple[str, str], list[float]], benchmark: str = "blimp") -> pd.DataFrame:
    """One row per run: {(family, variant): scores}, seeds counted from 1."""
    rows = [
        (family, variant, seed, benchmark, score)
        for (family, variant), scores in cells.items()
        for seed, score in enumerate(scores, start=1)
    ]
    return pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])


def numbers(comparison: Comparison) -> list[float | None]:
    return [getattr(comparison, name) for name in NUMBERS]


@pytest.mark.parametrize(
    ("benchmark", "expected"),
    [
        # estimate, se, df, p, low, high, g, minimum detectable effect of the source study's table
        ("blimp", [-0.101833, 0.563593, 9.18302, 0.860539, -1.37291, 1.16924, -0.07757, 1.7706]),
        ("glue", [-1.001333, 0.972254, 5.39492, 0.346995, -3.44656, 1.44389, -0.46544, 3.35203]),
    ],
)
def test_published_table_averaged_over_families(shared_data: Path, benchmark: str, expected: list[float]):
    rows = pd.read_csv(shared_data / "thesis" / "table5.csv")
    found = compare(rows, "gelu - learnable-gelu", benchmark=benchmark)
    estimate, error, df, p, low, high, g, mde = expected
    assert numbers(found) == pytest.approx([estimate, error, df, p, low, high, g, mde], abs=1e-4)
    assert (found.num_runs_plus, found.num_runs_minus) == (11, 12)
    assert found.verdict == "inconclusive"
    assert found.families == ("gpt_neo", "roberta")


def test_published_seeds_group_contrast_and_holm(shared_data: Path):
    rows = pd.read_csv(shared_data / "thesis" / "all_seeds.csv", keep_default_na=False)
    for benchmark, expected in (("glue", [0.0625, -0.5365, 0.6615]), ("blimp", [0.4625, -0.2259, 1.1509])):
        found = compare(rows, "relu+silu - prelu+swish", benchmark=benchmark)
        assert [found.estimate, found.low, found.high] == pytest.approx(expected, abs=1e-4)
    scores, _ = run_scores(normalise_rows(rows))
    others = ["kan", "learnable-gelu", "none", "prelu", "relu", "silu", "swish"]
    neo = {
        c.contrast.split(" - ")[0]: c
        for c in compare_with_baseline(scores, "gelu", others)
        if (c.benchmark, c.family) == ("blimp", "gpt_neo")
    }
    assert [neo["none"].estimate, neo["none"].p, neo["none"].p_holm] == pytest.approx(
        [-2.608333, 0.00500, 0.03503], abs=1e-5
    )
    assert [neo["swish"].p, neo["swish"].p_holm] == pytest.approx([0.01004, 0.06023], abs=1e-5)
    assert [name for name, c in neo.items() if c.verdict == "different"] == ["none"]


@pytest.mark.parametrize(("num_a", "num_b"), [(2, 2), (3, 3), (6, 5), (12, 4)])
def test_one_family_equals_scipy_welch(num_a: int, num_b: int):
    generator = np.random.default_rng(num_a * 100 + num_b)
    a, b = generator.normal(60, 3, num_a), generator.normal(58, 1, num_b)
    found = compare(table({("gpt_neo", "kan"): list(a), ("gpt_neo", "gelu"): list(b)}), "kan - gelu")
    expected = stats.ttest_ind(a, b, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found.estimate == pytest.approx(a.mean() - b.mean())
    assert [found.p, found.df] == pytest.approx([expected.pvalue, expected.df], rel=1e-9)
    assert [found.low, found.high] == pytest.approx([interval.low, interval.high], rel=1e-9)


def test_hedges_g_of_one_family_by_hand():
    found = compare(table({("f", "a"): [1.0, 3.0], ("f", "b"): [2.0, 6.0]}), "a - b")
    pooled = np.sqrt((2.0 + 8.0) / 2)  # variances 2 and 8, one degree of freedom each
    assert found.hedges_g == pytest.approx(-2.0 / pooled * (1 - 3 / 7))


@pytest.mark.parametrize("df", [1.0, 2.0, 4.3, 10.0, 200.0])
def test_minimum_detectable_effect_has_the_power_it_claims(df: float):
    effect = minimum_detectable_effect(1.0, df)
    assert effect is not None
    generator = np.random.default_rng(0)
    t = (generator.standard_normal(400_000) + effect) / np.sqrt(generator.chisquare(df, 400_000) / df)
    power = (np.abs(t) > stats.t.ppf(0.975, df)).mean()
    assert power == pytest.approx(0.80, abs=0.004)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=5))
def test_holm_equals_the_closed_test_of_bonferroni(p_values: list[float]):
    """Holm is the closure of Bonferroni: a hypothesis' p is the largest over all subsets that hold it."""
    indices = range(len(p_values))
    expected = [
        max(
            min(1.0, len(subset) * min(p_values[j] for j in subset))
            for size in range(1, len(p_values) + 1)
            for subset in itertools.combinations(indices, size)
            if i in subset
        )
        for i in indices
    ]
    assert holm(p_values) == pytest.approx(expected)


def test_holm_leaves_out_what_is_not_estimable():
    assert holm([0.02, None, 0.03]) == [0.04, None, 0.04]


SCORES = st.lists(st.floats(0, 100).map(lambda x: round(x, 2)), min_size=2, max_size=6)
CELLS = st.fixed_dictionaries({(f, v): SCORES for f in ("f", "g") for v in ("a", "b")})


@settings(deadline=None, max_examples=25)
@given(CELLS, st.randoms(use_true_random=False))
def test_order_of_rows_is_irrelevant(cells, random):
    rows = table(cells)
    order = list(range(len(rows)))
    random.shuffle(order)
    assert compare(rows.iloc[order], "a - b") == compare(rows, "a - b")


@settings(deadline=None, max_examples=25)
@given(CELLS, st.sampled_from([None, "f"]))
def test_swapping_arms_mirrors_everything(cells, family):
    rows = table(cells)
    forward, backward = (compare(rows, text, family=family) for text in ("a - b", "b - a"))
    assert backward.verdict == forward.verdict
    assert backward.estimate == pytest.approx(-forward.estimate)
    if forward.p is not None:
        mirrored = [-backward.high, -backward.low, backward.p, backward.df, -(backward.hedges_g or 0.0)]
        expected = [forward.low, forward.high, forward.p, forward.df, forward.hedges_g or 0.0]
        assert mirrored == pytest.approx(expected, rel=1e-7, abs=1e-7)


@settings(deadline=None, max_examples=25)
@given(CELLS, st.floats(-50, 50).map(lambda x: round(x, 2)))
def test_adding_a_constant_to_both_arms_changes_nothing(cells, constant):
    found = compare(table(cells), "a - b")
    shifted = compare(table({key: [x + constant for x in cell] for key, cell in cells.items()}), "a - b")
    assert shifted.verdict == found.verdict
    for before, after in zip(numbers(found), numbers(shifted), strict=True):
        assert (before is None) == (after is None)
        assert before is None or after == pytest.approx(before, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("n", [3, 6])
@pytest.mark.parametrize("spreads", [(1.0, 1.0), (1.0, 4.0)])
def test_interval_covers_as_often_as_it_says(n: int, spreads: tuple[float, float]):
    """Two families, 4,000 studies: Welch is a little conservative at three seeds and never far below 95%."""
    generator = np.random.default_rng(7)
    sd = np.array([*spreads, *spreads])
    draws = generator.normal(0.0, sd[:, None], size=(4000, 4, n))
    result = welch(draws.mean(-1), draws.var(-1, ddof=1), [n] * 4, [0.5, -0.5, 0.5, -0.5])
    coverage = ((result.low <= 0) & (result.high >= 0)).mean()
    assert 0.94 <= coverage <= 0.975
    assert ((result.p > 0.05) == ((result.low <= 0) & (result.high >= 0))).all()


def test_an_arm_with_one_run_or_none_is_not_estimable():
    rows = table({("f", "a"): [50.0], ("f", "b"): [51.0, 52.0], ("g", "b"): [50.0, 51.0]})
    one = compare(rows, "a - b", family="f")
    assert one.estimate == pytest.approx(-1.5)
    assert [one.p, one.low, one.verdict, one.reason] == [None, None, "not estimable", "one run only of f a"]
    averaged = compare(rows, "a - b")
    assert [averaged.estimate, averaged.verdict] == [None, "not estimable"]
    assert averaged.reason == "no run of g a"


def test_equal_scores_everywhere_are_not_estimable():
    found = compare(table({("f", "a"): [100.0] * 3, ("f", "b"): [99.1] * 3}), "a - b")
    assert found.verdict == "not estimable"
    assert found.reason == "no spread between seeds in any arm"


def test_benchmark_score_is_the_mean_over_tasks_of_the_primary_metric():
    schema = ["family", "variant", "seed", "benchmark", "task", "metric", "score"]
    scores = {("cola", "accuracy"): 70.0, ("cola", "matthews_correlation"): 10.0, ("rte", "accuracy"): 50.0,
              ("mrpc", "accuracy"): 68.0, ("mrpc", "f1"): 81.0}  # fmt: skip
    rows = pd.DataFrame([("f", "a", 1, "glue", *key, x) for key, x in scores.items()], columns=schema)
    found, notes = run_scores(normalise_rows(rows))
    assert found.score.tolist() == [pytest.approx((10 + 50 + 81) / 3)]
    assert notes == []


def test_a_run_without_all_tasks_is_left_out_and_named():
    schema = ["family", "variant", "seed", "benchmark", "task", "score"]
    rows = pd.DataFrame(
        [("f", "a", seed, "blimp", task, 50.0 + seed) for seed in (1, 2, 3) for task in ("x", "y")]
        + [("f", "a", 4, "blimp", "x", 90.0), ("f", "a", 1, "blimp", "extra", 99.0)],
        columns=schema,
    )
    found, notes = run_scores(normalise_rows(rows))
    assert found.seed.tolist() == [1, 2, 3]
    assert found.score.tolist() == [51.0, 52.0, 53.0]
    assert any("extra" in note for note in notes)
    assert any("f/a/seed4" in note and "y" in note for note in notes)


@pytest.mark.parametrize(
    ("task", "metrics", "expected"),
    [
        ("cola", {"accuracy", "matthews_correlation"}, "matthews_correlation"),
        ("QQP", {"accuracy", "f1"}, "f1"),
        ("mrpc", {"accuracy"}, "accuracy"),
        ("sts", {"spearman", "pearson"}, "pearson"),
        ("rte", {"accuracy", "f1"}, "accuracy"),
    ],
)
def test_primary_metric(task: str, metrics: set[str], expected: str):
    assert primary_metric(task, metrics) == expected


def test_contrast_groups_weigh_their_variants_equally():
    contrast = parse_contrast("relu+silu  -  learnable-gelu", ["relu", "silu", "learnable-gelu"])
    assert contrast.weights() == {"relu": 0.5, "silu": 0.5, "learnable-gelu": -1.0}
    assert str(parse_contrast("kan", ["kan", "gelu"], baseline="gelu")) == "kan - gelu"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kan", "not of the form"),
        ("kan - ", "not of the form"),
        ("kan - gelu - relu", "not of the form"),
        ("kam - gelu", "did you mean 'kan'"),
        ("kan+gelu - gelu", "names a variant twice"),
    ],
)
def test_contrast_mistakes(text: str, message: str):
    with pytest.raises(UsageError, match=message):
        parse_contrast(text, ["kan", "gelu", "relu"])


def test_compare_names_what_it_needs():
    rows = pd.concat([table({("f", "a"): [1, 2], ("f", "b"): [1, 2]}, name) for name in ("blimp", "glue")])
    with pytest.raises(UsageError, match="several benchmarks"):
        compare(rows, "a - b")
    with pytest.raises(UsageError, match="did you mean 'blimp'"):
        compare(rows, "a - b", benchmark="blimb")
    with pytest.raises(UsageError, match="unknown family"):
        compare(rows, "a - b", benchmark="blimp", family="x")
