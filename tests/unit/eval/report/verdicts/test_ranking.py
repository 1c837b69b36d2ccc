"""The standing table: its order, its letters and its figure, from a table of scores."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.document.markdown import amount
from eval.report.exports import as_json, number_tables
from eval.report.figures import draw_all
from eval.report.inputs.run_facts import RunFacts
from eval.report.inputs.sources import read_source
from eval.report.sections.answer import answer
from eval.report.sections.context import Context
from eval.report.sections.ranking import ranking_section

VARIANTS = {"gelu": 3.0, "swiglu": 2.7, "relu": 3.01, "none": 3.5, "kan": 3.2}


def made(
    folder: Path,
    variants: Collection[str] = VARIANTS,
    paired: bool = False,
    fewer: Mapping[str, int] | None = None,
) -> Analysis:
    """Analyse six runs of each variant, or ``fewer``."""
    rng = np.random.default_rng(3)
    rows = [
        ("gpt_neo", variant, seed, "held-out-loss", centre + 0.02 * rng.normal())
        for variant, centre in VARIANTS.items()
        for seed in range(1, 7)
        if variant in variants and seed <= (fewer or {}).get(variant, 6)
    ]
    frame = pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])
    frame.to_csv(folder / "scores.csv", index=False)
    asked = Request(baseline="gelu", primary=("held-out-loss",), paired=paired)
    return analyse(read_source(folder / "scores.csv"), asked)


@pytest.fixture
def analysis(tmp_path) -> Analysis:
    return made(tmp_path)


def test_variants_are_sorted_and_share_letters_where_they_are_not_told_apart(analysis):
    (ranking,) = analysis.rankings
    table = next(iter(analysis.tables.values()))
    runs = {v: table.runs["gpt_neo", v].to_numpy() for v in VARIANTS}
    assert [x.variant for x in ranking.places] == sorted(VARIANTS, key=lambda v: runs[v].mean())
    for one, other in combinations(ranking.places, 2):
        p = stats.ttest_ind(runs[one.variant], runs[other.variant], equal_var=False).pvalue
        shares = set(one.letters.split()) & set(other.letters.split())
        # Ten pairs, of which one is of equals: the others are below any of Holm's levels.
        assert bool(shares) == ({one.variant, other.variant} == {"gelu", "relu"})
        assert (p < 0.05 / 10) == (not shares)
    assert ranking.leaders == ["swiglu"]


def test_the_section_says_the_order_and_has_a_figure(analysis):
    drawn = draw_all(analysis)
    context = Context(command="", versions={}, figures={name: alt for name, (_, alt) in drawn.items()})
    text = ranking_section(analysis, context)
    assert "`swiglu` has the lowest mean of 5 variants, and is told apart from every other." in text
    lines = [line for line in text.splitlines() if line.startswith("| ") and "`" in line][1:]
    assert [line.split("`")[1] for line in lines] == ["swiglu", "gelu", "relu", "kan", "none"]
    assert "swiglu, gelu, relu, kan, none" in drawn["ranking"][1]
    assert "figures/ranking.svg" in text


def test_who_has_fewer_runs_is_seen(tmp_path):
    text = ranking_section(
        made(tmp_path, fewer={"kan": 1, "swiglu": 3}), Context(command="", versions={}, figures={})
    )
    assert "`swiglu` has the lowest mean of 4 variants" in text
    assert "Not in it, with fewer than two runs: `kan`." in text
    header, *lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    runs = header.index("runs")
    assert [line[runs] for line in lines[1:]] == ["3", "6", "6", "6"]


def test_the_same_number_of_runs_needs_no_column(analysis):
    text = ranking_section(analysis, Context(command="", versions={}, figures={"ranking": ""}))
    assert "| runs |" not in text
    assert "*Runs*" not in text


def test_few_variants_and_paired_runs_have_none(tmp_path):
    assert made(tmp_path, paired=True).rankings == ()
    three = made(tmp_path, ("gelu", "relu", "none"))
    assert three.rankings == ()
    assert ranking_section(three, Context(command="", versions={}, figures={})) == ""


def test_of_each_variant_those_are_named_that_it_is_better_than(analysis):
    (ranking,) = analysis.rankings
    found = {x.variant: list(x.better_than) for x in ranking.places}
    assert found == {
        "swiglu": ["gelu", "relu", "kan", "none"],
        "gelu": ["kan", "none"],
        "relu": ["kan", "none"],
        "kan": ["none"],
        "none": [],
    }
    assert ranking.ahead_of(ranking.places[3]) == ["swiglu", "gelu", "relu"]


def test_letters_give_way_to_numbers_and_a_list_where_groups_are_many(analysis, monkeypatch):
    context = Context(command="", versions={}, figures={"ranking": ""})
    assert "| not told apart |" in ranking_section(analysis, context)
    monkeypatch.setattr("eval.report.verdicts.ranking.MOST_GROUPS", 3)
    text = ranking_section(replace(analysis, rankings=(replace(analysis.rankings[0]),)), context)
    header, *lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    own = header.index("told apart from")
    assert [line[own] for line in lines[1:]] == [
        "4 worse",
        "1 better, 2 worse",
        "1 better, 2 worse",
        "3 better, 1 worse",
        "4 better",
    ]
    assert "- `gelu` is better than `kan` and `none`" in text
    assert "share a letter" not in text
    drawn = draw_all(replace(analysis, rankings=(replace(analysis.rankings[0]),)))["ranking"]
    assert not drawn[0].axes[0].texts
    assert "letters" not in drawn[1]
    assert {x.get_text() for x in draw_all(analysis)["ranking"][0].axes[0].texts} == {"a", "b", "c", "d"}


def test_a_best_rate_at_the_edge_of_the_grid_is_seen_in_the_table_and_in_the_figure(analysis):
    (ranking,) = analysis.rankings
    places = tuple(replace(x, is_at_edge=x.variant == "kan") for x in ranking.places)
    marked = replace(analysis, rankings=(replace(ranking, places=places),))
    context = Context(command="", versions={}, figures={"ranking": ""})
    text = ranking_section(marked, context)
    assert "| `kan` (edge) |" in text
    assert "at the edge of what was tuned" in text
    assert "edge" not in ranking_section(analysis, context)
    labels = draw_all(marked)["ranking"][0].axes[0].get_yticklabels()
    assert [x.get_text() for x in labels] == ["swiglu", "gelu", "relu", "kan (edge)", "none"]


def test_time_is_that_of_the_fastest_run_whatever_it_was_made_for(analysis):
    def run(variant: str, speed: float | None, *places: tuple[str, str]) -> RunFacts:
        own = {"variant": variant, "seed": 1, "places": places, "tokens_per_s": speed}
        return RunFacts(run_id="", family="gpt_neo", **own)

    facts = tuple(run(x.variant, 90.0) for x in analysis.rankings[0].places)
    stages = {
        "tuning": (
            run("gelu", 100.0, ("optim.learning_rate", "0.001")),
            run("relu", 125.0, ("optim.learning_rate", "0.002")),
            run("kan", 50.0),
            run("none", None),
        )
    }
    timed = replace(analysis, source=replace(analysis.source, facts=facts, stages=stages))
    text = ranking_section(timed, Context(command="", versions={}, figures={"ranking": ""}))
    header, *lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    found = {line[0 if line[0].startswith("`") else 1].strip("`"): line[-1] for line in lines[1:]}
    assert header[-1] == "time"
    assert found == {"swiglu": "1.11x", "gelu": "1.00x", "relu": "0.80x", "kan": "1.11x", "none": "1.11x"}


def test_the_order_is_in_the_tables_and_in_the_json(analysis):
    (ranking,) = analysis.rankings
    tables = number_tables(analysis)
    assert list(tables["ranking"].variant) == [x.variant for x in ranking.places]
    assert list(tables["ranking"].place) == [1, 2, 3, 4, 5]
    context = Context(command="", versions={}, figures={})
    records = json.loads(as_json(analysis, context, tables, "scores"))["ranking"]
    assert [(x["variant"], x["letters"]) for x in records] == [(x.variant, x.letters) for x in ranking.places]
    assert records[0]["better_than"] == ", ".join(map(str, ranking.places[0].better_than)) != ""


def test_a_bound_is_said_to_be_of_whom_it_is(tmp_path):
    """Fewest runs leave the widest interval, and the variant that has it is not among those named first."""
    rng = np.random.default_rng(0)
    names = ["gelu", "a", "b", "c", "d", "e"]
    rows = [
        ("gpt_neo", name, seed, "blimp", 60 + (9 if name == "e" else 1) * rng.normal())
        for name in names
        for seed in range(1, 4)
    ]
    frame = pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])
    frame.to_csv(tmp_path / "scores.csv", index=False)
    found = analyse(read_source(tmp_path / "scores.csv"), Request(baseline="gelu"))
    widest = max(found.comparisons, key=lambda c: c.largest_remaining or 0.0)
    assert widest.contrast.compared == "e"
    said = " ".join(answer(found))
    assert f"(differences up to {amount(widest.largest_remaining, widest)}, of `e`, remain possible)" in said
