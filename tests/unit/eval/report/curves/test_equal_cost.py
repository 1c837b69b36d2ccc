"""Equal what: which level answers which question, and the frontier, against plain loops and scipy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.curves.equal_cost import TOLERANCE, EqualCosts, without_budget
from eval.report.exports import number_tables
from eval.report.figures.cost import draw_cost
from eval.report.inputs.run_facts import Evaluation, RunFacts
from eval.report.inputs.sources import Source, source_of_frame
from eval.report.sections.equal_cost import equal_cost_section
from eval.report.sections.training import cost_section
from eval.significance.axes import Benchmark

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


def losses(analysis: Analysis, name: str) -> np.ndarray:
    rows = analysis.source.rows
    return rows.score[rows.variant == name].to_numpy()


def test_a_level_is_named_without_its_budget():
    assert without_budget("kan grid_size=3 ffn_budget=params") == "kan grid_size=3"
    assert without_budget("kan") == "kan"


def test_each_question_is_answered_by_the_level_that_is_equal_in_it(analysis: Analysis):
    found = {(x.variant, x.question): x for x in analysis.costs.answers}
    levels = {key: str(x.level) for key, x in found.items()}
    assert levels == {
        ("kan", "width"): "kan",
        ("kan", "parameters"): "kan ffn_budget=params",
        ("kan", "FLOPs"): "kan ffn_budget=flops",
        ("relu", "width"): "relu",
        ("relu", "parameters"): "relu",
        ("relu", "FLOPs"): "relu",
    }
    assert found["kan", "parameters"].ratio == pytest.approx(1.03)
    c = found["kan", "parameters"].comparison
    test = stats.ttest_ind(
        losses(analysis, "kan ffn_budget=params"), losses(analysis, "gelu"), equal_var=False
    )
    assert c.p == pytest.approx(test.pvalue)


def test_the_frontier_is_what_no_cheaper_level_beats(analysis: Analysis):
    runs = {name: losses(analysis, name) for name in LEVELS}
    for cost, place in (("parameters", 1), ("training FLOPs", 2), ("hours", 3)):
        for name, own in LEVELS.items():
            rivals = [x for x in LEVELS if x != name and LEVELS[x][place] <= own[place] * (1 + TOLERANCE)]
            better = [x for x in rivals if runs[x].mean() < runs[name].mean()]
            shown = [
                x
                for x in better
                if stats.ttest_ind(runs[x], runs[name], equal_var=False).pvalue * len(rivals) < 0.05
            ]
            found = analysis.costs.standing("gpt_neo", name, cost)
            assert found is not None
            wanted = "behind" if shown else "not told from it" if better else "on the frontier"
            assert found.standing == wanted
            if shown:
                assert found.ahead == min(shown, key=lambda x: runs[x].mean())
    standings = {x.standing for x in analysis.costs.points}
    assert standings == {"on the frontier", "not told from it", "behind"}


def test_training_flops_are_three_forward_passes_over_all_tokens(analysis: Analysis):
    found = analysis.costs.standing("gpt_neo", "gelu", "training FLOPs")
    assert found is not None
    assert found.value == 3 * 2e6 * TOKENS


def test_the_table_and_the_figure_say_it(analysis: Analysis):
    said = equal_cost_section(analysis, CONTEXT)
    row = next(line for line in said.splitlines() if line.startswith("| `kan` |"))
    assert row.count("**worse**") >= 2
    assert "*+3.0%*" in row
    assert "at equal time" not in said
    assert "figures/cost.svg" in said
    assert "figures/cost.svg" not in cost_section(analysis, CONTEXT)
    drawn = draw_cost(analysis)
    assert drawn is not None
    labels = [axes.get_xlabel().replace("\n", " ") for axes in drawn[0].axes]
    assert labels == ["parameters (millions)", "training FLOPs (1e12)", "training time (hours)"]
    steps = [line for line in drawn[0].axes[0].lines if line.get_drawstyle() == "steps-post"]
    assert len(steps) == 1
    on_it = [x for x in analysis.costs.points if (x.cost, x.standing) == ("parameters", "on the frontier")]
    assert list(steps[0].get_ydata()[:-1]) == [x.score for x in sorted(on_it, key=lambda x: x.value)]
    assert {"equal_costs", "frontier"} <= set(number_tables(analysis))


def test_families_are_averaged_and_folded_below():
    two = analyse(made(families=("gpt_neo", "roberta")), Request(baseline="gelu"))
    said = equal_cost_section(two, CONTEXT)
    assert "<summary>In RoBERTa</summary>" in said
    drawn = draw_cost(two)
    assert drawn is not None
    assert len(drawn[0].axes) == 6


def test_a_study_without_budgets_has_none_of_it():
    plain = analyse(made(("gelu", "kan", "relu")), Request(baseline="gelu"))
    assert plain.costs == EqualCosts()
    assert equal_cost_section(plain, CONTEXT) == ""
    assert "figures/cost.svg" in cost_section(plain, CONTEXT)
    drawn = draw_cost(plain)
    assert drawn is not None
    assert "forward MFLOP per token" in [axes.get_xlabel() for axes in drawn[0].axes]
    assert plain.benchmarks == (Benchmark("held-out-loss"),)
