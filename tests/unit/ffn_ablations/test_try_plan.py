"""What is run in so many minutes, of made-up seconds."""

import pytest

from base.errors import UsageError
from ffn_ablations.try_plan import RESERVE, Seconds, choose, may_fit_larger, study_seconds

FAST = [Seconds(2, 0.01, 0.1)] * 3
"""A run of mini-gpt-neo takes 13 s, one of tiny 6.17 s."""
SLOW = [Seconds(2, 0.04, 0.5)] * 3
"""A run of small-gpt-neo takes 135 s."""


@pytest.mark.parametrize(
    ("minutes", "workers", "size", "seeds"),
    [
        (2, 1, "mini-gpt-neo", None),  # 9 runs take 117 s
        (2.6, 1, "mini-gpt-neo", 3),
        (4, 1, "mini-gpt-neo", 5),
        (8, 2, "mini-gpt-neo", 20),
        (60, 1, "mini-gpt-neo", 20),  # 24 runs of the larger take 54 minutes
        (65, 1, "small-gpt-neo", 8),
        (1000, 1, "small-gpt-neo", 20),
    ],
)
def test_the_largest_study_that_fits_is_chosen(minutes, workers, size, seeds):
    measured = {"mini-gpt-neo": FAST, "small-gpt-neo": SLOW}
    if seeds is None:
        with pytest.raises(UsageError, match=r"3 seeds of mini-gpt-neo, 9 runs, .* --minutes 3,"):
            choose(measured, minutes, workers)
        return
    plan = choose(measured, minutes, workers)
    assert (plan.size, plan.seeds) == (size, seeds)
    assert plan.seconds <= (1 - RESERVE) * 60 * minutes


def test_the_minutes_that_an_error_names_are_enough():
    spent = 100.0
    with pytest.raises(UsageError) as error:
        choose({"tiny": FAST}, 1, 2, spent)
    named = int(str(error.value).split("--minutes ")[1].split(",")[0])
    assert choose({"tiny": FAST}, named, 2, spent).seeds >= 3
    with pytest.raises(UsageError):
        choose({"tiny": FAST}, named - 1, 2, spent)


def test_a_forecast_is_of_runs_side_by_side():
    assert study_seconds(FAST, "mini-gpt-neo", 3, 1) == pytest.approx(9 * 13)
    assert study_seconds(FAST, "mini-gpt-neo", 3, 2) == pytest.approx(5 * 13)
    assert not may_fit_larger(FAST, "mini-gpt-neo", 24 * 13 * 5.9, 1)
    assert may_fit_larger(FAST, "mini-gpt-neo", 24 * 13 * 6.1, 1)
