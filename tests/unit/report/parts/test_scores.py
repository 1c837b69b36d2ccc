"""Means and spreads against pandas on made scores, and the figure of seeds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.sources import source_of_frame
from report.part import Page
from report.parts.scores import PART, draw_seeds
from report.write import number_tables

SEEDS = {"gelu": 3, "kan": 1, "relu": 4}


@pytest.fixture(scope="module")
def scores() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    rows = [
        (family, variant, seed, benchmark, mean + generator.normal())
        for family in ("gpt_neo", "roberta")
        for variant, number in SEEDS.items()
        for seed in range(1, number + 1)
        for benchmark, mean in (("blimp", 60.0), ("glue", 70.0))
        if (family, benchmark) != ("gpt_neo", "glue")
    ]
    return pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])


@pytest.fixture(scope="module")
def analysis(scores: pd.DataFrame) -> Analysis:
    return analyse(source_of_frame(scores))


def test_the_page_has_means_spreads_and_counts(scores: pd.DataFrame, analysis: Analysis) -> None:
    section = PART.section(analysis, PART.of(analysis), Page(alternative_texts={"seeds": "dots"}))
    assert section is not None
    lines = section.markdown.splitlines()
    (header,) = (line for line in lines if line.startswith("| family |"))
    metrics = [cell.split(",")[0].strip() for cell in header.split("|")[3:-1]]
    runs = scores.groupby(["family", "variant", "benchmark"]).score
    for family, label in (("gpt_neo", "GPT-Neo"), ("roberta", "RoBERTa")):
        for variant, number in SEEDS.items():
            (line,) = (line for line in lines if line.startswith(f"| {label} | `{variant}` |"))
            cells = dict(zip(metrics, (cell.strip() for cell in line.split("|")[3:-1]), strict=True))
            for benchmark in ("blimp", "glue"):
                key = family, variant, benchmark
                if key not in runs.groups:
                    assert cells[benchmark] == "-"
                    continue
                sd = f" ± {runs.get_group(key).std():.1f}" if number > 1 else ""
                assert cells[benchmark] == f"{runs.get_group(key).mean():.1f}{sd} ({number})"
    assert "**" not in section.body
    assert "![dots](figures/seeds.svg)" in section.body


def test_every_seed_is_in_the_tables(scores: pd.DataFrame, analysis: Analysis) -> None:
    names = ["family", "variant", "benchmark", "seed"]
    table = number_tables(analysis)["seeds"].set_index(names).score
    assert table.to_dict() == pytest.approx(scores.set_index(names).score.to_dict())


def test_the_figure_has_every_seed_as_a_dot(scores: pd.DataFrame, analysis: Analysis) -> None:
    figure, _ = draw_seeds(analysis)
    assert len(figure.axes) == 3
    dots = [
        float(x) for axes in figure.axes for line in axes.lines if line.get_marker() == "o"
        for x in line.get_xdata()
    ]  # fmt: skip
    assert sorted(dots) == pytest.approx(sorted(scores.score))
