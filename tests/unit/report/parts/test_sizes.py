"""A report across sizes against lines by scipy, and the comparisons of each size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.run_facts import RunFacts
from report.inputs.sources import Source, source_of_frame
from report.part import Page
from report.parts import sizes
from report.parts.sizes import Sizes, draw_sizes
from report.request import Request
from report.significance.axes import Benchmark, places_of, plain
from report.write import number_tables

PARAMETERS = {"0.2M": 2e5, "0.5M": 5.4e5, "2M": 2.09e6}
LOSS = Benchmark("held-out-loss")
PAGE = Page(alternative_texts={"across-sizes": "alt"})
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
    source = source_of_frame(table, Request(axis=("size",)))
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
    return analyse(source, Request(baseline="gelu", margin=("held-out-loss=0.02",)))


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analysed(made())


def result_of(analysis: Analysis) -> Sizes:
    result = sizes.PART.of(analysis)
    assert result is not None
    return result


def trends_of(result: Sizes) -> Mapping[str, pd.Series]:
    return {str(row["variant"]): row for _, row in result.trends.iterrows()}


def scores(source: Source, variant: str, size: str, family: str = "gpt_neo") -> pd.Series:
    rows = source.rows
    chosen = [plain(f) == family and dict(places_of(f))["size"] == size for f in rows.family]
    return rows.score[(rows.variant == variant) & np.array(chosen)]


def test_the_change_is_that_of_scipys_line(analysis: Analysis):
    log_sizes = np.log(list(PARAMETERS.values()))
    for variant, trend in trends_of(result_of(analysis)).items():
        differences = [
            scores(analysis.source, variant, s).mean() - scores(analysis.source, "gelu", s).mean()
            for s in PARAMETERS
        ]
        line = stats.linregress(log_sizes, differences)
        assert trend.change == pytest.approx(line.slope * np.ptp(log_sizes))
        assert trend["first"] == pytest.approx(line.intercept + line.slope * log_sizes[0])
        assert trend["last"] == pytest.approx(line.intercept + line.slope * log_sizes[-1])
        assert trend.sizes == "+".join(PARAMETERS)


def test_outside_of_the_fold_is_no_finding(analysis: Analysis):
    section = sizes.section(analysis, result_of(analysis), PAGE)
    assert section.title == "Across sizes (exploratory)"
    assert section.summary == "5 variants, 3 sizes"
    assert "**" not in section.body


def test_settings_beside_size_are_averaged():
    source = made(families=("gpt_neo", "roberta"))
    both = analysed(source)
    changes = []
    for family in ("gpt_neo", "roberta"):
        differences = [
            scores(source, "kan", s, family).mean() - scores(source, "gelu", s, family).mean()
            for s in PARAMETERS
        ]
        log_sizes = np.log(list(PARAMETERS.values()))
        changes.append(stats.linregress(log_sizes, differences).slope * np.ptp(log_sizes))
    assert trends_of(result_of(both))["kan"].change == pytest.approx(np.mean(changes))
    assert set(result_of(both).ladders) == {"gpt_neo", "roberta"}


def test_a_table_takes_sizes_from_their_names():
    parameters = result_of(analysed(made(with_facts=False))).parameters
    assert sorted(set(parameters.values())) == pytest.approx([2e5, 5e5, 2e6])


def without(source: Source, *arms: tuple[str, str]) -> Source:
    """Leave out the runs of some variants at some sizes."""
    rows = source.rows
    gone = np.zeros(len(rows), bool)
    for variant, size in arms:
        of_arm = (rows.variant == variant) & np.array(
            [dict(places_of(f))["size"] == size for f in rows.family]
        )
        gone |= of_arm
    lost = set(rows.run_id[gone]) - set(rows.run_id[~gone])
    return replace(source, rows=rows[~gone], facts=tuple(x for x in source.facts if x.run_id not in lost))


def test_a_size_without_the_baseline_is_named_and_the_others_are_compared():
    first, *others = PARAMETERS
    analysis = analysed(without(made(), ("gelu", first)))
    assert result_of(analysis).levels == others
    body = sizes.section(analysis, result_of(analysis), PAGE).body
    assert f"Left out, as `gelu` has no run of a known size: {first}." in body
    assert sizes.PART.of(analysed(without(made(), *(("gelu", s) for s in (first, others[0]))))) is None


def test_a_line_goes_through_the_sizes_with_runs():
    names = list(PARAMETERS)
    source = without(made(), ("kan", names[0]), *(("none", size) for size in names[:2]))
    analysis = analysed(source)
    trends = trends_of(result_of(analysis))
    assert trends["kan"].sizes == "+".join(names[1:])
    assert trends["swiglu"].sizes == "+".join(names)
    assert "none" not in trends
    assert f"| `kan` | {names[1]}, {names[2]} |" in sizes.section(analysis, result_of(analysis), PAGE).body


def test_one_size_and_sizes_as_the_factor_have_no_such_part():
    assert sizes.PART.of(analysed(made(sizes=("2M",)))) is None
    compared = analyse(made(sizes=("0.2M", "2M"), runs=2), Request(factor="size", baseline="0.2M"))
    assert sizes.PART.of(compared) is None
    assert compared.others == ("2M",)


def test_the_figure_has_the_comparisons_of_each_size(analysis: Analysis):
    """Not a second estimate of them, nor another interval."""
    drawn = draw_sizes(analysis, result_of(analysis))
    assert drawn is not None
    (differences,) = drawn[0].axes
    for number, container in enumerate(differences.containers):
        comparisons = [analysis.of(LOSS, setting)[number] for setting in analysis.families]
        by_size = sorted(comparisons, key=lambda c: PARAMETERS[dict(places_of(c.family))["size"]])
        np.testing.assert_allclose(container.lines[0].get_ydata(), [c.estimate for c in by_size])
        lengths = [np.ptp(segment[:, 1]) for segment in container.lines[2][0].get_segments()]
        assert lengths == [0.0] * len(by_size)  # exploratory, as the average is primary


def test_at_one_size_are_an_estimate_and_its_error_but_no_test(analysis: Analysis):
    table = number_tables(analysis)["comparisons"].set_index("is_primary")
    assert table.loc[True].verdict.notna().all()
    assert table.loc[False].index.size == len(PARAMETERS) * len(analysis.others)
    assert table.loc[False, ["estimate", "standard_error", "df"]].notna().all(axis=None)
    tests = table.filter(regex="^(p|p_.*|low.*|high.*|level_.*|smallest_margin|verdict)$")
    assert tests.loc[True].notna().any().all()
    assert tests.loc[False].isna().all(axis=None)


def test_every_number_is_in_the_tables(analysis: Analysis):
    tables = number_tables(analysis)
    result = result_of(analysis)
    assert list(tables["size_trends"].change) == list(result.trends.change)
