"""Learning curves and the unigram plateau against numpy and scipy on the same curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import brentq

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.run_facts import Evaluation, RunFacts
from report.inputs.sources import source_of_frame
from report.page import make_card
from report.part import Page
from report.parts import learning_curves
from report.parts.learning_curves import (
    LEAST_FALL,
    LearningCurves,
    draw_learning_curves,
    plateau_sentence,
    share_explained,
)
from report.request import Request

SHARES = np.linspace(0.1, 1.0, 10)
TOKENS = 1_000_000
PAGE = Page(alternative_texts={"learning-curves": "curves"})

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


def analysed(*runs: RunFacts) -> Analysis:
    """A report of the final losses of runs."""
    columns = ["run_id", "family", "variant", "seed", "benchmark", "metric", "score"]
    rows = [
        (x.run_id, x.family, x.variant, x.seed, "held-out-loss", "held_out_loss", x.curve[-1].loss)
        for x in runs
    ]
    source = source_of_frame(pd.DataFrame(rows, columns=columns))
    return analyse(replace(source, facts=runs), Request(baseline="gelu"))


def result_of(analysis: Analysis) -> LearningCurves:
    result = learning_curves.PART.of(analysis)
    assert result is not None
    return result


def roberta_run(variant: str, seed: int, losses, **fields) -> RunFacts:
    return run_facts("roberta", variant, seed, losses, word_frequency_loss=OF_FREQUENCIES, **fields)


@pytest.fixture(scope="module")
def seen() -> Analysis:
    return analysed(
        *(
            run_facts(family, variant, seed, losses, word_frequency_loss=OF_FREQUENCIES)
            for (family, variant), runs in SEEN.items()
            for seed, losses in enumerate(runs, start=1)
        )
    )


def test_mean_curves_and_differences_are_those_of_the_evaluations(seen: Analysis):
    result = result_of(seen)
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
    curves = result_of(analysed(*runs)).curves
    kan = curves[curves.run_id == "gpt_neo/kan/1"]
    np.testing.assert_allclose(kan.tokens, TOKENS * SHARES[1:-1])  # where both were evaluated
    np.testing.assert_allclose(kan.loss, 5 - np.log(kan.tokens / TOKENS))


def test_a_long_curve_is_shortened_and_keeps_its_ends():
    many = tuple(Evaluation(step, 3.0 - step / 1000, 10 * step, None) for step in range(1, 501))
    runs = [run_facts("gpt_neo", v, s, curve(SHARES), curve=many) for v in ("gelu", "kan") for s in (1, 2)]
    curves = result_of(analysed(*runs)).curves
    tokens = list(curves.tokens[curves.run_id == "gpt_neo/kan/1"])
    assert len(tokens) == 40
    assert (tokens[0], tokens[-1]) == (10, 5000)


def test_runs_that_did_not_finish_or_do_not_tell_are_left_out():
    whole = [roberta_run(v, s, falling(0.5)) for v in ("gelu", "kan") for s in (1, 2)]
    unfinished = roberta_run("kan", 3, falling(0.5), eval_loss=None)
    torn = tuple(x._replace(tokens=5000) for x in whole[0].curve)
    broken = roberta_run("kan", 4, falling(0.5), curve=torn)
    result = result_of(analysed(*whole, unfinished, broken))
    assert set(result.curves.run_id) == set(result.departures.run_id) == {x.run_id for x in whole}
    untold = tuple(Evaluation(x.step, x.loss) for x in whole[0].curve)
    old = [run_facts("gpt_neo", v, 1, curve(SHARES), curve=untold) for v in ("gelu", "kan")]
    assert learning_curves.PART.of(analysed(*old)) is None


def test_a_run_left_where_its_loss_is_half_of_the_way_down(seen: Analysis):
    result = result_of(seen)
    roberta = result.departures[result.departures.family == "roberta"]
    lowest = min(run[-1] for (family, _), of_arm in SEEN.items() if family == "roberta" for run in of_arm)
    threshold = (OF_FREQUENCIES + lowest) / 2
    np.testing.assert_allclose(roberta.threshold, threshold)
    runs = [losses for variant in ("gelu", "kan") for losses in SEEN["roberta", variant]]
    left = [
        brentq(lambda x, y=y: np.interp(x, np.log(SHARES), y) - threshold, *np.log([0.1, 1.0])) for y in runs
    ]
    np.testing.assert_allclose(roberta.tokens, TOKENS * np.exp(left), rtol=1e-6)
    within = [x - x.mean(axis=1, keepdims=True) for x in
              (np.reshape(left, (2, -1)), np.reshape([losses[-1] for losses in runs], (2, -1)))]  # fmt: skip
    expected = stats.pearsonr(*map(np.ravel, within)).statistic ** 2
    assert share_explained(roberta) == pytest.approx(expected)
    assert np.isnan(share_explained(roberta[:2]))
    gpt_neo = result.departures[result.departures.family == "gpt_neo"]
    assert set(gpt_neo.tokens) == {100_000}  # they had left by their first evaluation
    assert np.isnan(share_explained(gpt_neo))
    assert (roberta.is_bound.any(), gpt_neo.is_bound.all()) == (False, True)


def test_the_card_says_once_whether_all_runs_left(seen: Analysis):
    result = result_of(seen)
    latest = (result.departures.tokens / TOKENS).max()
    share = share_explained(result.departures[result.departures.family == "roberta"])
    sentence = (
        f"All 8 runs left the unigram plateau (5.88 nats), the last after {latest:.0%} of training; "
        f"within variants, that time goes with {share:.0%} of the variance of final losses."
    )
    assert plateau_sentence(result.departures) == sentence
    assert make_card(seen).markdown.count(sentence) == 1


def test_runs_that_stay_on_the_plateau_are_counted():
    runs = [roberta_run("gelu", 1, falling(2.0)), roberta_run("gelu", 2, falling(0.5))]
    runs += [roberta_run("kan", s, falling(0.5)) for s in (1, 2)]
    analysis = analysed(*runs)
    result = result_of(analysis)
    assert plateau_sentence(result.departures) == (
        "1 of 4 runs (`gelu` 1) did not leave the unigram plateau (5.88 nats): losses tell who leaves first, "
        "not where a variant ends."
    )
    section = learning_curves.section(analysis, result, PAGE)
    assert section.summary == "3 of 4 runs left the unigram plateau"
    assert "![curves](figures/learning-curves.svg)" in section.body


def test_no_run_has_left_where_none_fell_far():
    stuck = OF_FREQUENCIES * (1 - LEAST_FALL) + 0.01
    runs = [roberta_run(v, s, np.linspace(5.5, stuck, 10)) for v in ("gelu", "kan") for s in (1, 2)]
    departures = result_of(analysed(*runs)).departures
    assert departures.tokens.isna().all()
    assert plateau_sentence(departures) == (
        "None of 4 runs left the unigram plateau (5.88 nats), so their losses tell little."
    )


def test_nothing_is_said_where_the_unigram_loss_is_unknown():
    analysis = analysed(*(run_facts("roberta", v, s, falling(0.5)) for v in ("gelu", "kan") for s in (1, 2)))
    result = result_of(analysis)
    assert result.departures.empty
    assert list(learning_curves.checks(analysis, result)) == []
    assert learning_curves.section(analysis, result, PAGE).summary == ""


def test_the_figure_has_every_run_and_its_mean_and_leaves_out_the_start(seen: Analysis):
    result = result_of(seen)
    drawn = draw_learning_curves(seen, result.curves)
    assert drawn is not None
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
