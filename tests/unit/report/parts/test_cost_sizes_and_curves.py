"""Costs, sizes and learning curves of runs, against numpy, pandas and scipy on the same runs."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import brentq

from report.analysis import Analysis
from report.inputs.run_facts import Evaluation, RunFacts
from report.inputs.sources import Source, source_of_frame
from report.page import card
from report.part import Page
from report.parts import cost, learning_curves, sizes
from report.request import Request
from report.significance.axes import Benchmark, places_of, plain
from report.write import number_tables
from tests.unit.report.studies import analysed

PAGE = Page(alternative_texts=dict.fromkeys(("cost", "across-sizes", "learning-curves"), "a figure"))
RUN_COLUMNS = ["run_id", "family", "variant", "seed", "benchmark", "metric", "score"]
cost_of, sizes_of, curves_of = cost.PART.of, sizes.PART.of, learning_curves.PART.of
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


def costly(families: tuple[str, ...] = ("gpt_neo",)) -> Source:
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
    return replace(source_of_frame(pd.DataFrame(rows, columns=RUN_COLUMNS)), facts=tuple(facts))


@pytest.fixture(scope="module")
def of_costs() -> Analysis:
    return analysed(costly(), baseline="gelu")


def test_means_and_spreads_are_those_of_pandas(of_costs: Analysis):
    facts = pd.DataFrame([vars(x) for x in of_costs.facts])
    hours = facts.groupby("variant").train_hours
    frame = cost.tables(of_costs, cost_of(of_costs))["cost"].set_index("variant")
    for variant in LEVELS:
        assert frame.train_hours[variant] == pytest.approx(hours.mean()[variant])
        assert frame.train_hours_sd[variant] == pytest.approx(hours.std()[variant])
        assert frame.flops_ratio[variant] == pytest.approx(LEVELS[variant][2])
        assert frame.num_runs[variant] == len(SEEDS)
    assert frame.matched_in["relu"] == "width, parameters, FLOPs"
    assert frame.matched_in["kan ffn_budget=params"] == "parameters"
    assert frame.matched_in["gelu"] == ""
    in_all = sum(x.train_hours for x in of_costs.facts)
    section = cost.section(of_costs, cost_of(of_costs), PAGE)
    minutes = round(60 * in_all)
    assert section.summary == f"20 runs, {minutes // 60} h {minutes % 60:02d} min of training"


def test_runs_of_a_tuning_are_in_the_total(of_costs: Analysis):
    others = tuple(replace(x, run_id=f"{x.run_id} tune") for x in of_costs.facts[:3])
    tuned = replace(of_costs, source=replace(of_costs.source, stages={"tune": (*others, of_costs.facts[0])}))
    result = cost.compute(tuned)
    assert result.num_runs == 23
    assert result.hours == pytest.approx(sum(x.train_hours for x in (*of_costs.facts, *others)))


def test_runs_that_could_not_compile_are_named_beside_the_costs(of_costs: Analysis):
    eager = replace(of_costs.facts[0], is_compile_failed=True)
    slowed = replace(of_costs, source=replace(of_costs.source, facts=(eager, *of_costs.facts[1:])))
    text = "failed in gpt_neo/gelu/1"
    assert text in cost.section(slowed, cost_of(of_costs), PAGE).body
    assert text not in cost.section(of_costs, cost_of(of_costs), PAGE).body


def test_the_figure_has_mean_scores_and_costs(of_costs: Analysis):
    drawn = cost.draw_cost(of_costs, cost_of(of_costs).arms)
    axes = drawn[0].axes
    labels = [x.get_xlabel().replace("\n", " ") for x in axes]
    assert labels == ["parameters (millions)", "forward MFLOP per token", "training time (min)"]
    means = of_costs.source.rows.groupby("variant").score.mean()
    for panel, place, unit in zip(axes, (1, 2, 3), (1.0, 2.0, 60.0), strict=True):
        points = [x.lines[0].get_xydata()[0] for x in panel.containers]
        expected = [(unit * LEVELS[name][place], means[name]) for name in map(str, of_costs.variants)]
        np.testing.assert_allclose(points, expected)


def test_far_from_the_baselines_parameters_is_named(of_costs: Analysis):
    (sentence,) = cost.checks(of_costs, cost_of(of_costs))
    ratios = cost_of(of_costs).arms.set_index("variant").parameters_ratio
    far = [name for name, ratio in ratios.items() if abs(ratio - 1) > 0.05]
    assert far
    for name in far:
        assert f"`{name}` {100 * (ratios[name] - 1):+.1f}%" in sentence


def test_far_from_the_baselines_flops_is_named_where_parameters_are_near(of_costs: Analysis):
    arms = cost_of(of_costs).arms
    flops = arms.flops_ratio.where(arms.variant != "relu", 0.7)
    (sentence,) = cost.checks(of_costs, replace(cost_of(of_costs), arms=arms.assign(flops_ratio=flops)))
    assert "; in FLOPs: `relu` -30.0%, " in sentence


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


def of_sizes(
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
    source = source_of_frame(pd.DataFrame(rows, columns=[*RUN_COLUMNS, "size"]), Request(axis=("size",)))
    facts = (
        RunFacts(
            run_id=str(row.run_id), family=row.family, variant=str(row.variant), seed=int(row.seed),
            num_parameters=int(PARAMETERS[dict(places_of(row.family))["size"]] * FACTORS.get(row.variant, 1)),
        )
        for row in source.rows.itertuples()
    )  # fmt: skip
    return replace(source, facts=tuple(facts))


def sizes_analysed(source: Source) -> Analysis:
    return analysed(source, baseline="gelu", margin=("held-out-loss=0.02",))


@pytest.fixture(scope="module")
def over_sizes() -> Analysis:
    return sizes_analysed(of_sizes())


def trends_of(result: sizes.Sizes) -> Mapping[str, pd.Series]:
    return {str(row["variant"]): row for _, row in result.trends.iterrows()}


def differences(source: Source, variant: str, family: str = "gpt_neo") -> list[float]:
    """To the baseline at each size, by means over seeds."""
    means = source.rows.groupby(["variant", "family"]).score.mean()
    own = {key: mean for key, mean in means.items() if plain(key[1]) == family}
    by_size = {(name, dict(places_of(setting))["size"]): mean for (name, setting), mean in own.items()}
    return [by_size[variant, size] - by_size["gelu", size] for size in PARAMETERS]


LOG_SIZES = np.log(list(PARAMETERS.values()))


def test_the_change_is_that_of_scipys_line(over_sizes: Analysis):
    for variant, trend in trends_of(sizes_of(over_sizes)).items():
        line = stats.linregress(LOG_SIZES, differences(over_sizes.source, variant))
        assert trend.change == pytest.approx(line.slope * np.ptp(LOG_SIZES))
        assert trend["first"] == pytest.approx(line.intercept + line.slope * LOG_SIZES[0])
        assert trend["last"] == pytest.approx(line.intercept + line.slope * LOG_SIZES[-1])
        assert trend.sizes == "+".join(PARAMETERS)
    written = number_tables(over_sizes)["size_trends"]
    assert list(written.change) == list(sizes_of(over_sizes).trends.change)


def test_settings_beside_size_are_averaged():
    source = of_sizes(families=("gpt_neo", "roberta"))
    result = sizes_of(sizes_analysed(source))
    found = [differences(source, "kan", family) for family in ("gpt_neo", "roberta")]
    change = stats.linregress(LOG_SIZES, np.mean(found, axis=0)).slope * np.ptp(LOG_SIZES)
    assert trends_of(result)["kan"].change == pytest.approx(change)
    assert set(result.ladders) == {"gpt_neo", "roberta"}


def test_a_table_takes_sizes_from_their_names():
    parameters = sizes_of(sizes_analysed(replace(of_sizes(), facts=()))).parameters
    assert sorted(set(parameters.values())) == pytest.approx([2e5, 5e5, 2e6])


def test_a_size_without_the_baseline_is_named_and_the_others_are_compared():
    first, *others = PARAMETERS
    over_sizes = sizes_analysed(of_sizes(without=[("gelu", first)]))
    assert sizes_of(over_sizes).levels == others
    body = sizes.section(over_sizes, sizes_of(over_sizes), PAGE).body
    assert f"Left out, as `gelu` has no run of a known size: {first}." in body
    only_one = of_sizes(without=[("gelu", first), ("gelu", others[0])])
    assert sizes.PART.of(sizes_analysed(only_one)) is None


def test_a_line_goes_through_the_sizes_with_runs():
    names = list(PARAMETERS)
    gaps = [("kan", names[0]), *(("none", size) for size in names[:2])]
    over_sizes = sizes_analysed(of_sizes(without=gaps))
    trends = trends_of(sizes_of(over_sizes))
    assert trends["kan"].sizes == "+".join(names[1:])
    assert trends["swiglu"].sizes == "+".join(names)
    assert "none" not in trends
    in_two_families = sizes_of(sizes_analysed(of_sizes(families=("gpt_neo", "roberta"), without=gaps)))
    assert trends_of(in_two_families)["kan"].sizes == "+".join(names[1:])
    assert f"| `kan` | {names[1]}, {names[2]} |" in sizes.section(over_sizes, sizes_of(over_sizes), PAGE).body


def test_one_size_and_sizes_as_the_factor_have_no_such_part():
    assert sizes.PART.of(sizes_analysed(of_sizes(sizes=("2M",)))) is None
    compared = analysed(of_sizes(sizes=("0.2M", "2M")), factor="size", baseline="0.2M")
    assert sizes.PART.of(compared) is None
    assert compared.others == ("2M",)


def test_the_figure_has_the_comparisons_of_each_size(over_sizes: Analysis):
    """Not a second estimate of them, nor another interval."""
    drawn = sizes.draw_sizes(over_sizes, sizes_of(over_sizes))
    (axes,) = drawn[0].axes
    assert axes.get_xlabel() == "parameters (millions)"
    assert len(axes.containers) == len(over_sizes.others)
    for number, container in enumerate(axes.containers):
        comparisons = [over_sizes.of(LOSS, setting)[number] for setting in over_sizes.families]
        by_size = sorted(comparisons, key=lambda c: PARAMETERS[dict(places_of(c.family))["size"]])
        np.testing.assert_allclose(container.lines[0].get_ydata(), [c.estimate for c in by_size])
        lengths = [np.ptp(segment[:, 1]) for segment in container.lines[2][0].get_segments()]
        assert lengths == [0.0] * len(by_size)  # exploratory, as the average is primary


def test_at_one_size_are_an_estimate_and_its_error_but_no_test(over_sizes: Analysis):
    table = number_tables(over_sizes)["comparisons"].set_index("is_primary")
    assert table.loc[True].verdict.notna().all()
    assert table.loc[False].index.size == len(PARAMETERS) * len(over_sizes.others)
    assert table.loc[False, ["estimate", "standard_error", "df"]].notna().all(axis=None)
    tests = table.filter(regex="^(p|p_.*|low.*|high.*|level_.*|smallest_margin|verdict)$")
    assert tests.loc[True].notna().any().all()
    assert tests.loc[False].isna().all(axis=None)


SHARES = np.linspace(0.1, 1.0, 10)
TOKENS = 1_000_000

OF_FREQUENCIES = 5.88


def curve(share):
    return 1.8 + 0.9 * np.asarray(share) ** -0.25


def falling(at: float, end: float = 2.9, sharpness: float = 25.0):
    """A plateau at 5.3 nats that a run leaves at a share of its training."""
    return end + (5.3 - end) / (1 + np.exp(sharpness * (SHARES - at)))


# A causal model that has left the plateau by its first evaluation, and a masked one that takes its time.
SEEN = {
    ("gpt_neo", "gelu"): [curve(SHARES), curve(SHARES) + 0.01],
    ("gpt_neo", "kan"): [curve(SHARES) + 0.05, curve(SHARES) + 0.08],
    ("roberta", "gelu"): [falling(0.5, end=3.07), falling(0.6, end=3.2)],
    ("roberta", "kan"): [falling(0.45, end=2.94), falling(0.4, end=2.88)],
}


def run_facts(family: str, variant: str, seed: int, losses, **fields) -> RunFacts:
    """Facts of a finished run that was evaluated at ``SHARES``."""
    evaluations = tuple(
        Evaluation(step, float(loss), round(TOKENS * share), share)
        for step, (share, loss) in enumerate(zip(SHARES, losses, strict=True), start=1)
    )
    fields = {"eval_loss": float(losses[-1]), "curve": evaluations, **fields}
    return RunFacts(run_id=f"{family}/{variant}/{seed}", family=family, variant=variant, seed=seed, **fields)


def curves_analysed(*runs: RunFacts) -> Analysis:
    """A report of the final losses of runs."""
    names = ("held-out-loss", "held_out_loss")
    rows = [(x.run_id, x.family, x.variant, x.seed, *names, x.curve[-1].loss) for x in runs]
    source = source_of_frame(pd.DataFrame(rows, columns=RUN_COLUMNS))
    return analysed(replace(source, facts=runs), baseline="gelu")


def roberta_run(variant: str, seed: int, losses, **fields) -> RunFacts:
    return run_facts("roberta", variant, seed, losses, word_frequency_loss=OF_FREQUENCIES, **fields)


@pytest.fixture(scope="module")
def seen() -> Analysis:
    return curves_analysed(
        *(
            run_facts(family, variant, seed, losses, word_frequency_loss=OF_FREQUENCIES)
            for (family, variant), runs in SEEN.items()
            for seed, losses in enumerate(runs, start=1)
        )
    )


def test_mean_curves_and_differences_are_those_of_the_evaluations(seen: Analysis):
    result = curves_of(seen)
    frame = learning_curves.tables(seen, result)["learning_curves"]
    for (family, variant), losses in SEEN.items():
        rows = frame[(frame.family == family) & (frame.variant == variant)]
        means, base = np.mean(losses, axis=0), np.mean(SEEN[family, "gelu"], axis=0)
        np.testing.assert_allclose(rows.tokens, TOKENS * SHARES)
        np.testing.assert_allclose(rows.loss, means)
        np.testing.assert_allclose(rows.difference, means - base, atol=1e-12)
        assert set(rows.num_runs) == {2}


def test_curves_are_read_off_between_evaluations_in_the_logarithm_of_tokens():
    few = tuple(Evaluation(i, 5 - np.log(x), round(TOKENS * x)) for i, x in enumerate((0.2, 0.37, 0.9)))
    runs = [run_facts("gpt_neo", "gelu", s, curve(SHARES)) for s in (1, 2)]
    runs += [run_facts("gpt_neo", "kan", s, curve(SHARES), curve=few, eval_loss=few[-1].loss) for s in (1, 2)]
    curves = curves_of(curves_analysed(*runs)).curves
    kan = curves[curves.run_id == "gpt_neo/kan/1"]
    np.testing.assert_allclose(kan.tokens, TOKENS * SHARES[1:-1])  # where both were evaluated
    np.testing.assert_allclose(kan.loss, 5 - np.log(kan.tokens / TOKENS))


def test_a_long_curve_is_shortened_and_keeps_its_ends():
    many = tuple(Evaluation(step, 3.0 - step / 1000, 10 * step, None) for step in range(1, 501))
    runs = [run_facts("gpt_neo", v, s, curve(SHARES), curve=many) for v in ("gelu", "kan") for s in (1, 2)]
    curves = curves_of(curves_analysed(*runs)).curves
    tokens = list(curves.tokens[curves.run_id == "gpt_neo/kan/1"])
    assert len(tokens) == 40
    assert (tokens[0], tokens[-1]) == (10, 5000)


def test_runs_that_did_not_finish_or_do_not_tell_are_left_out():
    whole = [roberta_run(v, s, falling(0.5)) for v in ("gelu", "kan") for s in (1, 2)]
    unfinished = roberta_run("kan", 3, falling(0.5), eval_loss=None)
    torn = tuple(x._replace(tokens=5000) for x in whole[0].curve)
    broken = roberta_run("kan", 4, falling(0.5), curve=torn)
    result = curves_of(curves_analysed(*whole, unfinished, broken))
    assert set(result.curves.run_id) == set(result.departures.run_id) == {x.run_id for x in whole}
    untold = tuple(Evaluation(x.step, x.loss) for x in whole[0].curve)
    old = [run_facts("gpt_neo", v, 1, curve(SHARES), curve=untold) for v in ("gelu", "kan")]
    assert learning_curves.PART.of(curves_analysed(*old)) is None


def test_a_run_left_where_its_loss_is_half_of_the_way_down(seen: Analysis):
    result = curves_of(seen)
    roberta = result.departures[result.departures.family == "roberta"]
    lowest = min(run[-1] for (family, _), of_arm in SEEN.items() if family == "roberta" for run in of_arm)
    threshold = (OF_FREQUENCIES + lowest) / 2
    np.testing.assert_allclose(roberta.threshold, threshold)
    runs = [losses for variant in ("gelu", "kan") for losses in SEEN["roberta", variant]]
    x, ends = np.log(SHARES), np.log([0.1, 1.0])
    left = [brentq(lambda at, y=y: np.interp(at, x, y) - threshold, *ends) for y in runs]
    np.testing.assert_allclose(roberta.tokens, TOKENS * np.exp(left), rtol=1e-6)
    gpt_neo = result.departures[result.departures.family == "gpt_neo"]
    assert set(gpt_neo.tokens) == {100_000}  # they had left by their first evaluation
    assert (roberta.is_bound.any(), gpt_neo.is_bound.all()) == (False, True)


@pytest.mark.parametrize(
    ("corpora", "named"),
    [
        (["/home/me/a.txt, ../b.txt, /home/me/c.txt"] * 2, "1.0M tokens of a.txt, b.txt and 1 more"),
        (["roneneldan/TinyStories (Hugging Face hub)"] * 2, "of roneneldan/TinyStories (Hugging Face hub)"),
        (["embedded grammar, 2,000 stories"] * 2, "of embedded grammar, 2,000 stories)"),
        (["one.txt", "other.txt"], "1.0M tokens)"),
    ],
)
def test_the_card_names_the_texts_that_all_runs_share(corpora: list[str], named: str) -> None:
    runs = [
        run_facts("gpt_neo", variant, 1, curve(SHARES), corpus=corpus)
        for variant, corpus in zip(("gelu", "kan"), corpora, strict=True)
    ]
    assert named in card(curves_analysed(*runs))


def test_the_card_says_once_whether_all_runs_left(seen: Analysis):
    result = curves_of(seen)
    latest = (result.departures.tokens / TOKENS).max()
    sentence = f"All 8 runs left the unigram plateau (5.88 nats), the last after {latest:.0%} of training."
    assert learning_curves.plateau_sentence(result.departures) == sentence
    assert card(seen).count(sentence) == 1


def test_runs_that_stay_on_the_plateau_are_counted():
    runs = [roberta_run("gelu", 1, falling(2.0)), roberta_run("gelu", 2, falling(0.5))]
    runs += [roberta_run("kan", s, falling(0.5)) for s in (1, 2)]
    analysis = curves_analysed(*runs)
    result = curves_of(analysis)
    said = learning_curves.plateau_sentence(result.departures)
    assert said.startswith("1 of 4 runs (`gelu` 1) did not leave the unigram plateau (5.88 nats)")
    section = learning_curves.section(analysis, result, PAGE)
    assert section.summary == "3 of 4 runs left the unigram plateau"
    assert "![a figure](figures/learning-curves.svg)" in section.body


def test_who_left_is_not_told_of_a_family_that_fell_little(seen: Analysis):
    few = curves_analysed(*(roberta_run(v, s, 5.0 - SHARES) for v in ("gelu", "kan") for s in (1, 2)))
    little = curves_of(few).departures.assign(family="gpt_neo", threshold=np.nan, tokens=np.nan)
    far = curves_of(seen).departures
    told, of_both = map(learning_curves.plateau_sentence, (far, pd.concat([far, little])))
    assert of_both.startswith(told)
    assert "4 runs end at 4.00 nats, not 30% below the unigram loss (5.88)" in of_both
    stuck = OF_FREQUENCIES * (1 - learning_curves.LEAST_FALL) + 0.01
    near = curves_analysed(*(roberta_run(v, 1, np.linspace(5.5, stuck, 10)) for v in ("gelu", "kan")))
    assert "left" not in learning_curves.section(near, curves_of(near), PAGE).summary


def test_nothing_is_said_where_the_unigram_loss_is_unknown():
    runs = [run_facts("roberta", v, s, falling(0.5)) for v in ("gelu", "kan") for s in (1, 2)]
    analysis = curves_analysed(*runs)
    result = curves_of(analysis)
    assert result.departures.empty
    assert list(learning_curves.checks(analysis, result)) == []
    assert learning_curves.section(analysis, result, PAGE).summary == ""


def test_the_figure_has_every_run_and_its_mean_and_leaves_out_the_start(seen: Analysis):
    result = curves_of(seen)
    drawn = learning_curves.draw_learning_curves(seen, result.curves)
    loss, difference = drawn[0].axes[:2]
    assert len(loss.lines) == 2 * (2 + 1)
    for line, run in zip(loss.lines[:2], SEEN["gpt_neo", "gelu"], strict=True):
        np.testing.assert_allclose(line.get_xdata(), SHARES)
        np.testing.assert_allclose(line.get_ydata(), run)
    gelu, kan = (np.mean(SEEN["gpt_neo", v], axis=0) for v in ("gelu", "kan"))
    np.testing.assert_allclose(loss.lines[2].get_ydata(), gelu)
    np.testing.assert_allclose(difference.lines[-1].get_ydata(), kan - gelu)
    bottom, top = loss.get_ylim()
    assert bottom < min(x[-1] for x in SEEN["gpt_neo", "gelu"])
    assert max(x[1] for x in SEEN["gpt_neo", "kan"]) < top < SEEN["gpt_neo", "kan"][0][0]
