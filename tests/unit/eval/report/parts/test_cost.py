"""Costs and matched levels against plain loops and pandas, verdicts against the comparisons they are of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.figures.cost import draw_cost, keep_apart
from eval.report.inputs.run_facts import Evaluation, RunFacts
from eval.report.inputs.sources import Source, source_of_frame
from eval.report.part import Page
from eval.report.parts import cost
from eval.report.parts.cost import Cost, without_budget

PAGE = Page(alternative_texts={"cost": "alt"})
SEEDS = (1, 2, 3, 4)
TOKENS = 1_000_000
# Loss above the baseline's, parameters, FLOPs and hours over the baseline's, FFN width, budget.
LEVELS = {
    "gelu": (0.0, 1.0, 1.0, 1.0, 256, "width"),
    "kan": (-0.05, 3.4, 3.1, 2.5, 256, "width"),
    "kan ffn_budget=params": (0.04, 1.03, 1.05, 1.4, 44, "params"),
    "kan ffn_budget=flops": (0.06, 0.97, 0.998, 1.3, 42, "flops"),
    "relu": (0.0001, 1.0, 1.0, 0.98, 256, "width"),
}


def made(names: tuple[str, ...] = tuple(LEVELS), families: tuple[str, ...] = ("gpt_neo",)) -> Source:
    """Losses of known differences; a curve comes down to its last loss evenly over its hours."""
    rng = np.random.default_rng(0)
    rows, facts = [], []
    for family in families:
        for name in names:
            above, parameters, flops, hours, width, budget = LEVELS[name]
            for seed in SEEDS:
                run_id, loss = f"{family}/{name}/{seed}", 2.5 + above + 0.01 * rng.normal()
                rows.append((run_id, family, name, seed, "held-out-loss", "held_out_loss", loss))
                curve = tuple(
                    Evaluation(i, loss + 0.05 * (10 - i), TOKENS * i // 10, hours * i / 10)
                    for i in range(1, 11)
                )
                facts.append(
                    RunFacts(
                        run_id=run_id, family=family, variant=name, seed=seed, eval_loss=loss, curve=curve,
                        num_parameters=round(1e6 * parameters), flops_per_token=round(2e6 * flops),
                        train_hours=hours, intermediate_size=width, ffn_budget=budget,
                    )
                )  # fmt: skip
    columns = ["run_id", "family", "variant", "seed", "benchmark", "metric", "score"]
    return replace(source_of_frame(pd.DataFrame(rows, columns=columns)), facts=tuple(facts))


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analyse(made(), Request(baseline="gelu"))


def result_of(analysis: Analysis) -> Cost:
    result = cost.PART.of(analysis)
    assert result is not None
    return result


def test_a_level_is_named_without_its_budget():
    assert without_budget("kan grid_size=3 ffn_budget=params") == "kan grid_size=3"
    assert without_budget("kan") == "kan"


def test_each_level_is_matched_in_what_its_runs_say(analysis: Analysis):
    matches = {(x.variant, x.matched_in): x for x in result_of(analysis).matches}
    assert {key: str(x.level) for key, x in matches.items()} == {
        ("kan", "width"): "kan",
        ("kan", "parameters"): "kan ffn_budget=params",
        ("kan", "FLOPs"): "kan ffn_budget=flops",
        ("relu", "width"): "relu",
        ("relu", "parameters"): "relu",
        ("relu", "FLOPs"): "relu",
    }
    assert matches["kan", "parameters"].ratio == pytest.approx(1.03)


def test_a_matched_level_has_the_verdict_of_its_comparison(analysis: Analysis):
    """A second estimate of one pair would be one that contradicts the first."""
    by_level = {c.contrast.compared: c for c in analysis.comparisons}
    text = cost.section(analysis, result_of(analysis), PAGE).body
    first, second = text.split("![alt](figures/cost.svg)")
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]] for line in first.splitlines() if "`kan`" in line
    ]
    assert [row[1] for row in rows] == ["width", "parameters", "FLOPs"]
    for row in rows:
        comparison = by_level[row[2]]
        low, high = comparison.interval
        assert float(row[4]) == pytest.approx(comparison.estimate, abs=1e-3)
        assert [float(end) for end in row[5].strip("[]()").split(", ")] == pytest.approx(
            [low, high], abs=1e-3
        )
        assert row[6] == ("**better**" if row[2] == "kan" else "**worse**")
    assert "+3.0%" in first
    assert "| `kan ffn_budget=params` | 1,030,000 |" in second
    frame = cost.tables(analysis, result_of(analysis))["matched"]
    assert list(frame.verdict) == [by_level[level].verdict for level in frame.level]


def test_means_and_spreads_are_those_of_pandas(analysis: Analysis):
    facts = pd.DataFrame([vars(x) for x in analysis.facts])
    hours = facts.groupby("variant").train_hours
    frame = cost.tables(analysis, result_of(analysis))["cost"].set_index("variant")
    for variant in LEVELS:
        assert frame.train_hours[variant] == pytest.approx(hours.mean()[variant])
        assert frame.train_hours_sd[variant] == pytest.approx(hours.std()[variant])
        assert frame.flops_ratio[variant] == pytest.approx(LEVELS[variant][2])
        assert frame.num_runs[variant] == len(SEEDS)
    assert frame.matched_in["relu"] == "width, parameters, FLOPs"
    assert frame.matched_in["gelu"] == ""
    in_all = sum(x.train_hours for x in analysis.facts)
    section = cost.section(analysis, result_of(analysis), PAGE)
    minutes = round(60 * in_all)
    assert section.summary == f"20 runs, {minutes // 60} h {minutes % 60:02d} min of training"


def test_runs_of_a_tuning_are_in_the_total(analysis: Analysis):
    others = tuple(replace(x, run_id=f"{x.run_id} tune") for x in analysis.facts[:3])
    tuned = replace(analysis, source=replace(analysis.source, stages={"tune": (*others, analysis.facts[0])}))
    result = cost.compute(tuned)
    assert result is not None
    assert result.num_runs == 23
    assert result.hours == pytest.approx(sum(x.train_hours for x in (*analysis.facts, *others)))


def test_a_level_is_matched_in_all_families_or_not_at_all():
    source = made(families=("gpt_neo", "roberta"))
    wider = tuple(
        replace(x, num_parameters=2_000_000) if (x.family, x.variant) == ("roberta", "relu") else x
        for x in source.facts
    )
    for facts, expected in ((source.facts, ["width", "parameters", "FLOPs"]), (wider, ["width", "FLOPs"])):
        two = analyse(replace(source, facts=facts), Request(baseline="gelu"))
        assert [x.matched_in for x in result_of(two).matches if x.variant == "relu"] == expected
    drawn = draw_cost(two, result_of(two).arms)
    assert drawn is not None
    assert len(drawn[0].axes) == 6


def test_runs_that_could_not_compile_are_named_beside_the_costs(analysis: Analysis):
    eager = replace(analysis.facts[0], is_compile_failed=True)
    slowed = replace(analysis, source=replace(analysis.source, facts=(eager, *analysis.facts[1:])))
    text = "Compiling failed in gpt_neo/gelu/1"
    assert text in cost.section(slowed, result_of(analysis), PAGE).body
    assert text not in cost.section(analysis, result_of(analysis), PAGE).body


def test_the_figure_has_mean_scores_and_costs(analysis: Analysis):
    drawn = draw_cost(analysis, result_of(analysis).arms)
    assert drawn is not None
    axes = drawn[0].axes
    labels = [x.get_xlabel().replace("\n", " ") for x in axes]
    assert labels == ["parameters (millions)", "forward MFLOP per token", "training time (hours)"]
    means = analysis.source.rows.groupby("variant").score.mean()
    for panel, place, unit in zip(axes, (1, 2, 3), (1.0, 2.0, 1.0), strict=True):
        points = [x.lines[0].get_xydata()[0] for x in panel.containers]
        expected = [(unit * LEVELS[name][place], means[name]) for name in map(str, analysis.variants)]
        np.testing.assert_allclose(points, expected)


def test_without_levels_there_is_no_match_and_without_facts_no_part():
    plain = analyse(made(("gelu", "kan", "relu")), Request(baseline="gelu"))
    assert result_of(plain).matches == ()
    assert "matched with" not in cost.section(plain, result_of(plain), PAGE).body
    bare = analyse(replace(made(("gelu", "kan")), facts=()), Request(baseline="gelu"))
    assert cost.PART.of(bare) is None


def test_names_are_moved_apart_by_the_gap_and_no_more():
    assert keep_apart([0, 0, 5], 2) == pytest.approx([-1, 1, 5])
    assert keep_apart([0, 3, 9], 2) == pytest.approx([0, 3, 9])
    assert keep_apart([], 2) == []
