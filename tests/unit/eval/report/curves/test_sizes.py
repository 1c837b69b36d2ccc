"""A report across sizes against Welch's test by scipy, laws that were put in, and counting."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.curves.sizes import Sizes, analyse_sizes
from eval.report.exports import as_json, number_tables
from eval.report.figures.sizes import draw_across_sizes, draw_size_laws
from eval.report.inputs.run_facts import RunFacts
from eval.report.inputs.sources import Source, source_of_frame
from eval.report.sections.sizes import sizes_section, sizes_sentence
from eval.results.outcome import Declared, Outcome
from eval.significance.arms import ArmTable, Key
from eval.significance.axes import Benchmark, places_of, plain
from eval.significance.comparison import Inference
from eval.significance.statistics.tuning import Selection
from tests.unit.eval.report.rendering import render

PARAMETERS = {"0.2M": 2e5, "0.5M": 5.4e5, "2M": 2.09e6}
LOSS = Benchmark("held-out-loss")
# What is added to the baseline's law at the three sizes.
SHAPES = {
    "gelu": (0.0, 0.0, 0.0),
    "kan": (0.30, 0.16, 0.03),
    "swiglu": (-0.05, -0.15, -0.28),
    "relu2": (0.15, 0.0, -0.16),
    "none": (0.4, 0.4, 0.4),
}
FACTORS = {"kan": 2}
"""Of the baseline's parameters."""


def law(parameters: float) -> float:
    return 1.5 + 60 * parameters**-0.3


def made(
    sizes: tuple[str, ...] = tuple(PARAMETERS),
    families: tuple[str, ...] = ("gpt_neo",),
    runs: int = 4,
    with_facts: bool = True,
) -> Source:
    """Runs of all shapes at all sizes, listed from the largest on, so that nobody relies on their order."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        (
            (f"{family}/{variant}/{size}-{seed}", family, variant, seed, "held-out-loss",
             "held_out_loss", law(PARAMETERS[size]) + SHAPES[variant][place] + 0.005 * rng.normal(), size)
            for family in families
            for variant in SHAPES
            for place, size in reversed(list(enumerate(PARAMETERS)))
            for seed in range(1, runs + 1)
            if size in sizes
        ),
        columns=["run_id", "family", "variant", "seed", "benchmark", "metric", "score", "size"],
    )  # fmt: skip
    source = source_of_frame(table, axes=["size"])
    if not with_facts:
        return source
    facts = (
        RunFacts(
            run_id=str(row.run_id), family=row.family, variant=str(row.variant), seed=int(row.seed),
            num_parameters=int(PARAMETERS[dict(places_of(row.family))["size"]] * FACTORS.get(row.variant, 1)),
        )
        for row in source.rows.itertuples()
    )  # fmt: skip
    return replace(source, facts=tuple(facts))


def analysed(source: Source) -> Analysis:
    return analyse(source, Request(baseline="gelu", declared=Declared(margins={"held-out-loss": 0.02})))


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analysed(made())


def sizes_of(source: Source, choices: dict[Key, Selection] | None = None) -> Sizes:
    """What is said across sizes, without the rest of a report."""
    rows = source.rows
    outcome = Outcome(name="held-out loss", unit="nats", margin=0.02)
    table = ArmTable.of_scores(rows, LOSS, outcome=outcome, choices=choices)
    families = list(dict.fromkeys(rows.family))
    return analyse_sizes({LOSS: table}, source.facts, source.axes, families, list(SHAPES), Inference())


def scores(source: Source, variant: str, size: str, family: str = "gpt_neo") -> pd.Series:
    rows = source.rows
    chosen = [plain(f) == family and dict(places_of(f))["size"] == size for f in rows.family]
    return rows.score[(rows.variant == variant) & np.array(chosen)]


def test_each_size_has_welchs_difference_at_the_baselines_parameters(analysis: Analysis):
    found = {(x.variant, x.size): x for x in analysis.sizes.differences}
    assert len(found) == 4 * 3
    for (variant, size), x in found.items():
        test = stats.ttest_ind(
            scores(analysis.source, str(variant), size),
            scores(analysis.source, "gelu", size),
            equal_var=False,
        )
        interval = test.confidence_interval()
        assert (x.low, x.high) == pytest.approx((interval.low, interval.high))
        assert x.parameters == pytest.approx(PARAMETERS[size])
        assert x.fewest_runs == 4


def test_verdicts_are_those_that_were_put_in(analysis: Analysis):
    found = {x.variant: x for x in analysis.sizes.verdicts}
    verdicts = {"kan": "shrinks", "swiglu": "grows", "relu2": "changes sign", "none": "holds"}
    assert {name: x.verdict for name, x in found.items()} == verdicts
    log_sizes = np.log(list(PARAMETERS.values()))
    means = [
        scores(analysis.source, "kan", s).mean() - scores(analysis.source, "gelu", s).mean()
        for s in PARAMETERS
    ]
    line = stats.linregress(log_sizes, means)
    assert found["kan"].change == pytest.approx(line.slope * np.ptp(log_sizes))
    assert found["kan"].sizes == tuple(PARAMETERS)


def test_what_the_choice_of_a_rate_adds_is_in_every_interval(analysis: Analysis):
    rows = analysis.source.rows
    added = {(family, variant): Selection(0.01, 8.0) for family in set(rows.family) for variant in SHAPES}
    plain, tuned = sizes_of(analysis.source), sizes_of(analysis.source, added)
    for before, after in zip(plain.differences, tuned.differences, strict=True):
        assert before.low is not None
        assert after.low is not None
        assert after.low < before.low - 0.1
    assert {x.verdict for x in tuned.verdicts if x.variant == "none"} == {"cannot tell"}
    assert [x.change for x in tuned.verdicts] == [x.change for x in plain.verdicts]


def test_the_sentence_says_who_shrinks_and_that_it_is_no_claim(analysis: Analysis):
    said = sizes_sentence(analysis)
    assert "(0.2M to 2M, exploratory)" in said
    assert "shrinks for `kan` (+0.29" in said
    assert "changes sign for `relu2`" in said
    assert said in render(analysis)


def test_laws_go_through_the_losses_of_a_variants_own_parameters(analysis: Analysis):
    found = {x.variant: x for x in analysis.sizes.laws}
    assert found["gelu"].exponent == pytest.approx(0.3, abs=0.05)
    assert found["gelu"].floor == pytest.approx(1.5, abs=0.25)
    assert found["kan"].parameters == pytest.approx([2 * x for x in PARAMETERS.values()])
    for x in found.values():
        if x.variant in ("gelu", "none"):
            fitted = x.floor + x.scale * np.array(x.parameters) ** -x.exponent
            assert fitted == pytest.approx(x.losses, abs=1e-4)
        assert x.prediction is not None
        assert x.prediction.observed == pytest.approx(scores(analysis.source, str(x.variant), "2M").mean())


def test_of_losses_that_grow_with_size_no_exponent_is_told(analysis: Analysis):
    """As where one learning rate does not fit the largest."""
    source = made()
    grow = source.rows.score.max() + 1 - source.rows.score
    found = sizes_of(replace(source, rows=source.rows.assign(score=grow)))
    assert all(x.exponent <= 0 for x in found.laws)
    text = sizes_section(replace(analysis, sizes=found), CONTEXT)
    assert text.count("losses do not fall") == len(found.laws)


@pytest.mark.parametrize(
    ("means", "said"),
    [
        ((3.7, 3.5, 3.75), "losses do not fall"),
        ((3.7, 3.5, 3.69), "losses rise again"),
        ((3.7, 3.5, 3.49999), "not determined"),  # they fall all at once
        ((3.7, 3.5, 3.4), None),
    ],
)
@pytest.mark.parametrize("parameters", [(2e5, 5e5, 2e6), (1e6, 3e6, 1e8), (1e7, 2e7, 1e11)])
def test_an_exponent_is_told_of_losses_that_have_one(analysis: Analysis, parameters, means, said):
    """A law that only falls is fitted to all of them, with whatever exponent misses them least."""
    source = made()
    places = [list(PARAMETERS).index(dict(places_of(family))["size"]) for family in source.rows.family]
    rows = source.rows.assign(score=np.array(means)[places] + source.rows.seed * 1e-5)
    sizes = dict(zip(PARAMETERS.values(), parameters, strict=True))
    facts = tuple(
        replace(x, num_parameters=sizes[int(x.num_parameters / FACTORS.get(str(x.variant), 1))])
        for x in source.facts
    )
    found = sizes_of(replace(source, rows=rows, facts=facts))
    shown = replace(analysis, sizes=found)
    text, drawn = sizes_section(shown, CONTEXT), draw_size_laws(shown)
    assert drawn is not None
    curves = [line for line in drawn[0].axes[0].lines if len(line.get_xdata()) > 3]
    exponents = number_tables(shown)["size_laws"].exponent
    assert len(found.laws) == len(SHAPES)
    if said is None:
        assert (len(curves), exponents.isna().sum()) == (len(SHAPES), 0)
        assert "No exponent is given" not in text
    else:
        assert text.count(f"| {said} | - |") == len(SHAPES)
        assert (len(curves), exponents.notna().sum()) == (0, 0)
        assert "No exponent is given" in text


def test_settings_beside_size_are_averaged():
    source = made(families=("gpt_neo", "roberta"))
    sizes = sizes_of(source)
    found = next(x for x in sizes.differences if (x.variant, x.size) == ("kan", "0.5M"))
    of_families = [
        scores(source, "kan", "0.5M", family).mean() - scores(source, "gelu", "0.5M", family).mean()
        for family in ("gpt_neo", "roberta")
    ]
    assert found.estimate == pytest.approx(np.mean(of_families))
    assert {x.family for x in sizes.laws} == {"gpt_neo", "roberta"}


def test_two_sizes_have_a_law_without_floor_and_no_prediction(analysis: Analysis):
    found = sizes_of(made(sizes=("0.2M", "2M")))
    assert {x.has_floor for x in found.laws} == {False}
    assert {x.prediction for x in found.laws} == {None}
    said = sizes_section(replace(analysis, sizes=found), CONTEXT)
    assert "Two sizes hold only the law without E" in said
    assert {x.p_bend for x in found.verdicts} == {None}


def test_a_table_takes_sizes_from_their_names():
    found = sizes_of(made(with_facts=False))
    assert sorted({x.parameters for x in found.differences}) == pytest.approx([2e5, 5e5, 2e6])


def test_single_runs_have_differences_and_no_verdict(analysis: Analysis):
    found = sizes_of(made(runs=1))
    assert {x.low for x in found.differences} == {None}
    assert found.verdicts == ()
    bare = replace(analysis, sizes=found)
    assert sizes_sentence(bare) == ""
    assert "no trend of held-out loss can be told" in sizes_section(bare, CONTEXT)


def without(source: Source, *arms: tuple[str, str], but_one: bool = False) -> Source:
    """Leave out the runs of some variants at some sizes, or all but one of them."""
    rows = source.rows
    gone = np.zeros(len(rows), bool)
    for variant, size in arms:
        of_arm = (rows.variant == variant) & np.array(
            [dict(places_of(f))["size"] == size for f in rows.family]
        )
        gone |= of_arm & (rows.seed > 1) if but_one else of_arm
    lost = set(rows.run_id[gone]) - set(rows.run_id[~gone])
    return replace(source, rows=rows[~gone], facts=tuple(x for x in source.facts if x.run_id not in lost))


def test_a_size_without_the_baseline_is_named_and_the_others_are_told(analysis: Analysis):
    sizes = list(PARAMETERS)
    found = sizes_of(without(made(), ("gelu", sizes[0])))
    assert {x.size for x in found.differences} == set(sizes[1:])
    assert found.notes == (f"{sizes[0]}, as `gelu` has no run of a known size there",)
    assert f"not told of {sizes[0]}" in sizes_section(replace(analysis, sizes=found), CONTEXT)
    none = sizes_of(without(made(), *(("gelu", size) for size in sizes[:2])))
    assert (none.differences, len(none.notes)) == ((), 1)
    assert "`gelu` has no two sizes with runs" in sizes_section(replace(analysis, sizes=none), CONTEXT)


def test_a_line_that_does_not_go_through_all_sizes_says_so(analysis: Analysis):
    sizes = list(PARAMETERS)
    source = without(made(), ("kan", sizes[0]), *(("none", size) for size in sizes[:2]), but_one=True)
    found = sizes_of(source)
    assert {x.variant: x.sizes for x in found.verdicts}["kan"] == tuple(sizes[1:])
    text = sizes_section(replace(analysis, sizes=found), CONTEXT)
    (row,) = [
        line for line in text.splitlines() if line.startswith(f"| `kan` ({sizes[1]} and {sizes[2]} alone)")
    ]
    assert f" (at {sizes[1]}) |" in row
    assert f"(at {sizes[2]})" not in row
    assert "*Alone*: elsewhere it or the baseline has fewer than two runs" in text
    sentence = sizes_sentence(replace(analysis, sizes=found))
    assert sentence.startswith(f"Across sizes ({sizes[0]} to {sizes[2]}, exploratory)")
    assert f"{sizes[1]} to {sizes[2]})" in sentence or "`kan` (" not in sentence
    assert "No trend without two runs at two sizes: `none`." in text


def test_one_size_has_no_such_section(analysis: Analysis):
    one = sizes_of(made(sizes=("2M",)))
    assert one == Sizes()
    bare = replace(analysis, sizes=one)
    assert sizes_section(bare, CONTEXT) == sizes_sentence(bare) == ""
    assert draw_across_sizes(bare) is None
    assert draw_size_laws(bare) is None


def test_sizes_as_the_factor_are_compared_and_have_no_trend():
    compared = analyse(made(sizes=("0.2M", "2M"), runs=2), Request(factor="size", baseline="0.2M"))
    assert compared.sizes == Sizes()
    assert compared.others == ("2M",)


def test_figures_show_every_difference_and_prediction(analysis: Analysis):
    drawn = draw_across_sizes(analysis)
    assert drawn is not None
    lines = [x for x in drawn[0].axes[0].lines if len(x.get_xdata()) == 3]
    shown = sorted(float(y) for line in lines for y in line.get_ydata())
    assert shown == pytest.approx(sorted(x.estimate for x in analysis.sizes.differences))
    drawn = draw_size_laws(analysis)
    assert drawn is not None
    assert sum(len(x.get_xdata()) > 3 for x in drawn[0].axes[0].lines) == len(analysis.sizes.laws)
    marks = [float(x.get_ydata()[0]) for x in drawn[0].axes[0].lines if x.get_marker() == "_"]
    assert sorted(marks) == pytest.approx(
        sorted(x.prediction.predicted for x in analysis.sizes.laws if x.prediction)
    )


def test_every_number_is_in_the_files(analysis: Analysis):
    tables = number_tables(analysis)
    content = json.loads(as_json(analysis, CONTEXT, tables, "scores"))
    assert content["across_sizes"] == sizes_sentence(analysis)
    assert list(tables["size_trends"].verdict) == [x.verdict for x in analysis.sizes.verdicts]
    predicted = {x.variant: x.prediction.predicted for x in analysis.sizes.laws if x.prediction}
    assert dict(zip(tables["size_laws"].variant, tables["size_laws"].predicted, strict=True)) == predicted
    assert {"size_differences", "size_trends", "size_laws"} <= set(content)
