"""Arms, comparisons and claims: against scipy, published numbers and a recomputation in plain numpy."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
from report.significance.comparison import Comparison, Inference, compare_arms, compare_with_baseline
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
from scores.metrics import Declared, Metric
from scores.run_scores import normalise_rows, run_scores
from tests.cases import listed
from tests.unit.report.studies import compare, table

NUMBERS = ["estimate", "standard_error", "df", "p", "low", "high"]
NUMBERS += ["p_equivalence", "smallest_margin", "hedges_g"]


PUBLISHED = {
    "blimp": [-0.101833, 0.563593, 9.18302, 0.860539, -1.37291, 1.16924, 0.0724037, 1.13262, -0.07757],
    "glue": [-1.001333, 0.972254, 5.39492, 0.346995, -3.44656, 1.44389, 0.500522, 2.92923, -0.46544],
}  # fmt: skip
"""Of the source study's table, in the order of NUMBERS."""


@pytest.mark.parametrize(("benchmark", "expected"), PUBLISHED.items())
def test_published_table_averaged_over_families(shared_data: Path, benchmark: str, expected: list[float]):
    rows = pd.read_csv(shared_data / "thesis" / "table5.csv")
    found = compare(rows, "gelu - learnable-gelu", benchmark=benchmark)
    assert [getattr(found, name) for name in NUMBERS] == pytest.approx(expected, abs=1e-4)
    assert (found.num_runs_plus, found.num_runs_minus) == (11, 12)
    assert found.verdict == "undecided"
    assert found.families == ("gpt_neo", "roberta")


def test_published_seeds_group_contrast_and_claims(shared_data: Path):
    rows = pd.read_csv(shared_data / "thesis" / "all_seeds.csv", keep_default_na=False)
    for benchmark, expected, verdict in (
        # Equivalent on average; within RoBERTa by itself six runs do not show it.
        # Seven arms a family tell what is usual. With each arm's own variance: [-0.5365, 0.6615], 0.0017.
        ("glue", [0.0625, -0.5616, 0.6866, 0.0022], "undecided"),
        ("blimp", [0.4625, -0.2304, 1.1554, 0.0621], "undecided"),
    ):
        found = compare(rows, "relu+silu - prelu+swish", benchmark=benchmark)
        numbers = [found.estimate, found.low, found.high, found.p_equivalence]
        assert numbers == pytest.approx(expected, abs=1e-4)
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
    assert sorted(name for name, c in neo.items() if c.is_different) == ["none", "swish"]


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


def test_an_arm_with_one_run_or_none_is_not_estimable():
    rows = table({("f", "a"): [50.0], ("f", "b"): [51.0, 52.0], ("g", "b"): [50.0, 51.0]})
    one = compare(rows, "a - b", family="f")
    assert one.estimate == pytest.approx(-1.5)
    assert [one.p, one.low, one.verdict, one.reason] == [None, None, "not estimable", "one run only of f a"]
    averaged = compare(rows, "a - b")
    assert [averaged.estimate, averaged.verdict] == [None, "not estimable"]
    assert averaged.reason == "no run of g a"
    equal = compare(table({("f", "a"): [100.0] * 3, ("f", "b"): [99.1] * 3}), "a - b")
    assert [equal.verdict, equal.reason] == ["not estimable", "no spread between seeds in any arm"]


@st.composite
def losses(draw: st.DrawFn) -> pd.DataFrame:
    """Losses of four arms; spread and differences of any size, families of different levels."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_runs = draw(st.sampled_from([2, 3, 5]))
    spread = draw(st.sampled_from([0.002, 0.02, 0.1]))
    shift = draw(st.sampled_from([-0.3, -0.01, 0.0, 0.02, 0.3]))
    arms = {
        (family, variant): list(level + shift * (variant == "kan") + spread * generator.normal(size=num_runs))
        for family, level in (("gpt_neo", 3.3), ("roberta", 1.7))
        for variant in ("gelu", "kan")
    }
    return table(arms, "quality")


def declared(factor: float = 1.0, chance: float | None = None) -> Declared:
    """A loss in nats times a factor: better when higher, where that is negative."""
    return Declared(
        lower_is_better={"quality": factor > 0},
        units={"quality": "nats"},
        margins={"quality": 0.02 * abs(factor)},
        chances={} if chance is None else {"quality": factor * chance},
    )


def near(value: float | None, factor: float = 1.0):
    return None if value is None else pytest.approx(factor * value, rel=1e-6, abs=1e-12)


def assert_scaled(before: Comparison, after: Comparison, factor: float) -> None:
    """Differences scale, and nothing else changes."""
    assert after.verdict.replace("worse", "better") == before.verdict.replace("worse", "better")
    assert after.is_at_chance == before.is_at_chance
    for name in ("p", "df", "p_equivalence"):
        assert getattr(after, name) == near(getattr(before, name)), name
    for name in ("margin", "smallest_margin", "standard_error"):
        assert getattr(after, name) == near(getattr(before, name), abs(factor)), name
    ends = (before.low, before.high) if factor > 0 else (before.high, before.low)
    for name, value in zip(("estimate", "low", "high"), (before.estimate, *ends), strict=True):
        assert getattr(after, name) == near(value, factor), name
    assert after.hedges_g == near(before.hedges_g, math.copysign(1, factor))


@settings(max_examples=5)
@given(losses(), st.sampled_from([-1.0, 1 / math.log(2), -1000.0]), st.sampled_from([None, 3.0]))
def test_a_loss_may_be_written_in_any_unit_and_with_either_sign(rows, factor, chance):
    family = None if chance is None else "gpt_neo"
    scaled = rows.assign(score=factor * rows.score)
    before = compare(rows, "kan - gelu", family=family, declared=declared(chance=chance))
    after = compare(scaled, "kan - gelu", family=family, declared=declared(factor, chance))
    assert_scaled(before, after, factor)
    assert after.is_better == before.is_better


@settings(max_examples=5)
@given(losses(), st.booleans())
def test_a_contrast_turned_round_is_mirrored_whatever_the_order_of_rows_and_families(rows, is_paired):
    rows = rows[~((rows.variant == "kan") & (rows.seed == 5))]
    turned = rows.iloc[::-1].replace({"gpt_neo": "z", "roberta": "a"})
    how = Inference(paired=is_paired)
    before = compare(rows, "kan - gelu", inference=how, declared=declared())
    after = compare(turned, "gelu - kan", inference=how, declared=declared())
    assert_scaled(before, after, -1.0)
    assert after.num_runs_plus == before.num_runs_minus
    assert after.num_runs_minus == before.num_runs_plus


SPREAD = np.array([-1.0, 0.0, 1.0])


def arms_of(metric: Metric, **runs: np.ndarray) -> ArmTable:
    arms = {("f", name): pd.Series(scores) for name, scores in runs.items()}
    return ArmTable(arms, Benchmark("x"), None, metric)


def test_one_collapsed_arm_takes_no_decimals_from_the_others():
    loss = Metric(name="loss", better="lower", unit="nats")
    arms = {"gelu": 3 + 0.004 * SPREAD, "swiglu": 2.97 + 0.004 * SPREAD}
    assert arms_of(loss, **arms).digits(["f"]) == 4
    assert arms_of(loss, **arms, kan=5 + 3 * SPREAD).digits(["f"]) == 4
    assert arms_of(loss, gelu=arms["gelu"], kan=5 + 3 * SPREAD).digits(["f"]) == 4


def test_one_arm_that_is_spread_widely_does_not_hide_one_above_chance():
    accuracy = Metric(name="accuracy", chance=50.0, margin=1.0)
    calm, learnt, wild = 50 + 0.5 * SPREAD, 56 + 0.5 * SPREAD, 50 + 15 * SPREAD
    assert stats.ttest_1samp(learnt, 51, alternative="greater").pvalue < 0.05 / 2 / 3
    found = arms_of(accuracy, gelu=calm, swiglu=learnt, kan=wild).above_chance
    assert found == {("f", "swiglu")}


def test_a_single_run_and_runs_that_happen_to_agree_are_not_above_chance_by_themselves():
    accuracy = Metric(name="accuracy", chance=50.0, margin=1.0)
    arms = {"gelu": 50 + 3 * SPREAD, "single": np.array([52.0]), "agreeing": np.array([52.0, 52.0])}
    assert not arms_of(accuracy, **arms).above_chance


def test_losses_of_families_with_different_objectives_have_no_average():
    runs = {(f, v): pd.Series([3.0, 3.1]) for f in ("roberta", "gpt_neo") for v in ("gelu", "kan")}
    loss = Metric(name="loss", better="lower", unit="nats", is_relative=True)
    assert ArmTable(runs, Benchmark("x"), metric=loss).scopes() == ["gpt_neo", "roberta"]
    assert ArmTable(runs, Benchmark("x"), metric=loss).scopes(["roberta", "gpt_neo"])[0] == "roberta"
    accuracy = Metric(name="accuracy", better="higher", unit="percent")
    assert ArmTable(runs, Benchmark("x"), metric=accuracy).scopes() == [None, "gpt_neo", "roberta"]
    one = {key: arm for key, arm in runs.items() if key[0] == "roberta"}
    assert ArmTable(one, Benchmark("x"), metric=accuracy).scopes() == ["roberta"]


def test_what_a_choice_adds_is_in_the_standard_error_of_the_comparison_and_its_pairs():
    rng = np.random.default_rng(0)
    keys = [(family, variant) for family in ("gpt_neo", "roberta") for variant in ("gelu", "kan")]
    runs = {key: pd.Series(3 + 0.01 * rng.standard_normal(5)) for key in keys}
    choices = {key: Selection(1e-6 * place, 9.0) for place, key in enumerate(keys, start=1)}
    loss = Metric(name="loss", better="lower", unit="nats", margin=0.02)
    plain, tuned = (ArmTable(runs, Benchmark("x"), metric=loss, choices=own) for own in (None, choices))
    for paired in (False, True):
        how = Inference(paired=paired)
        without, found = (compare_arms(t, Contrast(("kan",), ("gelu",)), None, how) for t in (plain, tuned))
        missed = {key: c.variance**0.5 / 2 for key, c in choices.items()}
        # One side of the difference is kan's in both families, one gelu's; of pairs it is a family's own.
        sides = [sum(x for (_, v), x in missed.items() if v == own) for own in ("gelu", "kan")]
        pairs = sum(np.hypot(missed[f, "gelu"], missed[f, "kan"]) for f in ("gpt_neo", "roberta"))
        added = pairs**2 if paired else np.hypot(*sides) ** 2
        assert found.choice_error == pytest.approx(np.sqrt(added))
        assert found.standard_error == pytest.approx(np.sqrt(without.standard_error**2 + added))
        assert found.estimate == without.estimate
        (one, base) = (compare_arms(t, Contrast(("kan",), ("gelu",)), "roberta", how) for t in (tuned, plain))
        assert one.standard_error == pytest.approx(np.sqrt(base.standard_error**2 + 7e-6))
        assert one.df > base.df or paired


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
    tables = [scores(rng, BLIMP, families, int(rng.choice([3, 6])), variants)]
    tables.append(scores(rng, LOSS, families, int(rng.choice([3, 6])), variants, is_tuned))
    tables.append(scores(rng, EWOK, families[:1], 4, variants))
    primary = [name for name in OUTCOMES if rng.random() < 0.7] or OUTCOMES
    return study(tables, primary, replace(how, paired=bool(rng.random() < 0.3)), variants)


def assert_agree(comparison: Comparison) -> None:
    """Verdict, corrected p and simultaneous interval agree, and so does what is printed of them."""
    if comparison.verdict == "not estimable":
        assert comparison.p is None
        assert interval(comparison) == "-"
        return
    low, high = comparison.interval
    assert low <= comparison.estimate <= high
    corrected = comparison.p_corrected
    assert (corrected < 0.05) == (comparison.is_different)
    assert (comparison.p_sequential or 0) <= corrected * (1 + 1e-9)
    text = interval(comparison)
    if comparison.is_different:
        assert low >= 0 if comparison.estimate > 0 else high <= 0
        assert text.startswith("(0") == (low == 0)
        assert text.endswith("0)") == (high == 0)
    else:
        assert low <= 0 <= high
        assert (text[0], text[-1]) == ("[", "]")
    if comparison.verdict == "equivalent":
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
        pair = (c.benchmark, c.family, frozenset((c.contrast.plus, c.contrast.minus)))
        verdict = c.verdict.replace("worse", "better")  # of kan - gelu, or of gelu - kan
        said.setdefault(pair, set()).add((verdict, c.p_corrected, c.p_equivalence_holm))
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
        expected = holm([c.p_equivalence_everywhere or 0.0 for c in tested])
        assert [c.p_equivalence_holm for c in tested] == pytest.approx(expected)


def arm_table(benchmark: Benchmark, runs: dict[tuple[str, str], list[float]]) -> ArmTable:
    arms = {key: pd.Series(values, range(len(values)), dtype=float) for key, values in runs.items()}
    return ArmTable(arms, benchmark, metric=OUTCOMES[benchmark])


def ascending(rng: np.random.Generator, benchmark: Benchmark, step: float) -> ArmTable:
    """One family, each variant better than the one before by ``step`` standard deviations."""
    variants = enumerate(["gelu", *VARIANTS])
    return arm_table(benchmark, {("t5", v): list(60 + i * step + rng.normal(size=6)) for i, v in variants})


def by_scipy(arms: ArmTable, one: str, other: str) -> float:
    """Welch's p of two variants of the one family."""
    return float(stats.ttest_ind(arms.runs["t5", one], arms.runs["t5", other], equal_var=False).pvalue)


def test_one_family_is_welch_by_scipy_corrected_over_all_outcomes():
    rng = np.random.default_rng(1)
    tables = [ascending(rng, name, step=1.0) for name in (BLIMP, EWOK)]
    found = study(tables)
    p_values = [by_scipy(arms, v, "gelu") for arms in tables for v in VARIANTS]
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
    assert average.p_equivalence < 0.05  # of the average alone, which was once called equivalent
    assert average.p_equivalence_everywhere == pytest.approx(1.0, abs=1e-3)
    assert average.verdict == "undecided"
    assert {found["kan", family].verdict for family in ("gpt_neo", "roberta")} == {"better", "worse"}
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


@pytest.mark.parametrize(("names", "found"), listed(__file__, "primary outcomes"))
def test_primary_outcomes_are_found_by_name(names: tuple[str, ...], found: tuple[str, ...]):
    scored = [BLIMP, Benchmark("blimp", metric="margin"), Benchmark("glue", "kan"), Benchmark("glue", "mlp")]
    assert tuple(map(str, find_primary(names, scored, is_strict=True))) == found


def test_a_primary_outcome_without_scores_is_refused_on_the_command_line_and_waited_for_in_a_study():
    assert find_primary(["blimp", "glue"], [BLIMP], is_strict=False) == (BLIMP,)
    assert find_primary(["glue"], [BLIMP], is_strict=False) == ()
    of_training, of_eval = Benchmark("train/loss"), Benchmark("eval/loss")
    assert find_primary([], [of_training, of_eval], is_strict=True) == (of_eval,)
    assert find_primary([], [of_training], is_strict=True) == (of_training,)
    for name in ("glu", ""):
        with pytest.raises(UsageError, match=rf"metric in --primary .{name}.; Available: blimp"):
            find_primary([name], [BLIMP, Benchmark("blimp", metric="margin")], is_strict=True)


def test_contrasts_are_corrected_with_all_primary_comparisons_and_asked_twice_count_once():
    arms = ascending(np.random.default_rng(6), EWOK, step=0.5)
    pairs = study([arms])
    found = pairs.asked("kan", "swish - relu", "relu - swish", "silu - kan", "gelu - swish")
    alone = pairs.claims.compare([c.contrast for c in found])
    together, _ = pairs.claims.correct_with(pairs.comparisons, alone)
    by_name = {str(c.contrast): c for c in found}
    of_scipy = [by_scipy(arms, "swish", "relu"), by_scipy(arms, "silu", "kan")]
    asked = [by_name["swish - relu"], by_name["silu - kan"]]
    assert [c.p for c in asked] == pytest.approx(of_scipy)
    whole = [*(c.p or 0.0 for c in pairs.comparisons), *of_scipy]
    assert_near_holm(whole, [c.p_corrected or 0.0 for c in (*together, *asked)])
    assert by_name["relu - swish"].p_corrected == asked[0].p_corrected
    claims = {c.contrast: c for c in together}
    turned = claims[Contrast(("swish",), ("gelu",))]
    assert by_name["gelu - swish"].p_corrected == turned.p_corrected
    assert by_name["gelu - swish"].interval == pytest.approx([-x for x in reversed(turned.interval or ())])
    same, claim = by_name["kan - gelu"], claims[Contrast(("kan",), ("gelu",))]
    for name in ("verdict", "p_corrected", "interval"):
        assert getattr(same, name) == getattr(claim, name)


@pytest.mark.parametrize("seed", range(2))
def test_an_exchanged_comparison_is_corrected_among_those_that_stay(seed: int):
    rng = np.random.default_rng(seed)
    found = study([scores(rng, name, ["gpt_neo"], 6) for name in (BLIMP, LOSS)])
    place = int(rng.choice([place for place, c in enumerate(found.comparisons) if c.p is not None]))
    other = replace(found.comparisons[place], p=float(rng.uniform(0, 0.02)), p_corrected=None)
    turned = found.comparisons[::-1]  # in another order they are the same question, and are drawn once
    (corrected,) = CorrectedGroups(found.claims, turned).correct({len(turned) - 1 - place: other}).values()
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
