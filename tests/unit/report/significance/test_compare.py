"""Statistics against scipy, published numbers, properties and a simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from base.errors import UsageError
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison, Inference, compare_arms, compare_with_baseline
from report.significance.factor import parse_contrast
from report.significance.multiple_comparisons import MultipleComparisons
from scores.metrics import Declared
from scores.run_scores import normalise_rows, run_scores
from tests.unit.report.significance.comparing import compare, table

NUMBERS = (
    "estimate",
    "standard_error",
    "df",
    "p",
    "low",
    "high",
    "p_equivalence",
    "smallest_margin",
    "hedges_g",
)


def numbers(comparison: Comparison) -> list[float | None]:
    return [getattr(comparison, name) for name in NUMBERS]


PUBLISHED = {
    "blimp": [-0.101833, 0.563593, 9.18302, 0.860539, -1.37291, 1.16924, 0.0724037, 1.13262, -0.07757],
    "glue": [-1.001333, 0.972254, 5.39492, 0.346995, -3.44656, 1.44389, 0.500522, 2.92923, -0.46544],
}  # fmt: skip
"""Of the source study's table, in the order of NUMBERS."""


@pytest.mark.parametrize(("benchmark", "expected"), PUBLISHED.items())
def test_published_table_averaged_over_families(shared_data: Path, benchmark: str, expected: list[float]):
    rows = pd.read_csv(shared_data / "thesis" / "table5.csv")
    found = compare(rows, "gelu - learnable-gelu", benchmark=benchmark)
    assert numbers(found) == pytest.approx(expected, abs=1e-4)
    assert (found.num_runs_plus, found.num_runs_minus) == (11, 12)
    assert found.verdict == "inconclusive"
    assert found.families == ("gpt_neo", "roberta")


def test_published_seeds_group_contrast_and_claims(shared_data: Path):
    rows = pd.read_csv(shared_data / "thesis" / "all_seeds.csv", keep_default_na=False)
    for benchmark, expected, verdict in (
        # Equivalent on average; within RoBERTa by itself six runs do not show it.
        # Seven arms a family tell what is usual. With each arm's own variance: [-0.5365, 0.6615], 0.0017.
        ("glue", [0.0625, -0.5616, 0.6866, 0.0022], "inconclusive"),
        ("blimp", [0.4625, -0.2304, 1.1554, 0.0621], "inconclusive"),
    ):
        found = compare(rows, "relu+silu - prelu+swish", benchmark=benchmark)
        assert [found.estimate, found.low, found.high, found.p_equivalence] == pytest.approx(
            expected, abs=1e-4
        )
        assert found.verdict == verdict
    scores, _ = run_scores(normalise_rows(rows))
    cells = ArmTable.of_scores(scores[scores.benchmark == "blimp"], Benchmark("blimp"))
    others = ["kan", "learnable-gelu", "none", "prelu", "relu", "silu", "swish"]
    claims = MultipleComparisons({cells.benchmark: cells}, [cells.benchmark], Inference())
    found = claims.correct(compare_with_baseline(cells, "gelu", others, Inference()))
    neo = {c.contrast.compared: c for c in found if c.family == "gpt_neo"}
    # By Welch's p and Holm's correction 0.0050 and 0.0350, and 0.0100 and 0.0602.
    assert [neo["none"].estimate, neo["none"].p] == pytest.approx([-2.608333, 0.00454], abs=1e-5)
    assert neo["swish"].p == pytest.approx(0.00827, abs=1e-5)
    assert neo["none"].p_corrected == pytest.approx(0.021, abs=0.005)
    assert neo["swish"].p_corrected == pytest.approx(0.034, abs=0.006)
    assert sorted(name for name, c in neo.items() if c.verdict == "different") == ["none", "swish"]


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


SCORES = st.lists(st.floats(0, 100).map(lambda x: round(x, 2)), min_size=2, max_size=6)
CELLS = st.fixed_dictionaries({(f, v): SCORES for f in ("f", "g") for v in ("a", "b")})


TWO_POINTS = Declared(margin=2.0)
HOWS = st.builds(Inference, paired=st.booleans())


@given(CELLS, HOWS, st.sampled_from([None, "f"]))
@pytest.mark.ci
def test_swapping_arms_mirrors_everything(cells, how, family):
    rows = table(cells)
    forward, backward = (
        compare(rows, x, family=family, inference=how, declared=TWO_POINTS) for x in ("a - b", "b - a")
    )
    assert backward.verdict == forward.verdict
    assert backward.num_runs_plus == forward.num_runs_minus
    assert backward.num_runs_minus == forward.num_runs_plus

    def near(value):
        return None if value is None else pytest.approx(value, rel=1e-7, abs=1e-7)

    for name in ("standard_error", "df", "p", "p_equivalence", "smallest_margin"):
        assert getattr(backward, name) == near(getattr(forward, name)), name
    mirrors = {"estimate": "estimate", "hedges_g": "hedges_g", "low": "high"}
    for name, mirrored in (*mirrors.items(), *((high, low) for low, high in mirrors.items())):
        value = getattr(forward, mirrored)
        assert getattr(backward, name) == near(None if value is None else -value), name


def test_contrasts_of_one_table_do_not_share_the_runs_of_other_differences():
    """Paired, ``a - b`` turned round, or other groups of the same variants, are other numbers."""
    rng = np.random.default_rng(4)
    rows = table({("f", v): list(rng.normal(50 + 3 * place, 1, 6)) for place, v in enumerate("abcd")}, "x")
    how = Inference(paired=True)
    texts = ["a - b", "b - a", "a+b - c+d", "a+c - b+d"]
    variants = list("abcd")
    shared = ArmTable.of_scores(rows, Benchmark("x"))
    together = [compare_arms(shared, parse_contrast(text, variants), "f", how) for text in texts]
    assert together == [compare(rows, text, family="f", inference=how) for text in texts]


@pytest.mark.slow
@given(CELLS, st.sampled_from(["f", "g"]), st.sampled_from(["a", "b"]), st.integers(0, 5))
def test_a_copied_run_does_not_narrow_an_interval(cells, family, variant, which):
    """A run counts once whether its rows are repeated or its folder is copied to another seed."""
    rows = pd.concat([tasks(cells, benchmark) for benchmark in ("x", "y")])
    how = Inference()
    before = [compare(rows, "a - b", benchmark="x", family=f, inference=how) for f in (None, "f", "g")]
    runs = rows[(rows.family == family) & (rows.variant == variant)]
    seed = sorted(runs.seed.unique())[which % runs.seed.nunique()]
    run = runs[runs.seed == seed]
    for copy in (run, run.assign(seed=99)):
        again = pd.concat([rows, copy])
        after = [compare(again, "a - b", benchmark="x", family=f, inference=how) for f in (None, "f", "g")]
        for old, new in zip(before, after, strict=True):
            assert numbers(new) == pytest.approx(numbers(old), nan_ok=True)


def tasks(cells: dict[tuple[str, str], list[float]], benchmark: str) -> pd.DataFrame:
    """Three tasks a run, whose scores are near those of the table; their digits rule out chance."""
    rows, rng = table(cells, benchmark), np.random.default_rng(len(benchmark))
    return pd.concat(
        [rows.assign(task=name, score=rows.score + rng.random(len(rows)).round(4)) for name in "pqr"]
    )


@given(CELLS, st.floats(-50, 50).map(lambda x: round(x, 2)))
@pytest.mark.ci
def test_adding_a_constant_to_both_arms_changes_nothing(cells, constant):
    # Of equal runs one may be a copy, but not where both score zero.
    assume(all(len(set(cell)) == len(cell) for cell in cells.values()))
    moved = {key: [x + constant for x in cell] for key, cell in cells.items()}
    # No benchmark of which chance is known: a constant moves scores there, or away from there.
    # Scores below 0 are no percentages by themselves, and nothing else says which are better.
    said = Declared(lower_is_better={"x": False}, units={"x": "percent"}, margins={"x": 1.0})
    found, shifted = (compare(table(c, "x"), "a - b", declared=said) for c in (cells, moved))
    assert shifted.verdict == found.verdict
    for name, before, after in zip(NUMBERS, numbers(found), numbers(shifted), strict=True):
        assert (before is None) == (after is None)
        assert before is None or after == pytest.approx(before, rel=1e-5, abs=1e-7), name


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
def test_of_rows_that_do_not_say_it_the_primary_metric_is_known(task: str, metrics: set[str], expected: str):
    schema = ["family", "variant", "seed", "benchmark", "task", "metric", "score"]
    table = pd.DataFrame([("f", "a", 1, "glue", task, metric, 1.0) for metric in metrics], columns=schema)
    rows = normalise_rows(table)
    assert rows.loc[rows["primary"], "metric"].tolist() == [expected]


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
