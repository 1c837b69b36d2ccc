"""Findings against scipy, and how often they find something where nothing is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.inspection.findings import DIFFERS, EQUAL, NOT_SHOWN, ONE_RUN, Question, judge


def question(values, control, paired: bool = True, name: str = "x") -> Question:
    return Question("part", "gpt_neo", "kan", name, "nats", "control", tuple(values), tuple(control), paired)


def test_p_values_and_intervals_are_those_of_t_tests_corrected_together():
    rng = np.random.default_rng(0)
    paired = [(rng.normal(0.3, 1, 6), rng.normal(0, 1, 6)) for _ in range(3)]
    apart = [(rng.normal(1, 2, 5), rng.normal(0, 1, 7)) for _ in range(3)]
    found = judge([question(*pair) for pair in paired] + [question(*two, paired=False) for two in apart])
    alone = [stats.ttest_rel(*pair) for pair in paired] + [
        stats.ttest_ind(*two, equal_var=False) for two in apart
    ]
    p_values = np.array([test.pvalue for test in alone])
    order = np.argsort(p_values)
    corrected = np.empty(6)
    corrected[order] = np.maximum.accumulate(p_values[order] * [6, 5, 4, 3, 2, 1]).clip(max=1)  # Holm
    for finding, test, p in zip(found, alone, corrected, strict=True):
        assert finding.p == pytest.approx(p, rel=1e-9)
        ends = test.confidence_interval(1 - 0.05 / 6)
        assert (finding.low, finding.high) == pytest.approx((ends.low, ends.high), rel=1e-9)


def test_intervals_agree_with_verdicts():
    rng = np.random.default_rng(1)
    for _ in range(50):
        findings = judge([question(rng.normal(shift, 1, 5), np.zeros(5)) for shift in (0, 1, 2, 3, 4)])
        for x in findings:
            assert (x.verdict == DIFFERS) == (x.p < 0.05)
            if x.verdict == NOT_SHOWN:
                assert x.low < 0 < x.high
            else:
                assert x.low * x.high >= 0


def test_what_has_no_spread_is_equal_or_not_shown_and_one_run_says_nothing():
    same, shifted, single = judge(
        [question([1, 2, 3], [1, 2, 3]), question([1, 2, 3], [0, 1, 2]), question([1], [0])]
    )
    assert (same.verdict, same.p, same.low) == (EQUAL, None, None)
    assert (shifted.verdict, shifted.p) == (NOT_SHOWN, None)
    assert (single.verdict, single.p) == (ONE_RUN, None)


def test_what_float32_rounds_is_no_finding():
    """Losses that all rise by two millionths: a spread so small would make that significant."""
    (found,) = judge([question([2.0e-6, 2.1e-6, 1.9e-6, 2.0e-6], [0, 0, 0, 0])])
    assert (found.verdict, found.p) == (EQUAL, None)


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.ci
def test_a_page_of_nothing_finds_something_in_at_most_5_percent(runs):
    """Forty questions of correlated noise; the bound is that of a binomial test at one in a thousand."""
    rng, pages, found = np.random.default_rng(runs), 400, 0
    for _ in range(pages):
        shared = rng.normal(size=(runs, 1))
        values = 0.7 * shared + rng.normal(size=(runs, 40)) * rng.lognormal(size=40)
        questions = [question(column, np.zeros(runs)) for column in values[:, :20].T]
        questions += [
            question(a, b, paired=False) for a, b in zip(values[:, :20].T, values[:, 20:].T, strict=True)
        ]
        found += any(x.verdict == DIFFERS for x in judge(questions))
    assert stats.binomtest(found, pages, 0.05, alternative="greater").pvalue > 0.001, found
