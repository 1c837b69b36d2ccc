"""Claims against a recomputation in plain numpy, and what verdict and interval say of random studies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from base.errors import UsageError
from report.document.markdown import interval
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison, Inference, compare_with_baseline
from report.significance.factor import Contrast, parse_contrast
from report.significance.multiple_comparisons import (
    CorrectedGroups,
    MultipleComparisons,
    cells_of,
    find_primary,
    with_interval,
)
from report.statistics.looks import PlannedLooks
from report.statistics.tuning_curves import Selection
from scores.metrics import Metric

BLIMP, EWOK, LOSS = Benchmark("blimp"), Benchmark("ewok"), Benchmark("held-out-loss")
OUTCOMES = {
    BLIMP: Metric(name="blimp", chance=50.0, margin=1.0),
    EWOK: Metric(name="ewok", margin=1.0),
    LOSS: Metric(name="held-out-loss", better="lower", unit="nats", margin=0.02, is_relative=True),
}
VARIANTS = ["kan", "relu", "silu", "swish"]
MORE_VARIANTS = [*VARIANTS, "glu", "mish", "sine"]
"""So many that arms tell what spread is usual."""
WAYS = (Inference(num_draws=200, most_draws=200), Inference(looks=PlannedLooks((3, 5))))
DIFFERENT = ("different", "different but negligible")


@dataclass(frozen=True)
class Study:
    """Scores, and everything that a report says of them."""

    claims: MultipleComparisons
    comparisons: list[Comparison]

    def asked(self, *texts: str) -> list[Comparison]:
        """Compare what is asked for beside the comparisons with the baseline."""
        contrasts = [parse_contrast(text, ["gelu", *VARIANTS], "gelu") for text in texts]
        alone = self.claims.compare(contrasts)
        return self.claims.correct_with(self.comparisons, alone)[1]


def study(
    tables: Iterable[ArmTable],
    primary: Iterable[Benchmark] = OUTCOMES,
    inference: Inference | None = None,
    variants: Sequence[str] = VARIANTS,
) -> Study:
    known = {arms.benchmark: arms for arms in tables}
    how = inference or Inference()
    claims = MultipleComparisons(known, [name for name in known if name in primary], how)
    alone = [c for arms in known.values() for c in compare_with_baseline(arms, "gelu", variants, how)]
    return Study(claims, [with_interval(c, claims.inference.level) for c in claims.correct(alone)])


def scores(
    rng: np.random.Generator,
    benchmark: Benchmark,
    families: Iterable[str],
    most_runs: int,
    variants: Sequence[str] = VARIANTS,
    is_tuned: bool = False,
) -> ArmTable:
    """Arms of unequal size, some of them without spread or run, with differences of all sizes."""
    unit, level = (0.02, 3.0) if benchmark == LOSS else (1.0, rng.choice([50.5, 60.0]))
    spread = unit * rng.choice([0.1, 0.5, 2.0])
    runs = {}
    for family in families:
        for variant in ("gelu", *variants):
            number = 0 if rng.random() < 0.02 else int(rng.integers(1, most_runs, endpoint=True))
            shift = unit * rng.choice([0.0, 0.0, 0.3, 1.0, -4.0])
            own = spread * (rng.random() > 0.05) * rng.normal(size=number)
            runs[family, variant] = pd.Series(level + shift + own, range(number))
    choices = {key: Selection((spread * rng.uniform(0, 0.6)) ** 2, rng.uniform(2, 8)) for key in runs}
    return ArmTable(runs, benchmark, metric=OUTCOMES[benchmark], choices=choices if is_tuned else None)


def random_study(seed: int, how: Inference = WAYS[0]) -> Study:
    rng = np.random.default_rng(seed)
    families = ["gpt_neo", "roberta", "t5"][: rng.integers(1, 4)]
    variants = VARIANTS if rng.random() < 0.5 else MORE_VARIANTS
    is_tuned = bool(rng.random() < 0.3)
    tables = [
        scores(rng, name, families, int(rng.choice([3, 6])), variants, is_tuned and name == LOSS)
        for name in (BLIMP, LOSS)
    ]
    tables.append(scores(rng, EWOK, families[:1], 4, variants))
    primary = [name for name in OUTCOMES if rng.random() < 0.7] or OUTCOMES
    return study(tables, primary, replace(how, paired=bool(rng.random() < 0.3)), variants)


def assert_agree(comparison: Comparison) -> None:
    """Verdict, corrected p and simultaneous interval agree, and so does what is printed of them."""
    if comparison.verdict == "not estimable":
        assert comparison.p is None
        assert interval(comparison) == "-"
        return
    assert comparison.interval is not None
    assert comparison.estimate is not None
    low, high = comparison.interval
    assert low <= comparison.estimate <= high
    corrected = comparison.p_corrected
    assert corrected is not None
    assert (corrected < 0.05) == (comparison.verdict in DIFFERENT)
    assert (comparison.p_sequential or 0) <= corrected * (1 + 1e-9)
    text = interval(comparison)
    if comparison.verdict in DIFFERENT:
        assert low >= 0 if comparison.estimate > 0 else high <= 0
        assert text.startswith("(0") == (low == 0)
        assert text.endswith("0)") == (high == 0)
    else:
        assert low <= 0 <= high
        assert (text[0], text[-1]) == ("[", "]")
    if comparison.verdict == "equivalent":
        assert comparison.smallest_margin is not None
        assert comparison.margin is not None
        assert comparison.smallest_margin < comparison.margin


@settings(max_examples=5)
@given(seed=st.integers(0, 2**32 - 1), how=st.sampled_from(WAYS))
def test_no_verdict_contradicts_its_interval_or_another_verdict(seed: int, how: Inference):
    found = random_study(seed, how)
    texts = ("kan", "gelu - kan", "swish - relu", "relu - swish", "relu+silu - gelu+kan")
    contrasts = [parse_contrast(text, ["gelu", *VARIANTS], "gelu") for text in texts]
    alone = found.claims.compare(contrasts)
    comparisons, asked = found.claims.correct_with(found.comparisons, alone)
    for comparison in (*comparisons, *asked):
        assert_agree(comparison)
    said: dict[object, set[tuple[object, ...]]] = {}
    for c in (*comparisons, *asked):
        sides = frozenset((c.contrast.plus, c.contrast.minus))
        said.setdefault((c.benchmark, c.family, sides), set()).add(
            (c.verdict, c.p_corrected, c.p_equivalence_holm)
        )
    assert all(len(verdicts) == 1 for verdicts in said.values())


def holm(p_values: list[float]) -> np.ndarray:
    """Holm (1979) in plain numpy."""
    order = np.argsort(p_values, kind="stable")
    steps = np.sort(p_values) * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected


def assert_near_holm(p_values: list[float], corrected: list[float]) -> None:
    """Whole studies that are drawn say no more than p alone, and hardly less than Holm's worst case."""
    for p, drawn, worst in zip(p_values, corrected, holm(p_values), strict=True):
        assert p <= drawn * (1 + 1e-9)
        assert drawn <= 2 * worst + 0.02
    smallest = int(np.argmin(p_values))
    if len(p_values) > 3 and 0.001 < p_values[smallest] < 0.1:
        assert corrected[smallest] > 1.2 * p_values[smallest]


@pytest.mark.parametrize("seed", range(4))
def test_primary_comparisons_are_corrected_over_all_of_them_and_the_rest_by_scope(seed: int):
    found = random_study(seed, Inference(num_draws=1_000, most_draws=1_000))
    groups: dict[object, list[Comparison]] = {}
    for c in found.comparisons:
        scopes = found.claims.tables[c.benchmark].scopes()
        is_primary = c.benchmark in found.claims.primary and (c.family is None or scopes[0] is not None)
        assert c.is_primary == is_primary
        if c.p is not None:
            groups.setdefault("primary" if is_primary else (c.benchmark, c.family), []).append(c)
    for group in groups.values():
        by_p = sorted((c.p or 0.0, c.p_corrected or 0.0) for c in group)
        assert all(p <= corrected * (1 + 1e-9) for p, corrected in by_p)
        assert [corrected for _, corrected in by_p] == sorted(corrected for _, corrected in by_p)
        tested = [c for c in group if c.p_equivalence_everywhere is not None]
        assert [c.p_equivalence_holm for c in tested] == pytest.approx(
            holm([c.p_equivalence_everywhere or 0.0 for c in tested])
        )


def arm_table(benchmark: Benchmark, runs: dict[tuple[str, str], list[float]]) -> ArmTable:
    arms = {key: pd.Series(values, range(len(values)), dtype=float) for key, values in runs.items()}
    return ArmTable(arms, benchmark, metric=OUTCOMES[benchmark])


def ascending(rng: np.random.Generator, benchmark: Benchmark, step: float) -> ArmTable:
    """One family, each variant better than the one before by ``step`` standard deviations."""
    variants = enumerate(["gelu", *VARIANTS])
    return arm_table(benchmark, {("t5", v): list(60 + i * step + rng.normal(size=6)) for i, v in variants})


def test_one_family_is_welch_by_scipy_corrected_over_all_outcomes():
    rng = np.random.default_rng(1)
    tables = [ascending(rng, name, step=1.0) for name in (BLIMP, EWOK)]
    found = study(tables)
    p_values = [
        stats.ttest_ind(arms.runs["t5", v], arms.runs["t5", "gelu"], equal_var=False).pvalue
        for arms in tables
        for v in VARIANTS
    ]
    assert [c.p for c in found.comparisons] == pytest.approx(p_values)
    assert_near_holm(p_values, [c.p_corrected or 0.0 for c in found.comparisons])
    one = study(tables, [EWOK])
    assert_near_holm(p_values[4:], [c.p_corrected or 0.0 for c in one.comparisons if c.is_primary])
    assert [c.benchmark for c in one.comparisons if c.is_primary] == [EWOK] * 4


def test_intervals_share_the_level_of_all_claims():
    rng = np.random.default_rng(2)
    shifts = dict(zip(["gelu", *VARIANTS], [0, 9, 9, 0, 0], strict=True))
    arms = arm_table(EWOK, {("t5", v): list(60 + by + rng.normal(size=8)) for v, by in shifts.items()})
    found = study([arms]).comparisons
    assert [c.is_different for c in found] == [True, True, False, False]
    for comparison in found:
        one, base = arms.runs["t5", comparison.contrast.compared], arms.runs["t5", "gelu"]
        test = stats.ttest_ind(one, base, equal_var=False)
        bonferroni, alone = test.confidence_interval(1 - 0.05 / 4), test.confidence_interval(0.95)
        low, high = comparison.interval or (0.0, 0.0)
        assert bonferroni.low - 0.1 < low < alone.low
        assert alone.high < high < bonferroni.high + 0.1


def test_opposite_families_are_no_equivalence():
    """What cancels in the average is there in each family."""
    rng = np.random.default_rng(3)
    runs = {
        (family, variant): list(60 + shift * (variant == "kan") + 0.3 * rng.normal(size=6))
        for family, shift in (("gpt_neo", 3.02), ("roberta", -3.0))
        for variant in ("gelu", *VARIANTS)
    }
    found = {(c.contrast.compared, c.family): c for c in study([arm_table(EWOK, runs)]).comparisons}
    average = found["kan", None]
    assert average.p_equivalence is not None
    assert average.p_equivalence < 0.05  # of the average alone, which was once called equivalent
    assert average.p_equivalence_everywhere == pytest.approx(1.0, abs=1e-3)
    assert average.verdict == "inconclusive"
    assert found["kan", "gpt_neo"].verdict == found["kan", "roberta"].verdict == "different"
    assert found["swish", None].verdict == "equivalent"


def test_equivalence_of_many_is_corrected_and_what_passes_alone_is_within_the_margin():
    rng = np.random.default_rng(4)
    arms = {("t5", v): list(60 + 0.72 * stats.zscore(rng.normal(size=6))) for v in ("gelu", *VARIANTS)}
    found = study([arm_table(EWOK, arms)]).comparisons
    assert {c.verdict for c in found} == {"within margin"}
    one = study([arm_table(EWOK, {key: arms[key] for key in (("t5", "gelu"), ("t5", "kan"))})]).comparisons
    assert one[0].contrast.compared == "kan"
    assert one[0].verdict == "equivalent"
    assert {c.verdict for c in one[1:]} == {"not estimable"}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (
            (),
            [BLIMP, Benchmark("blimp", metric="margin"), Benchmark("glue", "kan"), Benchmark("glue", "mlp")],
        ),
        (("blimp",), [BLIMP]),
        (("blimp margin",), [Benchmark("blimp", metric="margin")]),
        (("glue",), [Benchmark("glue", "kan"), Benchmark("glue", "mlp")]),
        (("glue (mlp)", "blimp"), [BLIMP, Benchmark("glue", "mlp")]),
    ],
)
def test_primary_outcomes_are_found_by_name(names: tuple[str, ...], found: list[Benchmark]):
    scored = [BLIMP, Benchmark("blimp", metric="margin"), Benchmark("glue", "kan"), Benchmark("glue", "mlp")]
    assert list(find_primary(names, scored, is_strict=True)) == found


def test_a_primary_outcome_without_scores_is_refused_on_the_command_line_and_waited_for_in_a_study():
    assert find_primary(["blimp", "glue"], [BLIMP], is_strict=False) == (BLIMP,)
    assert find_primary(["glue"], [BLIMP], is_strict=False) == ()
    for name in ("glu", ""):
        with pytest.raises(UsageError, match=rf"metric in --primary .{name}.; Available: blimp"):
            find_primary([name], [BLIMP, Benchmark("blimp", metric="margin")], is_strict=True)


def test_contrasts_are_corrected_with_all_primary_comparisons_and_asked_twice_count_once():
    rng = np.random.default_rng(6)
    arms = ascending(rng, EWOK, step=0.5)
    pairs = study([arms])
    found = pairs.asked("kan", "swish - relu", "relu - swish", "silu - kan", "gelu - swish")
    alone = pairs.claims.compare([c.contrast for c in found])
    together, _ = pairs.claims.correct_with(pairs.comparisons, alone)
    by_name = {str(c.contrast): c for c in found}
    of_scipy = [
        stats.ttest_ind(arms.runs["t5", a], arms.runs["t5", b], equal_var=False).pvalue
        for a, b in (("swish", "relu"), ("silu", "kan"))
    ]
    asked = [by_name["swish - relu"], by_name["silu - kan"]]
    assert [c.p for c in asked] == pytest.approx(of_scipy)
    whole = [*(c.p or 0.0 for c in pairs.comparisons), *of_scipy]
    assert_near_holm(
        whole, [*(c.p_corrected or 0.0 for c in together), *(c.p_corrected or 0.0 for c in asked)]
    )
    assert by_name["relu - swish"].p_corrected == asked[0].p_corrected
    claims = {c.contrast: c for c in together}
    turned = claims[Contrast(("swish",), ("gelu",))]
    assert by_name["gelu - swish"].p_corrected == turned.p_corrected
    assert by_name["gelu - swish"].interval == pytest.approx([-x for x in reversed(turned.interval or ())])
    same, claim = by_name["kan - gelu"], claims[Contrast(("kan",), ("gelu",))]
    assert (same.verdict, same.p_corrected, same.interval) == (
        claim.verdict,
        claim.p_corrected,
        claim.interval,
    )


@pytest.mark.parametrize("seed", range(2))
def test_an_exchanged_comparison_is_corrected_among_those_that_stay(seed: int):
    rng = np.random.default_rng(seed)
    found = study([scores(rng, name, ["gpt_neo"], 6) for name in (BLIMP, LOSS)])
    place = int(rng.choice([place for place, c in enumerate(found.comparisons) if c.p is not None]))
    other = replace(found.comparisons[place], p=float(rng.uniform(0, 0.02)), p_corrected=None)
    (corrected,) = CorrectedGroups(found.claims, found.comparisons).correct({place: other}).values()
    all_again = [other if number == place else c for number, c in enumerate(found.comparisons)]
    assert corrected.p_corrected == found.claims.correct(all_again)[place].p_corrected
    assert corrected.p_equivalence_holm == found.comparisons[place].p_equivalence_holm


@pytest.mark.parametrize("is_paired", [False, True])
def test_what_is_drawn_is_the_study_that_was_compared(is_paired: bool):
    """Estimates and standard errors of the cells are those of the comparisons."""
    rng, how = np.random.default_rng(7), Inference(paired=is_paired)
    tables = [scores(rng, name, ["gpt_neo", "roberta"], 6, VARIANTS[:2]) for name in (BLIMP, LOSS)]
    found = study(tables, inference=how, variants=VARIANTS[:2])
    primary = [c for c in found.comparisons if c.is_primary and c.p is not None]
    assert {c.family for c in primary} == {None, "gpt_neo", "roberta"}
    cells = cells_of(primary, found.claims.tables, how)
    values = pd.DataFrame(cells.values)
    estimates = cells.weights @ values.mean().fillna(0)
    errors = np.sqrt(cells.weights**2 @ (values.var() / values.count()).fillna(0))
    for comparison, estimate, error in zip(primary, estimates, errors, strict=True):
        assert error == pytest.approx(comparison.standard_error)
        assert estimate == pytest.approx(comparison.estimate)
