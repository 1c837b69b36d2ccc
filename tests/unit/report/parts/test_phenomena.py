"""Differences by phenomenon and task against pandas and scipy on made scores."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.sources import source_of_frame
from report.part import Page
from report.parts.phenomena import PART, draw_heat_map
from report.significance.axes import Benchmark
from report.write import number_tables

PAGE = Page(alternative_texts={"heat-map-blimp": "a map"})
FAMILIES, VARIANTS = ("gpt_neo", "roberta"), ("gelu", "kan", "relu", "swish")
BLIMP = Benchmark("blimp")


def made(groups: dict[str, int]) -> pd.DataFrame:
    """Scores of three seeds on so many tasks of each group; kan has one run in the last family."""
    generator = np.random.default_rng(1)
    rows = [
        (family, variant, seed, "blimp", f"{group} {task}", group, "accuracy",
         60 + generator.normal() - place * (task % 3))
        for family in FAMILIES
        for place, variant in enumerate(VARIANTS)
        for seed in range(1, 2 if (family, variant) == ("roberta", "kan") else 4)
        for group, tasks in groups.items()
        for task in range(tasks)
    ]  # fmt: skip
    names = ["family", "variant", "seed", "benchmark", "task", "group", "metric", "score"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture(scope="module")
def scores() -> pd.DataFrame:
    return made({"islands": 2, "binding": 3, "npi": 2})


@pytest.fixture(scope="module")
def analysis(scores: pd.DataFrame) -> Analysis:
    return analyse(source_of_frame(scores))


def differences(scores: pd.DataFrame, part: str) -> pd.DataFrame:
    """By part and variant, families alike: means over tasks, then seeds, minus those of gelu."""
    runs = scores.groupby([part, "family", "variant", "seed"]).score.mean()
    means = runs.groupby([part, "family", "variant"]).mean().unstack("variant")
    return means.sub(means["gelu"], axis=0).groupby(part).mean().drop(columns="gelu")


def section(analysis: Analysis) -> str:
    found = PART.section(analysis, PART.of(analysis), PAGE)
    assert found is not None
    return found.markdown


def test_the_page_has_plain_differences_and_nothing_tested(scores: pd.DataFrame, analysis: Analysis) -> None:
    text, expected = section(analysis), differences(scores, "group")
    for group, row in expected.iterrows():
        line, *_ = (x for x in text.splitlines() if x.startswith(f"| {group} | ") and "accuracy" not in x)
        assert list(map(float, line.split("|")[2:-1])) == pytest.approx(row.to_list(), abs=0.05)
    assert "![a map](figures/heat-map-blimp.svg)" in text
    assert not re.search(r"\*\*|\bp\b|significant", text)


def test_the_table_has_sizes_and_no_tests(analysis: Analysis) -> None:
    table = number_tables(analysis)["phenomena"]
    assert len(table) == 9
    assert set(table[table.standard_error.isna()].contrast) == {"kan - gelu"}
    assert not {"p", "p_corrected", "verdict"} & set(table.columns)


def test_tasks_have_a_table_in_each_family(scores: pd.DataFrame, analysis: Analysis) -> None:
    means = scores.groupby(["family", "task", "variant"]).score.mean()
    text = section(analysis)
    assert text.count("| group | task | metric | `gelu` | `kan` | `relu` | `swish` |") == 2
    for family in FAMILIES:
        cells = " | ".join(f"{means[family, 'binding 2', name]:.1f}" for name in VARIANTS)
        assert f"| binding | binding 2 | accuracy ↑ | {cells} |" in text


def test_the_heat_map_shows_the_differences() -> None:
    scores = made({"g": 5})
    analysis = analyse(source_of_frame(scores))
    comparisons = PART.of(analysis)[BLIMP]
    figure, alternative = draw_heat_map(analysis, comparisons)
    axes, scale = figure.axes
    rows, columns = ([t.get_text() for t in a.get_ticklabels()] for a in (axes.yaxis, axes.xaxis))
    assert rows == [f"g {i}" for i in range(5)]
    assert columns == ["kan", "relu", "swish"]
    expected = differences(scores, "task")
    mesh = axes.collections[0]
    np.testing.assert_allclose(mesh.get_array().reshape(5, 3), expected)
    low, high = mesh.get_clim()
    assert low == -high
    assert high == pytest.approx(np.abs(expected.to_numpy()).max())  # no cell is four times the median one
    assert "percentage points" in scale.get_xlabel()
    assert "in each of 5 parts" in alternative


def test_a_table_without_tasks_has_no_phenomena() -> None:
    analysis = analyse(source_of_frame(made({"g": 1}).drop(columns=["task", "group", "metric"])))
    assert PART.of(analysis) is None
    assert "tasks" in number_tables(analysis)
