"""A report across sizes against lines by scipy, and the comparisons of each size."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
    sizes: Collection[str] = tuple(PARAMETERS),
    families: Collection[str] = ("gpt_neo",),
    without: Collection[tuple[str, str]] = (),
) -> Source:
    """Runs of all shapes at all sizes, listed from the largest on, so that nobody relies on their order.

    The last family has no runs of those variants and sizes that are left out.
    """
    rng, families = np.random.default_rng(0), list(families)
    rows = [
        (f"{family}/{variant}/{size}-{seed}", family, variant, seed, "held-out-loss",
         "held_out_loss", law(PARAMETERS[size]) + SHAPES[variant][place] + 0.005 * rng.normal(), size)
        for family in families
        for variant in SHAPES
        for place, size in reversed(list(enumerate(PARAMETERS)))
        for seed in range(1, 5)
        if size in sizes and not (family == families[-1] and (variant, size) in without)
    ]  # fmt: skip
    columns = ["run_id", "family", "variant", "seed", "benchmark", "metric", "score", "size"]
    source = source_of_frame(pd.DataFrame(rows, columns=columns), Request(axis=("size",)))
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


def differences(source: Source, variant: str, family: str = "gpt_neo") -> list[float]:
    """To the baseline at each size, by means over seeds."""
    means = source.rows.groupby(["variant", "family"]).score.mean()
    by_size = {
        (name, dict(places_of(setting))["size"]): mean
        for (name, setting), mean in means.items()
        if plain(setting) == family
    }
    return [by_size[variant, size] - by_size["gelu", size] for size in PARAMETERS]


LOG_SIZES = np.log(list(PARAMETERS.values()))


def test_the_change_is_that_of_scipys_line(analysis: Analysis):
    for variant, trend in trends_of(result_of(analysis)).items():
        line = stats.linregress(LOG_SIZES, differences(analysis.source, variant))
        assert trend.change == pytest.approx(line.slope * np.ptp(LOG_SIZES))
        assert trend["first"] == pytest.approx(line.intercept + line.slope * LOG_SIZES[0])
        assert trend["last"] == pytest.approx(line.intercept + line.slope * LOG_SIZES[-1])
        assert trend.sizes == "+".join(PARAMETERS)
    written = number_tables(analysis)["size_trends"]
    assert list(written.change) == list(result_of(analysis).trends.change)


def test_outside_of_the_fold_is_no_finding(analysis: Analysis):
    section = sizes.section(analysis, result_of(analysis), PAGE)
    assert section.title == "Across sizes (exploratory)"
    assert section.summary == "5 variants, 3 sizes"
    assert "**" not in section.body


def test_settings_beside_size_are_averaged():
    source = made(families=("gpt_neo", "roberta"))
    result = result_of(analysed(source))
    changes = [
        stats.linregress(LOG_SIZES, differences(source, "kan", family)).slope * np.ptp(LOG_SIZES)
        for family in ("gpt_neo", "roberta")
    ]
    assert trends_of(result)["kan"].change == pytest.approx(np.mean(changes))
    assert set(result.ladders) == {"gpt_neo", "roberta"}


def test_a_table_takes_sizes_from_their_names():
    parameters = result_of(analysed(replace(made(), facts=()))).parameters
    assert sorted(set(parameters.values())) == pytest.approx([2e5, 5e5, 2e6])


def test_a_size_without_the_baseline_is_named_and_the_others_are_compared():
    first, *others = PARAMETERS
    analysis = analysed(made(without=[("gelu", first)]))
    assert result_of(analysis).levels == others
    body = sizes.section(analysis, result_of(analysis), PAGE).body
    assert f"Left out, as `gelu` has no run of a known size: {first}." in body
    only_one = made(without=[("gelu", first), ("gelu", others[0])])
    assert sizes.PART.of(analysed(only_one)) is None


def test_a_line_goes_through_the_sizes_with_runs():
    names = list(PARAMETERS)
    gaps = [("kan", names[0]), *(("none", size) for size in names[:2])]
    analysis = analysed(made(without=gaps))
    trends = trends_of(result_of(analysis))
    assert trends["kan"].sizes == "+".join(names[1:])
    assert trends["swiglu"].sizes == "+".join(names)
    assert "none" not in trends
    in_two_families = result_of(analysed(made(families=("gpt_neo", "roberta"), without=gaps)))
    assert trends_of(in_two_families)["kan"].sizes == "+".join(names[1:])
    assert f"| `kan` | {names[1]}, {names[2]} |" in sizes.section(analysis, result_of(analysis), PAGE).body


def test_one_size_and_sizes_as_the_factor_have_no_such_part():
    assert sizes.PART.of(analysed(made(sizes=("2M",)))) is None
    compared = analyse(made(sizes=("0.2M", "2M")), Request(factor="size", baseline="0.2M"))
    assert sizes.PART.of(compared) is None
    assert compared.others == ("2M",)


def test_the_figure_has_the_comparisons_of_each_size(analysis: Analysis):
    """Not a second estimate of them, nor another interval."""
    drawn = draw_sizes(analysis, result_of(analysis))
    assert drawn is not None
    (axes,) = drawn[0].axes
    assert axes.get_xlabel() == "parameters (millions)"
    for number, container in enumerate(axes.containers):
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
