"""Costs and matched levels against plain loops and pandas, verdicts against the comparisons they are of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.run_facts import Evaluation, RunFacts
from report.inputs.sources import Source, source_of_frame
from report.part import Page
from report.parts import cost
from report.parts.cost import Cost, draw_cost
from report.request import Request

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


def made(families: tuple[str, ...] = ("gpt_neo",)) -> Source:
    """Losses of known differences; a curve comes down to its last loss evenly over its hours."""
    rng = np.random.default_rng(0)
    rows, facts = [], []
    for family in families:
        for name, (above, parameters, flops, hours, width, budget) in LEVELS.items():
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
    assert frame.matched_in["kan ffn_budget=params"] == "parameters"
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
    assert labels == ["parameters (millions)", "forward MFLOP per token", "training time (min)"]
    means = analysis.source.rows.groupby("variant").score.mean()
    for panel, place, unit in zip(axes, (1, 2, 3), (1.0, 2.0, 60.0), strict=True):
        points = [x.lines[0].get_xydata()[0] for x in panel.containers]
        expected = [(unit * LEVELS[name][place], means[name]) for name in map(str, analysis.variants)]
        np.testing.assert_allclose(points, expected)


def test_a_figure_has_a_panel_for_each_family_and_cost():
    two = analyse(made(("gpt_neo", "roberta")), Request(baseline="gelu"))
    drawn = draw_cost(two, result_of(two).arms)
    assert drawn is not None
    assert len(drawn[0].axes) == 6


def test_far_from_the_baselines_parameters_is_named(analysis: Analysis):
    (sentence,) = cost.checks(analysis, result_of(analysis))
    ratios = result_of(analysis).arms.set_index("variant").parameters_ratio
    far = [name for name, ratio in ratios.items() if abs(ratio - 1) > 0.05]
    assert far
    for name in far:
        assert f"`{name}` {100 * (ratios[name] - 1):+.1f}%" in sentence


def test_far_from_the_baselines_flops_is_named_where_parameters_are_near(analysis: Analysis):
    arms = result_of(analysis).arms
    flops = arms.flops_ratio.where(arms.variant != "relu", 0.7)
    (sentence,) = cost.checks(analysis, replace(result_of(analysis), arms=arms.assign(flops_ratio=flops)))
    assert "; in FLOPs: `relu` -30.0%, " in sentence


def test_without_facts_there_is_no_part():
    bare = analyse(replace(made(), facts=()), Request(baseline="gelu"))
    assert cost.PART.of(bare) is None
